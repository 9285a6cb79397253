"""The vocabulary of a GGUF file, read and checked before any tokenizer is built on it.

A model file comes from anywhere, so every key is checked for presence, type and range here. The
rest of the room may then rely on what a :class:`Vocabulary` promises.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from engine.text.errors import TextError
from engine.text.pretokenizers import recipe_for

_PREFIX = "tokenizer.ggml."
_NO_ID = frozenset({-1, 0xFFFFFFFF})  # how converters write "this model has no such token"

# Names by which models end a turn. Metadata names one or two of them at most; a chat model may
# produce any that it has.
_END_NAMES = frozenset(
    {
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|end_of_turn|>",
        "<|end_of_role|>",
        "<|eot|>",
        "<|return|>",
        "<|call|>",
        "<|user_end|>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
        "<end_of_turn>",
        "<end_of_utterance>",
        "<turn|>",
        "<EOT>",
        "[EOT]",
        "[EOS]",
        "<｜end▁of▁sentence｜>",  # noqa: RUF001 (the model's own full-width bars)
    }
)
_END_NAMES_IF_CONTROL = frozenset({"</s>", "<eos>", "[e~["})  # elsewhere these are HTML or text

# Added tokens of chat formats are control tokens even where a converter marked them as text.
_CONTROL_LOOK = re.compile(r"<\|[\w:.-]+\|>|<｜[^\s<>]+｜>|<(?:start|end)_of_turn>")  # noqa: RUF001


class TokenizerError(TextError):
    """The vocabulary of a model file cannot be used; the text says why."""


class TokenType(enum.IntEnum):
    """What a token is for (the numbers of ``tokenizer.ggml.token_type``)."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """Checked tokenizer metadata.

    Attributes:
        kind: ``bpe`` (byte-level, with merges) or ``spm`` (SentencePiece, merged by score).
        tokens: text of each id, as the file has it; all different.
        types: :class:`TokenType` of each id.
        scores: one a token for ``spm``, empty for ``bpe``.
        merges: pairs in order of rank for ``bpe``, empty for ``spm``.
        pre: name of the pre-tokenizer for ``bpe``.
        bos_id, eos_id, unk_id, pad_id: None where the model has no such token.
        end_ids: every token that ends an answer.
        rstrip: a special token also swallows the white space behind it (Phi-3).
        warnings: sentences for the person, about what had to be guessed.
    """

    kind: str
    tokens: Sequence[str]
    types: Sequence[int]
    scores: Sequence[float]
    merges: Sequence[tuple[str, str]]
    pre: str
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    pad_id: int | None
    end_ids: frozenset[int]
    add_bos: bool
    add_space_prefix: bool
    rstrip: bool
    warnings: tuple[str, ...]

    def ids_of(self, *kinds: TokenType) -> list[int]:
        """Ids whose type is one of ``kinds``, ascending."""
        return [index for index, kind in enumerate(self.types) if kind in kinds]


def read_vocabulary(metadata: Mapping[str, object]) -> Vocabulary:
    """Read ``tokenizer.ggml.*``; :class:`TokenizerError` says what is wrong with it."""
    kind = _kind(metadata)
    tokens = _tokens(metadata)
    types = _types(metadata, tokens)
    warnings: list[str] = []
    pre = metadata.get(_PREFIX + "pre")
    if pre is not None and not isinstance(pre, str):
        raise TokenizerError(_wrong("pre", "a text", pre))
    recipe = recipe_for(pre)
    if kind == "bpe" and recipe.warning:
        warnings.append(recipe.warning)
    ids = {
        name: _token_id(metadata, key, len(tokens))
        for name, key in (
            ("bos", "bos_token_id"),
            ("eos", "eos_token_id"),
            ("eot", "eot_token_id"),
            ("eom", "eom_token_id"),
            ("unk", "unknown_token_id"),
            ("pad", "padding_token_id"),
        )
    }
    if kind == "spm":
        _default_spm_ids(ids, types)
    add_bos = _flag(metadata, "add_bos_token", kind == "spm" or recipe.add_bos)
    if add_bos and ids["bos"] is None:
        raise TokenizerError(
            "The tokenizer asks for a token at the beginning of every text (add_bos_token) but does"
            " not say which (bos_token_id is missing). Get the file again from its publisher."
        )
    return Vocabulary(
        kind=kind,
        tokens=tokens,
        types=types,
        scores=_scores(metadata, len(tokens)) if kind == "spm" else (),
        merges=_merges(metadata) if kind == "bpe" else (),
        pre=recipe.name,
        bos_id=ids["bos"],
        eos_id=ids["eos"],
        unk_id=ids["unk"],
        pad_id=ids["pad"],
        end_ids=_end_ids(tokens, types, (ids["eos"], ids["eot"], ids["eom"])),
        add_bos=add_bos,
        add_space_prefix=_flag(metadata, "add_space_prefix", kind == "spm"),
        rstrip=kind == "spm" and metadata.get("general.architecture") == "phi3",
        warnings=tuple(warnings),
    )


def _kind(metadata: Mapping[str, object]) -> str:
    model = metadata.get(_PREFIX + "model")
    if model is None:
        raise TokenizerError(
            "The file has no tokenizer (tokenizer.ggml.model is missing), so it is not a complete"
            " language model. Choose another file."
        )
    kind = {"gpt2": "bpe", "llama": "spm"}.get(model) if isinstance(model, str) else None
    if kind is None:
        raise TokenizerError(
            f"The tokenizer of this model is of the kind {model!r}; Driftwood reads 'gpt2' and"
            " 'llama'. Choose another model."
        )
    return kind


def _tokens(metadata: Mapping[str, object]) -> list[str]:
    tokens = _array(metadata, "tokens")
    if not tokens:
        raise TokenizerError("The vocabulary of this model is empty (tokenizer.ggml.tokens).")
    if set(map(type, tokens)) != {str}:
        raise TokenizerError("The vocabulary of this model holds entries that are not text.")
    words = cast("list[str]", tokens)
    if "" in words:
        words = [word or f"[EMPTY_{index}]" for index, word in enumerate(words)]
    if len(set(words)) != len(words):
        seen: dict[str, int] = {}
        for index, word in enumerate(words):
            first = seen.setdefault(word, index)
            if first != index:
                raise TokenizerError(
                    f"The vocabulary lists {word!r} twice, as token {first} and as token {index};"
                    " the file is damaged. Download it again."
                )
    return words


def _types(metadata: Mapping[str, object], tokens: Sequence[str]) -> list[int]:
    key = _PREFIX + "token_type"
    if metadata.get(key) is None:
        types = [int(TokenType.NORMAL)] * len(tokens)
    else:
        raw = _array(metadata, "token_type")
        _same_length("token_type", raw, len(tokens))
        if not set(map(type, raw)) <= {int}:
            raise TokenizerError("The token types (tokenizer.ggml.token_type) are not all numbers.")
        types = cast("list[int]", raw)
    normal = int(TokenType.NORMAL)
    known = frozenset(map(int, TokenType))
    types = [kind if kind in known else normal for kind in types]
    for index, word in enumerate(tokens):
        if word[0] == "<" and types[index] in (normal, 4) and _CONTROL_LOOK.fullmatch(word):
            types[index] = int(TokenType.CONTROL)
    return types


def _scores(metadata: Mapping[str, object], size: int) -> list[float]:
    raw = _array(metadata, "scores")
    _same_length("scores", raw, size)
    if not set(map(type, raw)) <= {int, float}:
        raise TokenizerError("The token scores (tokenizer.ggml.scores) are not all numbers.")
    scores = cast("list[float]", raw)
    if any(map(math.isnan, scores)):
        raise TokenizerError("The token scores (tokenizer.ggml.scores) hold a value that is NaN.")
    return scores


def _merges(metadata: Mapping[str, object]) -> list[tuple[str, str]]:
    raw = _array(metadata, "merges")
    if not set(map(type, raw)) <= {str}:
        raise TokenizerError("The merges (tokenizer.ggml.merges) are not all text.")
    pairs: list[tuple[str, str]] = []
    for rank, merge in enumerate(cast("list[str]", raw)):
        left, gap, right = merge.partition(" ")
        if not (left and gap and right):
            raise TokenizerError(f"Merge {rank} is {merge!r}; two tokens and a space are expected.")
        pairs.append((left, right))
    return pairs


def _default_spm_ids(ids: dict[str, int | None], types: Sequence[int]) -> None:
    """SentencePiece's usual ids, where the file names none and the tokens there agree."""
    for name, index, kinds in (("unk", 0, (2,)), ("bos", 1, (3,)), ("eos", 2, (3,))):
        if ids[name] is None and index < len(types) and types[index] in kinds:
            ids[name] = index


def _end_ids(
    tokens: Sequence[str], types: Sequence[int], named: Sequence[int | None]
) -> frozenset[int]:
    ends = {index for index in named if index is not None}
    by_name: dict[str, int] = {}
    for index, word in enumerate(tokens):
        added = types[index] != TokenType.NORMAL
        control = types[index] == TokenType.CONTROL
        if (word in _END_NAMES and added) or (word in _END_NAMES_IF_CONTROL and control):
            by_name[word] = index
    if "<|return|>" in by_name and "<|call|>" in by_name:
        by_name.pop("<|end|>", None)  # Harmony: <|end|> closes a channel, the answer goes on
    return frozenset(ends | set(by_name.values()))


def _array(metadata: Mapping[str, object], key: str) -> list[object]:
    value = metadata.get(_PREFIX + key)
    if value is None:
        raise TokenizerError(
            f"The tokenizer of this model is incomplete: tokenizer.ggml.{key} is missing."
        )
    if isinstance(value, np.ndarray):
        return cast("list[object]", cast("np.ndarray[Any, Any]", value).tolist())
    if isinstance(value, (list, tuple)):
        return list(cast("Sequence[object]", value))
    raise TokenizerError(_wrong(key, "a list", value))


def _same_length(key: str, values: Sequence[object], size: int) -> None:
    if len(values) != size:
        raise TokenizerError(
            f"The vocabulary has {size:,} tokens but tokenizer.ggml.{key} has {len(values):,}"
            " entries; the file is damaged. Download it again."
        )


def _token_id(metadata: Mapping[str, object], key: str, size: int) -> int | None:
    value = metadata.get(_PREFIX + key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TokenizerError(_wrong(key, "a number", value))
    index = int(cast("int", value))
    if index in _NO_ID:
        return None
    if not 0 <= index < size:
        raise TokenizerError(
            f"tokenizer.ggml.{key} is {index}, but the vocabulary has only {size:,} tokens;"
            " the file is damaged. Download it again."
        )
    return index


def _flag(metadata: Mapping[str, object], key: str, default: bool) -> bool:
    value = metadata.get(_PREFIX + key, default)
    if not isinstance(value, (bool, np.bool_)):
        raise TokenizerError(_wrong(key, "true or false", value))
    return bool(cast("bool", value))


def _wrong(key: str, expected: str, value: object) -> str:
    return (
        f"tokenizer.ggml.{key} should be {expected}, but it is of the type {type(value).__name__}."
    )
