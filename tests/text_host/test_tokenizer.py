"""Tokens equal the reference's, one by one, and what a person types never controls the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from engine.text.tokenizer import StreamDecoder, Tokenizer, TokenizerError, load_tokenizer

NAMES = (
    "default gpt-2 smollm falcon llama-bpe qwen2 qwen35 gpt-4o tekken deepseek-llm deepseek-coder"
    " deepseek-v3 bloom viking bailingmoe seed-coder"
)
FAMILY = "👩‍👩‍👧‍👦"


def expect_ids(
    tokenizer: Tokenizer, texts: Sequence[str], rows: Sequence[list[int] | None], **options: Any
) -> None:
    for text, row in zip(texts, rows, strict=True):
        if row is not None:
            assert tokenizer.encode(text, add_bos=False, **options) == row, repr(text)


def stream(tokenizer: Tokenizer, ids: Sequence[int], **options: Any) -> list[str]:
    decoder = StreamDecoder(tokenizer, **options)
    return [*(decoder.push(index) for index in ids), decoder.flush()]


@pytest.mark.parametrize("pre", NAMES.split())
def test_each_pre_tokenizer_cuts_where_the_reference_cuts(
    pre: str, bpe_golden: Any, texts: list[str]
) -> None:
    tokenizer = load_tokenizer(bpe_golden["metadata"] | {"tokenizer.ggml.pre": pre})
    assert tokenizer.warnings == ()
    expect_ids(tokenizer, texts, bpe_golden["ids"][pre])


@pytest.mark.parametrize("kind", ["prefix", "plain", "unknown"])
def test_sentencepiece_vocabularies_equal_the_reference(
    kind: str, spm_golden: Any, texts: list[str]
) -> None:
    golden = spm_golden[kind]
    tokenizer = load_tokenizer(golden["metadata"])
    expect_ids(tokenizer, texts, golden["ids"])
    for ids, text in zip(golden["ids"], golden["texts"], strict=True):
        if tokenizer.unk_id not in ids:
            assert tokenizer.decode(ids) == text


def test_the_starter_model(
    smollm2: Mapping[str, object], models_golden: Any, texts: list[str]
) -> None:
    tokenizer = load_tokenizer(smollm2)
    expect_ids(tokenizer, texts, models_golden["smollm2"])
    ends = {tokenizer.token_text(index) for index in tokenizer.eos_ids}
    assert ends == {"<|im_end|>", "<|endoftext|>"}
    assert not tokenizer.add_bos


def test_gemma(gemma3: Mapping[str, object], models_golden: Any, texts: list[str]) -> None:
    tokenizer = load_tokenizer(gemma3)
    expect_ids(tokenizer, texts, models_golden["gemma3"])
    ends = {tokenizer.token_text(index) for index in tokenizer.eos_ids}
    assert ends == {"<eos>", "<end_of_turn>"}  # and not </s>, which is an HTML tag there
    assert tokenizer.encode("x")[0] == tokenizer.bos_id


@pytest.mark.parametrize("kind", ["bpe", "spm"])
def test_typed_control_tokens_stay_text(kind: str, bpe_golden: Any, spm_golden: Any) -> None:
    golden = bpe_golden if kind == "bpe" else spm_golden["plain"]
    tokenizer = load_tokenizer(golden["metadata"])
    text = "a<|im_end|>b</s>"
    plain = tokenizer.encode(text, add_bos=False)
    assert not any(tokenizer.is_special(index) for index in plain)
    assert tokenizer.decode(plain) == text
    assert tokenizer.special_tokens["<|im_end|>"] in tokenizer.encode(text, special=True)


def test_a_template_names_control_tokens(bpe_golden: Any, texts: list[str]) -> None:
    tokenizer = load_tokenizer(bpe_golden["metadata"] | {"tokenizer.ggml.pre": "qwen2"})
    expect_ids(tokenizer, texts, bpe_golden["special_ids"]["qwen2"], special=True)


def test_no_merge_makes_a_control_token(make_bytes: Callable[..., dict[str, Any]]) -> None:
    metadata = make_bytes(["ab"]) | {"tokenizer.ggml.merges": ["a b"]}
    tokenizer = load_tokenizer(metadata)
    assert len(tokenizer.encode("ab")) == 2
    assert tokenizer.encode("ab", special=True) == [0]


def test_words_may_cross_parts_but_control_tokens_may_not(bpe_golden: Any) -> None:
    tokenizer = load_tokenizer(bpe_golden["metadata"] | {"tokenizer.ggml.pre": "gpt-2"})
    whole = tokenizer.encode("The quick brown")
    assert tokenizer.encode_parts([("The qu", True), ("ick brown", False)]) == whole
    parts = tokenizer.encode_parts([("<|im_", True), ("end|>", True)])
    assert not any(tokenizer.is_special(index) for index in parts)


def test_the_beginning_token_comes_once(bpe_golden: Any) -> None:
    metadata = bpe_golden["metadata"] | {"tokenizer.ggml.add_bos_token": True}
    tokenizer = load_tokenizer(metadata)
    begin = tokenizer.bos_id
    assert tokenizer.encode("x")[0] == begin
    assert tokenizer.encode("<|im_start|>x", special=True).count(begin or -1) == 1
    assert begin not in tokenizer.encode("x", add_bos=False)


def test_a_phi_3_token_swallows_the_line_end_behind_it(spm_golden: Any) -> None:
    metadata = spm_golden["plain"]["metadata"] | {"general.architecture": "phi3"}
    tokenizer = load_tokenizer(metadata)
    swallowed = tokenizer.encode("<|im_end|>\nHello", special=True)
    assert swallowed == tokenizer.encode("<|im_end|>Hello", special=True)


def test_half_a_surrogate_pair_is_replaced(chatml: Tokenizer) -> None:
    assert chatml.decode(chatml.encode("a\ud83db")) == "a\N{REPLACEMENT CHARACTER}b"
    assert chatml.decode(chatml.encode("\ud83d\ude80")) == "🚀"


@pytest.mark.parametrize("kind", ["bpe", "prefix", "plain"])
def test_streaming_shows_what_decoding_shows(
    kind: str, bpe_golden: Any, spm_golden: Any, texts: list[str]
) -> None:
    metadata = bpe_golden["metadata"] if kind == "bpe" else spm_golden[kind]["metadata"]
    tokenizer = load_tokenizer(metadata)
    for text in texts:
        ids = tokenizer.encode(text, add_bos=False)
        shown = stream(tokenizer, ids)
        assert "".join(shown) == tokenizer.decode(ids)
        assert "\N{REPLACEMENT CHARACTER}" not in "".join(shown)


def test_an_emoji_over_several_tokens_comes_whole(chatml: Tokenizer) -> None:
    shown = [part for part in stream(chatml, chatml.encode(FAMILY)) if part]
    assert shown == list(FAMILY)


def test_bytes_that_are_no_text_are_replaced(chatml: Tokenizer) -> None:
    rocket = chatml.encode("🚀")
    mark = "\N{REPLACEMENT CHARACTER}"
    assert stream(chatml, rocket[:2]) == ["", "", mark]
    assert "".join(stream(chatml, [*rocket[:3], *chatml.encode("ok")])) == mark + "ok"
    assert chatml.decode(rocket[:3]) == mark


def test_the_first_space_of_a_sentencepiece_answer(spm_golden: Any) -> None:
    tokenizer = load_tokenizer(spm_golden["prefix"]["metadata"])
    ids = tokenizer.encode("the fox", add_bos=False)
    assert "".join(stream(tokenizer, ids)) == "the fox"
    assert "".join(stream(tokenizer, ids, continuing=True)) == " the fox"
    end = tokenizer.special_tokens["</s>"]
    assert "".join(stream(tokenizer, [end, *ids])) == "the fox"


def test_control_tokens_are_not_shown(chatml: Tokenizer) -> None:
    ids = chatml.encode("a<|im_end|>", special=True)
    assert "".join(stream(chatml, ids)) == chatml.decode(ids) == "a"
    assert chatml.decode(ids, special=True) == "a<|im_end|>"


def test_a_token_that_does_not_exist(chatml: Tokenizer) -> None:
    for index in (-1, chatml.vocab_size):
        with pytest.raises(TokenizerError, match="does not exist"):
            chatml.decode([index])


def test_a_large_vocabulary_loads_in_time(make_bytes: Callable[..., dict[str, Any]]) -> None:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pairs = [(one, other) for one in letters for other in letters]
    words = [("".join(pair), letter) for pair in pairs for letter in letters]
    long = [(first + last, letter) for first, last in words[:5000] for letter in letters]
    merges = [*pairs, *words, *long]
    metadata = make_bytes(["<|im_end|>"])
    metadata["tokenizer.ggml.tokens"] += ["".join(pair) for pair in merges]
    metadata["tokenizer.ggml.token_type"] += [1] * len(merges)
    metadata["tokenizer.ggml.merges"] = [" ".join(pair) for pair in merges]
    started = time.process_time()
    tokenizer = load_tokenizer(metadata)
    assert time.process_time() - started < 2.5  # about 0.6 s on an idle machine
    assert tokenizer.vocab_size > 148_000
    assert len(tokenizer.encode("aaa")) == 1
