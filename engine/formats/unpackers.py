"""Read codes, scales and minima back from the planes that `packed` describes."""

from __future__ import annotations

import numpy as np

from engine.formats.kinds import Bytes, Floats, Quant, Words

_GROUP = 32


def unpack_float(codes: Words, quant: Quant) -> Floats:
    """The numbers of a float kind, ``[rows, padded cols]``."""
    if quant is Quant.F32:
        return codes.view(np.float32)
    if quant is Quant.F16:
        with np.errstate(invalid="ignore"):
            return codes.view(np.float16).astype(np.float32)
    return (codes.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def unpack_codes(codes: Words, scales: Words, quant: Quant) -> Floats:
    """Codes as the shader multiplies them, ``[rows, groups, 32]``, the symmetric kinds already
    less their offset: the same value as in scale * code - minimum, but zero keeps its sign."""
    rows = codes.shape[0]
    if quant is Quant.Q8_0:
        return codes.view(np.int8).reshape(rows, -1, _GROUP).astype(np.float32)
    pieces = codes.view(np.uint8).reshape(rows, -1, 16)
    numbers = np.concatenate([pieces & 15, pieces >> 4], axis=-1)
    numbers |= _high_bits(scales, quant, pieces.shape[1])
    offset = {Quant.Q4_0: 8, Quant.Q5_0: 16, Quant.Q6_K: 32}.get(quant, 0)
    return numbers.astype(np.float32) - np.float32(offset)


def _high_bits(scales: Words, quant: Quant, groups: int) -> Bytes:
    """Bits 4 and 5 of the codes, in place; broadcasts to ``[rows, groups, 32]``."""
    rows = scales.shape[0]
    if quant is Quant.Q6_K:
        words = scales.reshape(rows, -1, 21)[..., :16].reshape(rows, groups, 2)
        fields = words.view(np.uint8).reshape(rows, groups, 2, 1, 4)
        shift = np.array([0, 2, 4, 6], np.uint8)[:, None]
        return _placed(fields >> shift & np.uint8(3), groups)
    if quant is Quant.Q5_0:
        words = scales.reshape(rows, -1, 3)[..., :2].reshape(rows, -1)[:, :groups]
    elif quant is Quant.Q5_1:
        words = scales[:, 0::2]
    elif quant is Quant.Q5_K:
        words = scales.reshape(rows, -1, 12)[..., 4:].reshape(rows, groups)
    else:
        return np.zeros((1, 1, 1), np.uint8)
    fields = np.ascontiguousarray(words).view(np.uint8).reshape(rows, groups, 1, 4)
    shift = np.arange(8, dtype=np.uint8)[:, None]
    return _placed(fields >> shift & np.uint8(1), groups)


def _placed(bits: Bytes, groups: int) -> Bytes:
    """``bits`` [rows, ...] above the low nibble, as ``[rows, groups, 32]``."""
    return (bits << np.uint8(4)).reshape(len(bits), groups, _GROUP)


def unpack_scales(scales: Words, quant: Quant, groups: int) -> tuple[Floats, Floats]:
    """Scale and minimum of every half group, each broadcasting to ``[rows, groups, 2]``."""
    rows = scales.shape[0]
    halves = scales.view(np.float16).astype(np.float32)
    zero = np.zeros((1, 1, 1), np.float32)
    if quant in (Quant.Q4_0, Quant.Q8_0):
        return halves[:, :groups, None], zero
    if quant is Quant.Q5_0:
        d = halves.reshape(rows, -1, 6)[..., 4:].reshape(rows, -1)
        return d[:, :groups, None], zero
    if quant in (Quant.Q4_1, Quant.Q5_1):
        words = halves.reshape(rows, groups, -1)
        return words[..., -2:-1], -words[..., -1:]
    if quant is Quant.Q6_K:
        supers = scales.reshape(rows, -1, 21)
        sub = np.ascontiguousarray(supers[..., 16:20]).view(np.int8).reshape(rows, -1, 8, 2)
        d = halves.reshape(rows, -1, 42)[..., 40]
        return (d[..., None, None] * sub).reshape(rows, groups, 2), zero
    return _k_scales(scales.reshape(rows, groups // 8, -1))


def _k_scales(supers: Words) -> tuple[Floats, Floats]:
    rows, count, _ = supers.shape
    head = np.ascontiguousarray(supers[..., :4])
    d, dmin = (head.view(np.float16)[..., at, None].astype(np.float32) for at in (0, 1))
    packed = head.view(np.uint8)[..., 4:]
    low = (packed[..., 8:, None] >> np.array([0, 4], np.uint8) & 15).reshape(rows, count, 8)
    minima = low | (packed[..., :8] >> 6 << 4)
    scale, minimum = d * (packed[..., :8] & 63), dmin * minima
    return scale.reshape(rows, -1, 1), minimum.reshape(rows, -1, 1)
