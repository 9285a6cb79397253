"""Reorder the blocks of each number format into the planes that `packed` describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.formats.kinds import Blocks, Bytes, Quant, Words

# A group's bytes as one element: numpy copies strided elements at memory speed, where an inner axis
# of single bytes would cost a loop for each group.
_V16, _V32 = "V16", "V32"
_LAYOUTS: dict[Quant, np.dtype[Any]] = {
    Quant.Q4_0: np.dtype([("d", "<u2"), ("qs", _V16)]),
    Quant.Q8_0: np.dtype([("d", "<u2"), ("qs", _V32)]),
    Quant.Q4_1: np.dtype([("dm", "<u4"), ("qs", _V16)]),
    Quant.Q5_0: np.dtype([("d", "<u2"), ("qh", "<u4"), ("qs", _V16)]),
    Quant.Q5_1: np.dtype([("dm", "<u4"), ("qh", "<u4"), ("qs", _V16)]),
    Quant.Q4_K: np.dtype([("dm", "<u4"), ("scales", "<u4", 3), ("qs", _V16, 8)]),
    Quant.Q5_K: np.dtype([("dm", "<u4"), ("scales", "<u4", 3), ("qh", "<u4", 8), ("qs", _V16, 8)]),
    Quant.Q6_K: np.dtype([("qs", _V16, 8), ("qh", "<u4", 16), ("sc", _V16), ("d", "<u2")]),
}


def view(chunk: Bytes, quant: Quant) -> Blocks:
    """Whole rows as blocks ``[rows, blocks]``; float kinds stay bytes ``[rows, row bytes]``."""
    return chunk if quant.is_float else chunk.view(_LAYOUTS[quant])


# --- packers: blocks [rows, blocks], codes [rows, code_words], scales [rows, scale_words] ------


def _pack_float(raw: Blocks, codes: Words, scales: Words) -> None:
    out = codes.view(np.uint8)
    out[:, : raw.shape[1]] = raw
    out[:, raw.shape[1] :] = 0


def _pack_halves(d: NDArray[np.uint16], scales: Words) -> None:
    """One float16 a group, two a word; an odd last group leaves a zero."""
    halves = scales.view(np.uint16)
    groups = d.shape[1]
    halves[:, :groups] = d
    halves[:, groups:] = 0


def _pack_q4_0(blocks: Blocks, codes: Words, scales: Words) -> None:
    codes.view(_V16)[...] = blocks["qs"]
    _pack_halves(blocks["d"], scales)


def _pack_q8_0(blocks: Blocks, codes: Words, scales: Words) -> None:
    codes.view(_V32)[...] = blocks["qs"]
    _pack_halves(blocks["d"], scales)


def _pack_q4_1(blocks: Blocks, codes: Words, scales: Words) -> None:
    codes.view(_V16)[...] = blocks["qs"]
    scales[...] = blocks["dm"]


def _pack_q5_0(blocks: Blocks, codes: Words, scales: Words) -> None:
    codes.view(_V16)[...] = blocks["qs"]
    qh = _fifth_bits(blocks["qh"])
    rows, groups = qh.shape
    words = scales.reshape(rows, -1, 3)
    halves = scales.view(np.uint16).reshape(rows, -1, 6)
    if groups % 2:
        words[:, -1] = 0
    for odd in (0, 1):
        count = (groups + 1 - odd) // 2
        words[:, :count, odd] = qh[:, odd::2]
        halves[:, :count, 4 + odd] = blocks["d"][:, odd::2]


def _pack_q5_1(blocks: Blocks, codes: Words, scales: Words) -> None:
    codes.view(_V16)[...] = blocks["qs"]
    scales[:, 0::2] = _fifth_bits(blocks["qh"])
    scales[:, 1::2] = blocks["dm"]


def _pack_q4_k(blocks: Blocks, codes: Words, scales: Words) -> None:
    flat = blocks.reshape(-1)
    _pack_nibbles(flat["qs"], codes, _PAIRS_Q4_K)
    _pack_k_scales(flat, scales.reshape(len(flat), 4))


def _pack_q5_k(blocks: Blocks, codes: Words, scales: Words) -> None:
    flat = blocks.reshape(-1)
    out = scales.reshape(len(flat), 12)
    _pack_nibbles(flat["qs"], codes, _PAIRS_Q4_K)
    _pack_k_scales(flat, out)
    # Byte l of the file's qh has bit g for element l of group g; we want a word for each group, so
    # this turns an 8 x 8 matrix of bits, once for each of the four bytes of the words.
    bits = np.empty((8, len(flat)), np.uint32)
    for word in range(8):
        bits[word] = flat["qh"][:, word]
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
        pairs = bits.reshape(-1, 2, shift, len(flat))
        _exchange(pairs[:, 0], pairs[:, 1], shift, mask)
    for group in range(8):
        out[:, 4 + group] = bits[group]


def _pack_q6_k(blocks: Blocks, codes: Words, scales: Words) -> None:
    flat = blocks.reshape(-1)
    out = scales.reshape(len(flat), 21)
    _pack_nibbles(flat["qs"], codes, _PAIRS_Q6_K)
    # Word w of each half of 128 elements has two bits for each of four groups; we want a word for
    # each group, so this turns a 4 x 4 matrix of bit pairs.
    places = [(part, half) for part in (0, 1) for half in (0, 1)]
    bits = np.empty((4, 4, len(flat)), np.uint32)  # word, place, block
    for place, (part, half) in enumerate(places):
        for word in range(4):
            bits[word, place] = flat["qh"][:, 8 * part + 4 * half + word]
    _exchange(bits[0::2], bits[1::2], 2, 0x33333333)
    _exchange(bits[0:2], bits[2:4], 4, 0x0F0F0F0F)
    for place, (part, half) in enumerate(places):
        for group in range(4):
            out[:, 8 * part + 2 * group + half] = bits[group, place]
    out[:, 16:20].view(_V16)[:, 0] = flat["sc"]
    out[:, 20] = flat["d"]


# Which groups the low and the high nibbles of each 32 bytes belong to.
_PAIRS_Q4_K = ((0, 1), (2, 3), (4, 5), (6, 7))
_PAIRS_Q6_K = ((0, 2), (1, 3), (4, 6), (5, 7))


def _pack_nibbles(qs: NDArray[np.void], codes: Words, pairs: tuple[tuple[int, int], ...]) -> None:
    """Reorder nibbles: ``qs`` [n, 8] of 16 bytes, where 32 bytes hold one group in their low and
    another in their high nibbles, into 16 bytes a group."""
    out = codes.view(_V16).reshape(-1, 8)
    halves = np.empty((2, 4, len(qs), 4), np.uint32)
    for half in (0, 1):
        halves[half].view(_V16)[..., 0] = qs[:, half::2].T
    _exchange(halves[0], halves[1], 4, 0x0F0F0F0F)
    for piece, groups in enumerate(pairs):
        for group, words in zip(groups, halves[:, piece], strict=True):
            out[:, group] = words.view(_V16)[:, 0]


def _pack_k_scales(flat: Blocks, out: Words) -> None:
    """The four words of 6-bit scales and minima, from ggml's 12 bytes (see `quants.k_scales`)."""
    first, second, third = (np.ascontiguousarray(flat["scales"][:, word]) for word in range(3))
    out[:, 0] = flat["dm"]
    out[:, 1] = (first & _SIX) | ((second & _HIGH_TWO) << _2)
    out[:, 2] = (third & _FOUR) | ((first >> _2) & _HIGH_TWO) | (second & ~_SIX)
    out[:, 3] = _squeeze(second & _FOUR) | (_squeeze((third >> _4) & _FOUR) << np.uint32(16))


# One field in each byte of a word.
_FOUR = np.uint32(0x0F0F0F0F)
_SIX = np.uint32(0x3F3F3F3F)
_HIGH_TWO = np.uint32(0x30303030)
_2, _4, _8 = np.uint32(2), np.uint32(4), np.uint32(8)


def _squeeze(nibbles: Words) -> Words:
    """Four nibbles, one a byte, into the low 16 bits."""
    pairs = (nibbles | (nibbles >> _4)) & np.uint32(0x00FF00FF)
    return (pairs | (pairs >> _8)) & np.uint32(0xFFFF)


def _fifth_bits(qh: Words) -> Words:
    """Move bit 4w + i to bit 8i + w: swap the bits of the position, two at a time."""
    bits = qh.copy()
    for shift, mask in _FIFTH_BIT_SWAPS:
        _exchange(bits, bits, shift, mask)
    return bits


def _position_swap(a: int, b: int) -> tuple[int, int]:
    """Shift and mask that swap the bits at positions which differ in their bits a < b."""
    chosen = sum(1 << at for at in range(32) if at >> a & 1 and not at >> b & 1)
    return (1 << b) - (1 << a), chosen


# Position (w2 w1 w0 i1 i0) becomes (i1 i0 w2 w1 w0).
_FIFTH_BIT_SWAPS = tuple(_position_swap(a, b) for a, b in ((0, 1), (0, 2), (1, 3), (2, 4)))


def _exchange(first: Words, second: Words, shift: int, mask: int) -> None:
    """Swap the bits ``mask << shift`` of ``first`` with the bits ``mask`` of ``second``."""
    by = np.uint32(shift)
    moved = first >> by
    moved ^= second
    moved &= np.uint32(mask)
    second ^= moved
    moved <<= by
    first ^= moved


PACKERS: dict[Quant, Callable[[Blocks, Words, Words], None]] = {
    Quant.F32: _pack_float,
    Quant.F16: _pack_float,
    Quant.BF16: _pack_float,
    Quant.Q4_0: _pack_q4_0,
    Quant.Q4_1: _pack_q4_1,
    Quant.Q5_0: _pack_q5_0,
    Quant.Q5_1: _pack_q5_1,
    Quant.Q8_0: _pack_q8_0,
    Quant.Q4_K: _pack_q4_k,
    Quant.Q5_K: _pack_q5_k,
    Quant.Q6_K: _pack_q6_k,
}
