"""Every wrong vocabulary is refused with a sentence, and every guess is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.text.tokenizer import load_tokenizer
from engine.text.vocabulary import TokenizerError, read_vocabulary

Make = Callable[..., dict[str, Any]]
P = "tokenizer.ggml."


def changed(metadata: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """``metadata`` with tokenizer keys replaced; None removes one."""
    full = metadata | {P + key: value for key, value in changes.items()}
    return {key: value for key, value in full.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": None}, "no tokenizer"),
        ({"model": "bert"}, "kind 'bert'"),
        ({"model": 7}, "kind 7"),
        ({"tokens": None}, "tokens is missing"),
        ({"tokens": []}, "empty"),
        ({"tokens": "abc"}, "should be a list"),
        ({"tokens": [1, 2]}, "not text"),
        ({"tokens": ["a", "b", "a"]}, "'a' twice, as token 0 and as token 2"),
        ({"token_type": [1, 1]}, "2 entries"),
        ({"token_type": ["x"] * 259}, "not all numbers"),
        ({"merges": None}, "merges is missing"),
        ({"merges": [1]}, "not all text"),
        ({"merges": ["ab"]}, "Merge 0 is 'ab'"),
        ({"pre": 3}, "should be a text"),
        ({"eos_token_id": 259}, "eos_token_id is 259, but the vocabulary has only 259 tokens"),
        ({"eos_token_id": -2}, "eos_token_id is -2"),
        ({"eos_token_id": "2"}, "should be a number"),
        ({"eos_token_id": True}, "should be a number"),
        ({"add_bos_token": True}, "bos_token_id is missing"),
        ({"add_bos_token": 1}, "should be true or false"),
    ],
)
def test_bad_metadata(changes: dict[str, Any], says: str, make_bytes: Make) -> None:
    metadata = make_bytes(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    with pytest.raises(TokenizerError, match=says):
        load_tokenizer(changed(metadata, **changes))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"scores": None}, "scores is missing"),
        ({"scores": [0.0]}, "1 entries"),
        ({"scores": "x"}, "should be a list"),
    ],
)
def test_bad_sentencepiece_metadata(changes: dict[str, Any], says: str, spm_golden: Any) -> None:
    with pytest.raises(TokenizerError, match=says):
        load_tokenizer(changed(spm_golden["plain"]["metadata"], **changes))


def test_scores_and_byte_tokens_are_checked(spm_golden: Any) -> None:
    metadata = spm_golden["plain"]["metadata"]
    scores = [float("nan")] * len(metadata[P + "scores"])
    with pytest.raises(TokenizerError, match="NaN"):
        load_tokenizer(changed(metadata, scores=scores))
    tokens = ["no byte" if word == "<0x41>" else word for word in metadata[P + "tokens"]]
    with pytest.raises(TokenizerError, match="1 of the 256 are missing"):
        load_tokenizer(changed(metadata, tokens=tokens))


def test_arrays_of_numpy_are_lists_too(spm_golden: Any) -> None:
    metadata = spm_golden["plain"]["metadata"]
    arrays = {
        "scores": np.asarray(metadata[P + "scores"], np.float32),
        "token_type": np.asarray(metadata[P + "token_type"], np.int32),
    }
    tokenizer = load_tokenizer(changed(metadata, **arrays))
    assert tokenizer.encode("the fox") == load_tokenizer(metadata).encode("the fox")


@pytest.mark.parametrize(("pre", "says"), [("brandnew", "'brandnew'"), (None, "does not name")])
def test_an_unknown_pre_tokenizer_is_told(pre: str | None, says: str, make_bytes: Make) -> None:
    tokenizer = load_tokenizer(changed(make_bytes([]), pre=pre))
    (warning,) = tokenizer.warnings
    assert says in warning
    assert tokenizer.decode(tokenizer.encode("It's 12:30.")) == "It's 12:30."


@pytest.mark.parametrize(
    ("control", "user", "ends"),
    [
        (["<|eot_id|>", "<|eom_id|>", "<|start_header_id|>"], [], {"<|eot_id|>", "<|eom_id|>"}),
        (["</s>", "<s>"], [], {"</s>"}),
        ([], ["</s>", "<b>"], set()),
        ([], ["<|im_end|>", "<think>"], {"<|im_end|>"}),
        (["<|end|>", "<|user|>"], [], {"<|end|>"}),
        (["<|end|>", "<|return|>", "<|call|>"], [], {"<|return|>", "<|call|>"}),
        (["<end_of_turn>", "<eos>"], [], {"<end_of_turn>", "<eos>"}),
    ],
)
def test_tokens_that_end_an_answer(
    control: list[str], user: list[str], ends: set[str], make_bytes: Make
) -> None:
    tokenizer = load_tokenizer(make_bytes(control, user))
    assert {tokenizer.token_text(index) for index in tokenizer.eos_ids} == ends


def test_named_end_tokens_count_whatever_they_are_called(make_bytes: Make) -> None:
    metadata = changed(make_bytes(["a_1", "a_2", "a_3"]), eos_token_id=0, eot_token_id=2)
    assert load_tokenizer(metadata).eos_ids == {0, 2}


def test_chat_tokens_are_control_even_where_marked_as_text(make_bytes: Make) -> None:
    tokenizer = load_tokenizer(make_bytes([], ["<|im_start|>", "<think>"]))
    assert set(tokenizer.special_tokens) == {"<|im_start|>"}
    assert tokenizer.encode("<think>") == [1]  # an ordinary added token is found in text
    assert "<||>" not in load_tokenizer(make_bytes([], ["<||>"])).special_tokens  # an operator


def test_missing_ids_are_none_or_sentencepieces_own(make_bytes: Make, spm_golden: Any) -> None:
    none = read_vocabulary(changed(make_bytes([]), eos_token_id=0xFFFFFFFF))
    assert (none.bos_id, none.eos_id) == (None, None)
    unnamed = dict.fromkeys(("bos_token_id", "eos_token_id", "unknown_token_id"))
    usual = read_vocabulary(changed(spm_golden["plain"]["metadata"], **unnamed))
    assert (usual.unk_id, usual.bos_id, usual.eos_id) == (0, 1, 2)


def test_an_empty_token_does_no_harm(make_bytes: Make) -> None:
    metadata = make_bytes([])
    metadata[P + "tokens"].append("")
    metadata[P + "token_type"].append(1)
    assert load_tokenizer(metadata).token_text(256) == "[EMPTY_256]"


@pytest.mark.parametrize("merges", [["a b"], ["a zz"], ["t 0", "t 1"]])
def test_merges_of_unknown_tokens_are_left_out_and_said(
    merges: list[str], make_bytes: Make
) -> None:
    metadata = make_bytes(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer = load_tokenizer(changed(metadata, merges=merges))
    assert "left out" in " ".join(tokenizer.warnings)
    assert tokenizer.decode(tokenizer.encode("ab")) == "ab"
