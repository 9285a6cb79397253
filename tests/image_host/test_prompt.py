"""Prompts become the tokens that diffusers uses, with emphasis, chunks, and word of what is cut."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.formats.diffusers import TokenizerFiles
from engine.formats.errors import CorruptFile
from engine.image.prompt import Part, apply_weights, encode_prompt, matched, parse_emphasis
from engine.image.prompt_tokenizer import PromptTokenizer, load_prompt_tokenizer

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "assets" / "starter-image" / "tokenizer"
STARTER = TokenizerFiles(
    FOLDER / "tokenizer.json", FOLDER / "vocab.json", FOLDER / "merges.txt", positions=32
)
GOLDEN = json.loads((ROOT / "tests" / "golden" / "prompts" / "tokens.json").read_text())


@pytest.fixture(scope="module")
def starter() -> PromptTokenizer:
    return load_prompt_tokenizer(STARTER)


@pytest.fixture(scope="module")
def clip() -> PromptTokenizer:
    return load_prompt_tokenizer(TokenizerFiles())


# ---- Tokens


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["text"][:20])
def test_tokens_equal_transformers(starter, clip, case):
    assert starter.encode(case["text"]) == case["starter"]
    assert clip.encode(case["text"]) == case["clip"]


def test_a_tokenizer_without_its_vocabulary_is_read_from_json():
    tokenizer = load_prompt_tokenizer(replace(STARTER, vocab=None))
    assert tokenizer.encode(GOLDEN[3]["text"]) == GOLDEN[3]["starter"]
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (4998, 4999, 4999)


def test_clips_own_tokens_need_no_file(clip):
    assert clip.encode("a photo of a cat") == [320, 1125, 539, 320, 2368]
    assert (clip.bos_id, clip.eos_id, clip.pad_id) == (49406, 49407, 49407)
    assert load_prompt_tokenizer(TokenizerFiles(pad="!")).pad_id == 0


# ---- Emphasis


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a cat", [("a cat", 1)]),
        ("a (red:1.2) cat", [("a ", 1), ("red", 1.2), (" cat", 1)]),
        ("a (red) cat", [("a ", 1), ("red", 1.1), (" cat", 1)]),
        ("a [red] cat", [("a ", 1), ("red", 1 / 1.1), (" cat", 1)]),
        ("((red))", [("red", 1.1 * 1.1)]),
        ("(a (red:2) cat:0.5)", [("a ", 0.5), ("red", 1.0), (" cat", 0.5)]),
        (r"a \(red\) cat", [("a (red) cat", 1)]),
        (r"back\\slash \[x\]", [(r"back\slash [x]", 1)]),
        ("(open", [("open", 1.1)]),
        ("[open", [("open", 1 / 1.1)]),
        ("close) it]", [("close) it]", 1)]),
        ("ratio 16:9) here", [("ratio 16:9) here", 1)]),
        ("(a: b)", [("a: b", 1.1)]),
        ("(x:1.2.3)", [("x:1.2.3", 1.1)]),
        ("(x:.5)", [("x", 0.5)]),
        ("(x: 2 )", [("x", 2)]),
        ("(x:-1)", [("x", -1)]),
        ("(x:99999)", [("x", 10)]),
        ("()", []),
        ("", []),
        ("one BREAK two", [("one", 1), (None, 1), ("two", 1)]),
        ("BREAKFAST", [("BREAKFAST", 1)]),
        ("(one BREAK two)", [("one", 1.1), (None, 1), ("two", 1.1)]),
    ],
)
def test_emphasis(text, parts):
    found = [(part.text, round(part.weight, 6)) for part in parse_emphasis(text)]
    assert found == [(words, round(weight, 6)) for words, weight in parts]


def test_thousands_of_brackets_take_no_time():
    start = time.process_time()
    for text in ("(a" * 5000, "(" * 9999, "[(" * 4000 + ")]" * 4000, "(a:" * 5000):
        parse_emphasis(text)
    assert time.process_time() - start < 2


def test_weights_lie_on_their_tokens(clip):
    prompt = encode_prompt(clip, "a (red:1.5) cat")
    assert list(prompt.ids[0, :5]) == [49406, 320, 736, 2368, 49407]
    assert list(prompt.weights[0, :5]) == [1, 1, 1.5, 1, 1]
    assert prompt.weighted
    assert not encode_prompt(clip, "a red cat").weighted


def test_weighing_keeps_the_mean_and_leaves_weight_1_alone():
    hidden = np.random.default_rng(1).standard_normal((1, 4, 8)).astype(np.float32) + 0.5
    weights = np.ones((1, 4), np.float32)
    assert apply_weights(hidden, weights) is hidden
    weights[0, 2] = 1.5
    weighed = apply_weights(hidden, weights)
    assert weighed.mean() == pytest.approx(hidden.mean(), rel=1e-5)
    ratio = weighed[0, 2] / hidden[0, 2] / (weighed[0, 1] / hidden[0, 1])
    np.testing.assert_allclose(ratio, 1.5, rtol=1e-5)
    assert np.isfinite(apply_weights(hidden * 0, weights)).all()


# ---- Length


def test_a_short_prompt_is_padded_to_the_encoders_length(clip, starter):
    prompt = encode_prompt(clip, "a cat")
    assert prompt.ids.shape == prompt.weights.shape == (1, 77)
    assert list(prompt.ids[0, :4]) == [49406, 320, 2368, 49407]
    assert set(prompt.ids[0, 4:].tolist()) == {49407}
    assert (prompt.eos, prompt.tokens, prompt.limit, prompt.note) == ((3,), 2, 75, None)
    assert encode_prompt(starter, "a cat").ids.shape == (1, 32)


def test_an_empty_prompt_is_start_and_end(clip):
    prompt = encode_prompt(clip, "")
    assert (prompt.chunks, prompt.tokens, prompt.eos) == (1, 0, (1,))


def test_a_pad_that_is_no_end_token_leaves_one_end(clip):
    prompt = encode_prompt(load_prompt_tokenizer(TokenizerFiles(pad="!")), "a cat")
    assert list(prompt.ids[0, 2:6]) == [2368, 49407, 0, 0]


def test_long_prompts_are_read_in_chunks(clip):
    prompt = encode_prompt(clip, "blue cat " * 50)
    assert (prompt.chunks, prompt.tokens, prompt.cut) == (2, 100, "")
    assert prompt.eos == (76, 26)
    whole = [token for row, end in zip(prompt.ids, prompt.eos, strict=True) for token in row[1:end]]
    assert whole == clip.encode("blue cat " * 50)
    assert prompt.note == "The prompt has 100 tokens; it is read in 2 chunks of 75."


def test_exactly_full_is_one_chunk(clip):
    assert encode_prompt(clip, "cat " * 75).chunks == 1
    assert encode_prompt(clip, "cat " * 76).chunks == 2


def test_short_encoders_cut_and_say_what(starter):
    text = "a red apple " * 9 + "and a green pear on top"
    prompt = encode_prompt(starter, text)
    assert (prompt.chunks, prompt.limit) == (1, 30)
    assert text.endswith(prompt.cut)
    kept = text[: -len(prompt.cut)]
    assert starter.encode(kept) == prompt.ids[0, 1:31].tolist()
    assert prompt.note
    assert f'Left out: "{prompt.cut}".' in prompt.note
    assert "reads 30" in prompt.note


def test_what_is_cut_includes_later_parts(starter):
    prompt = encode_prompt(starter, "cat " * 29 + "(very red:1.3) apple (and:2) pear")
    assert prompt.cut == "red apple and pear"


def test_chunks_can_be_asked_for_and_refused(starter, clip):
    assert encode_prompt(starter, "cat " * 40, chunked=True).chunks == 2
    assert encode_prompt(clip, "cat " * 80, chunked=False).cut == "cat cat cat cat cat"


def test_break_begins_a_new_chunk(clip):
    prompt = encode_prompt(clip, "a cat BREAK a dog")
    assert [row[1:4].tolist() for row in prompt.ids] == [[320, 2368, 49407], [320, 1929, 49407]]
    assert encode_prompt(clip, "BREAK a cat BREAK BREAK").chunks == 1


def test_both_prompts_get_the_same_number_of_chunks(clip):
    long, short = encode_prompt(clip, "cat " * 100), encode_prompt(clip, "bad")
    one, other = matched(clip, long, short)
    assert one is long
    assert other.ids.shape == (2, 77)
    assert list(other.ids[1, :3]) == [49406, 49407, 49407]
    assert other.eos == (2, 1)


def test_an_end_token_in_the_text_is_where_the_pooled_output_is(clip):
    assert encode_prompt(clip, "cat <|endoftext|> dog").eos == (2,)


# ---- What is refused, and how


def files(tmp_path, *, vocab="{}", merges="", tokenizer=None) -> TokenizerFiles:
    (tmp_path / "vocab.json").write_bytes(vocab if isinstance(vocab, bytes) else vocab.encode())
    (tmp_path / "merges.txt").write_text(merges)
    if tokenizer is not None:
        (tmp_path / "tokenizer.json").write_text(tokenizer)
        return TokenizerFiles(json=tmp_path / "tokenizer.json")
    return TokenizerFiles(vocab=tmp_path / "vocab.json", merges=tmp_path / "merges.txt")


ENDS = '{"<|startoftext|>": 0, "<|endoftext|>": 1, "a</w>": 2}'


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"vocab": "["}, "not JSON"),
        ({"vocab": "[" * 99_999}, "not JSON"),
        ({"vocab": b"\xff"}, "cannot be read"),
        ({"vocab": "[1]"}, "does not map"),
        ({"vocab": '{"a": "b"}'}, "does not map"),
        ({"vocab": '{"a": 1}'}, "no <|startoftext|>".replace("|", r"\|")),
        ({"vocab": ENDS, "merges": "a b c"}, "line 1 is not a pair"),
        ({"vocab": ENDS, "merges": "x y"}, "damaged"),
        ({"tokenizer": "{}"}, "tokenizer.json is damaged"),
        ({"tokenizer": "nonsense"}, "tokenizer.json is damaged"),
    ],
)
def test_broken_tokenizers_are_refused(tmp_path, broken, message):
    with pytest.raises(CorruptFile, match=message):
        load_prompt_tokenizer(files(tmp_path, **broken))


def test_parts_are_plain_values():
    assert parse_emphasis("x") == (Part("x"),)
