from __future__ import annotations

import pytest

from app.cli.arguments import UsageError, parse


def test_chat_takes_what_it_documents() -> None:
    words = (
        "chat hi --model m --system s --temperature 0 --top-k 5 --top-p 0.5 --min-p 0.1 --seed 3 "
        "--max-tokens 9 --context 512 --raw --json --backend wgpu --device RTX --verbose "
        "--without fusion,f16"
    )
    options = parse(words.split())
    assert (options.prompt, options.temperature, options.top_k) == ("hi", 0.0, 5)
    assert options.without == ["fusion", "f16"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("chat --temperature -1", "at least 0"),
        ("chat --temperature inf", "out of range"),
        ("chat --temperature nan", "out of range"),
        ("chat --temperature hot", "not a number"),
        ("chat --top-p 1.5", "0 to 1"),
        ("chat --top-k 1.5", "not a whole number"),
        ("chat --max-tokens 0", "the least is 1"),
        ("chat --seed -1", "the least is 0"),
        ("chat --backend cuda", "invalid choice"),
        ("chat --without magic", 'no technique "magic"'),
        ("chat a b", "unrecognized"),
        ("models", "required: ACTION"),
        ("models get", "required: NAME"),
        ("bench", "required"),
        ("bench speed", "invalid choice"),
        ("dance", "invalid choice"),
    ],
)
def test_wrong_words_are_told(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(words.split())


def test_help_leaves_with_success(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["chat", "--help"])
    assert caught.value.code == 0
    assert "--max-tokens" in capsys.readouterr().out
