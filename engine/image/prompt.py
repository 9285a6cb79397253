"""Prompts for CLIP text encoders: emphasis, tokens, chunks, and what does not fit.

Emphasis is written as A1111-style tools do: ``(word:1.2)`` weighs 1.2, ``(word)`` 1.1, ``[word]``
1 / 1.1, nested ones multiply, ``\\(`` is a plain bracket, and BREAK begins a new chunk. A prompt
without any of that gives exactly the tokens that diffusers gives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.image.prompt_tokenizer import PromptTokenizer

UP, DOWN = 1.1, 1 / 1.1
MAX_NESTING = 64  # brackets that are open at once; deeper ones are plain text
MAX_WEIGHT = 10.0
FULL_LIMIT = 75  # tokens that a text encoder of the usual length takes
NEW_CHUNK = None  # stands for BREAK among the parts of a prompt

_MARK = re.compile(
    r"\\([()\[\]\\])"  # a plain bracket
    r"|:\s*([+-]?\d*\.?\d+|[+-]?\d+\.)\s*\)"  # the end of a weighted span
    r"|([()\[\]])"
    r"|\s*\bBREAK\b\s*"
)

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """A run of text with one weight; ``text`` is None where a new chunk begins."""

    text: str | None
    weight: float = 1.0


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt as the text encoder takes it.

    ``ids`` int32 and ``weights`` float32 are [chunks, positions]: the start token, up to ``limit``
    tokens, the end token, padding. ``eos`` [chunks] is the place of the first end token, whose
    output is the pooled one (of the first chunk). ``tokens`` counts those of the whole prompt;
    ``cut`` is the text that did not fit.
    """

    ids: Ids
    weights: Floats
    eos: tuple[int, ...]
    tokens: int
    limit: int
    cut: str

    @property
    def chunks(self) -> int:
        """How many times the text encoder runs."""
        return len(self.eos)

    @property
    def weighted(self) -> bool:
        """Whether any token weighs other than 1."""
        return bool(np.any(self.weights != 1))

    @property
    def note(self) -> str | None:
        """A sentence about what was cut or chunked, or None when all fits at once."""
        if self.cut:
            shown = self.cut if len(self.cut) <= 60 else self.cut[:60] + "..."
            return (
                f"The prompt has {self.tokens} tokens and this model reads {self.limit}. "
                f'Left out: "{shown}".'
            )
        if self.chunks > 1:
            return (
                f"The prompt has {self.tokens} tokens; it is read in {self.chunks} chunks of "
                f"{self.limit}."
            )
        return None


def parse_emphasis(text: str) -> tuple[Part, ...]:
    """The parts of a prompt, neighbours of one weight joined."""
    parts: list[tuple[str | None, float]] = []
    open_spans: dict[str, list[int]] = {"(": [], "[": []}

    def weigh(bracket: str, weight: float) -> None:
        start = open_spans[bracket].pop()
        parts[start:] = [(words, value * weight) for words, value in parts[start:]]

    place = 0
    for mark in _MARK.finditer(text):
        if mark.start() > place:
            parts.append((text[place : mark.start()], 1.0))
        place = mark.end()
        escaped, number, bracket = mark.groups()
        nesting = len(open_spans["("]) + len(open_spans["["])
        if escaped:
            parts.append((escaped, 1.0))
        elif number and open_spans["("]:
            weigh("(", float(number))
        elif bracket in ("(", "[") and nesting < MAX_NESTING:
            open_spans[bracket].append(len(parts))
        elif bracket == ")" and open_spans["("]:
            weigh("(", UP)
        elif bracket == "]" and open_spans["["]:
            weigh("[", DOWN)
        elif not (number or bracket):
            parts.append((NEW_CHUNK, 1.0))
        else:
            parts.append((mark.group(), 1.0))
    parts.append((text[place:], 1.0))
    for bracket, weight in (("(", UP), ("[", DOWN)):
        while open_spans[bracket]:
            weigh(bracket, weight)
    return _joined(parts)


def _joined(parts: list[tuple[str | None, float]]) -> tuple[Part, ...]:
    joined: list[Part] = []
    for text, weight in parts:
        weight = min(max(weight, -MAX_WEIGHT), MAX_WEIGHT)
        last = joined[-1] if joined else Part(NEW_CHUNK)
        if text is None:
            joined.append(Part(NEW_CHUNK))
        elif last.text is not None and last.weight == weight:
            joined[-1] = Part(last.text + text, weight)
        elif text:
            joined.append(Part(text, weight))
    return tuple(joined)


def encode_prompt(
    tokenizer: PromptTokenizer, text: str, *, chunked: bool | None = None
) -> EncodedPrompt:
    """The tokens of a prompt, in as many chunks as it needs when ``chunked``, else cut to one.

    By default encoders of the usual 77 positions read chunks; shorter ones were not made for it.
    """
    limit = tokenizer.limit
    if chunked is None:
        chunked = limit >= FULL_LIMIT
    chunks: list[list[tuple[int, float]]] = [[]]
    cut: list[str] = []
    total = 0
    for part in parse_emphasis(text):
        if part.text is None:
            if chunked and chunks[-1]:
                chunks.append([])
            continue
        for token, place in tokenizer.encode_with_places(part.text):
            total += 1
            if cut:
                continue
            if len(chunks[-1]) == limit:
                if not chunked:
                    cut.append(part.text[place:])
                    continue
                chunks.append([])
            chunks[-1].append((token, part.weight))
        if cut and part.text[-len(cut[-1]) :] != cut[-1]:
            cut.append(part.text)
    if len(chunks) > 1 and not chunks[-1]:
        chunks.pop()
    return _assembled(tokenizer, chunks, total, "".join(cut).strip())


def _assembled(
    tokenizer: PromptTokenizer, chunks: list[list[tuple[int, float]]], total: int, cut: str
) -> EncodedPrompt:
    positions = tokenizer.positions
    ids = np.full((len(chunks), positions), tokenizer.pad_id, np.int32)
    weights = np.ones((len(chunks), positions), np.float32)
    for index, chunk in enumerate(chunks):
        count = len(chunk)
        ids[index, 0] = tokenizer.bos_id
        ids[index, 1 : count + 1] = [token for token, _ in chunk]
        ids[index, count + 1] = tokenizer.eos_id
        weights[index, 1 : count + 1] = [weight for _, weight in chunk]
    # The first end token; a prompt may hold one of its own.
    eos = tuple(int(np.argmax(row == tokenizer.eos_id)) for row in ids)
    return EncodedPrompt(ids, weights, eos, total, tokenizer.limit, cut)


def matched(
    tokenizer: PromptTokenizer, one: EncodedPrompt, other: EncodedPrompt
) -> tuple[EncodedPrompt, EncodedPrompt]:
    """Both prompts with the same number of chunks, the shorter filled up with empty ones.

    Guidance runs both through the denoiser in one batch, so their lengths must agree.
    """
    chunks = max(one.chunks, other.chunks)
    return _filled(tokenizer, one, chunks), _filled(tokenizer, other, chunks)


def _filled(tokenizer: PromptTokenizer, prompt: EncodedPrompt, chunks: int) -> EncodedPrompt:
    missing = chunks - prompt.chunks
    if missing == 0:
        return prompt
    empty = _assembled(tokenizer, [[] for _ in range(missing)], 0, "")
    return replace(
        prompt,
        ids=np.concatenate([prompt.ids, empty.ids]),
        weights=np.concatenate([prompt.weights, empty.weights]),
        eos=(*prompt.eos, *empty.eos),
    )


def apply_weights(hidden: Floats, weights: Floats) -> Floats:
    """Hidden states [chunks, positions, width] weighed by [chunks, positions].

    The mean of all numbers is kept, as A1111-style tools keep it, so that strong emphasis does not
    brighten or darken the whole picture. Weights of 1 change nothing, not even by rounding.
    """
    if not np.any(weights != 1):
        return hidden
    scaled = hidden * weights[..., None]
    before, after = float(hidden.mean(dtype=np.float64)), float(scaled.mean(dtype=np.float64))
    factor = before / after if abs(after) > 1e-12 else 1.0
    return (scaled * np.float32(factor)).astype(np.float32)
