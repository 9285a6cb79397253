"""Quantise float32 weights into the GGUF number formats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.formats.errors import FormatError
from engine.formats.kinds import (
    BLOCK_DTYPES,
    CHUNK_WEIGHTS,
    Blocks,
    Bytes,
    Floats,
    Quant,
    block_scale,
)


def quantise(values: Floats, quant: Quant) -> Bytes:
    """Rows of float32 ``[rows, cols]`` as uint8 ``[rows, quant.row_bytes(cols)]``.

    F32 to Q8_0 give the bits of ggml's reference; the K formats use a plain, valid fit (least
    range, no search). Raises FormatError when a block's scale is not a finite float16.
    """
    if values.ndim != 2:
        raise FormatError(f"Weights to quantise are [rows, cols], not {list(values.shape)}.")
    rows, cols = values.shape
    out = np.empty((rows, quant.row_bytes(cols)), np.uint8)
    encode = _ENCODERS[quant]
    step = max(1, CHUNK_WEIGHTS // cols)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for first in range(0, rows, step):
            chunk = np.ascontiguousarray(values[first : first + step], np.float32)
            blocks = out[first : first + step].reshape(-1).view(BLOCK_DTYPES[quant])
            encode(chunk.reshape(-1, quant.block), blocks)
            if not quant.is_float and not np.isfinite(blocks["d"]).all():
                raise FormatError(
                    f"These weights cannot become {quant.name}: rows {first} to "
                    f"{first + len(chunk) - 1} hold values that are infinite, not a number, "
                    "or too large for a float16 scale."
                )
    return out


# --- encoders: values float32 [n, block] -> blocks [n] ----------------------------------------


def _encode_float(values: Floats, blocks: Blocks) -> None:
    blocks["f"] = values[:, 0]


def _encode_bf16(values: Floats, blocks: Blocks) -> None:
    bits = values[:, 0].view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) >> 16  # to nearest, ties to even
    quiet = (bits >> 16) | 64  # a NaN must not round to infinity
    blocks["f"] = np.where((bits & 0x7FFFFFFF) > 0x7F800000, quiet, rounded)


def _inverse(scale: Floats) -> Floats:
    return np.where(scale == 0, np.float32(0), 1 / scale)


def _signed_peak(values: Floats) -> Floats:
    """The value of largest magnitude of each block, with its sign. [..., block] -> [..., 1]"""
    at = np.abs(values).argmax(axis=-1, keepdims=True)
    return np.take_along_axis(values, at, axis=-1)


def _codes(scaled: Floats, offset: float, top: int) -> Bytes:
    return np.minimum((scaled + np.float32(offset)).astype(np.uint8), np.uint8(top))


def _put_nibbles(codes: Bytes, blocks: Blocks) -> None:
    blocks["qs"] = (codes[:, :16] & 15) | (codes[:, 16:] << 4)


def _put_fifth_bits(codes: Bytes, blocks: Blocks) -> None:
    blocks["qh"] = np.packbits(codes >> 4, axis=-1, bitorder="little")


def _symmetric_codes(values: Floats, blocks: Blocks, half: int) -> Bytes:
    """Codes 0 .. 2*half-1 around ``half``; the largest magnitude always maps to code 0."""
    d = _signed_peak(values) / np.float32(-half)
    blocks["d"] = d[:, 0]
    return _codes(values * _inverse(d), half + 0.5, 2 * half - 1)


def _ranged_codes(values: Floats, blocks: Blocks, top: int) -> Bytes:
    """Codes 0 .. top from the block's minimum to its maximum."""
    low = values.min(axis=-1, keepdims=True)
    d = (values.max(axis=-1, keepdims=True) - low) / np.float32(top)
    blocks["d"], blocks["m"] = d[:, 0], low[:, 0]
    return _codes((values - low) * _inverse(d), 0.5, top)


def _encode_q4_0(values: Floats, blocks: Blocks) -> None:
    _put_nibbles(_symmetric_codes(values, blocks, 8), blocks)


def _encode_q4_1(values: Floats, blocks: Blocks) -> None:
    _put_nibbles(_ranged_codes(values, blocks, 15), blocks)


def _encode_q5_0(values: Floats, blocks: Blocks) -> None:
    codes = _symmetric_codes(values, blocks, 16)
    _put_nibbles(codes, blocks)
    _put_fifth_bits(codes, blocks)


def _encode_q5_1(values: Floats, blocks: Blocks) -> None:
    codes = _ranged_codes(values, blocks, 31)
    _put_nibbles(codes, blocks)
    _put_fifth_bits(codes, blocks)


def _encode_q8_0(values: Floats, blocks: Blocks) -> None:
    d = np.abs(values).max(axis=-1, keepdims=True) / np.float32(127)
    blocks["d"] = d[:, 0]
    scaled = values * _inverse(d)
    size = np.abs(scaled)
    whole = np.floor(size)
    rounded = whole + np.floor(2 * (size - whole))  # halves away from zero, as in C's roundf
    blocks["qs"] = np.copysign(rounded, scaled).astype(np.int8)


def _k_codes(values: Floats, blocks: Blocks, top: int) -> Bytes:
    """Fit eight sub-blocks of 32 with 6-bit scales and minima; returns codes [n, 8, 32]."""
    parts = values.reshape(-1, 8, 32)
    low = np.minimum(parts.min(axis=-1), np.float32(0))  # a minimum is stored as what is subtracted
    span = (parts.max(axis=-1) - low) / np.float32(top)
    blocks["d"] = span.max(axis=-1) / np.float32(63)
    blocks["dmin"] = -low.min(axis=-1) / np.float32(63)
    d, dmin = block_scale(blocks), block_scale(blocks, "dmin")  # as rounded to float16
    scales = _codes(np.maximum(span, np.float32(0)) * _inverse(d), 0.5, 63)
    minima = _codes(-low * _inverse(dmin), 0.5, 63)
    blocks["scales"][:, 0:4] = (scales[:, :4] & 63) | ((scales[:, 4:] >> 4) << 6)
    blocks["scales"][:, 4:8] = (minima[:, :4] & 63) | ((minima[:, 4:] >> 4) << 6)
    blocks["scales"][:, 8:12] = (scales[:, 4:] & 15) | ((minima[:, 4:] & 15) << 4)
    scaled = (parts + (dmin * minima)[:, :, None]) * _inverse(d * scales)[:, :, None]
    return _codes(scaled.clip(0, top), 0.5, top)


def _put_k_nibbles(codes: Bytes, blocks: Blocks) -> None:
    blocks["qs"] = ((codes[:, 0::2] & 15) | (codes[:, 1::2] << 4)).reshape(-1, 128)


def _encode_q4_k(values: Floats, blocks: Blocks) -> None:
    _put_k_nibbles(_k_codes(values, blocks, 15), blocks)


def _encode_q5_k(values: Floats, blocks: Blocks) -> None:
    codes = _k_codes(values, blocks, 31)
    _put_k_nibbles(codes, blocks)
    bit = np.arange(8, dtype=np.uint8)[:, None]
    blocks["qh"] = np.bitwise_or.reduce((codes >> 4) << bit, axis=1)


def _encode_q6_k(values: Floats, blocks: Blocks) -> None:
    parts = values.reshape(-1, 16, 16)
    scale = _signed_peak(parts)[..., 0] / np.float32(-32)
    blocks["d"] = _signed_peak(scale)[..., 0] / np.float32(-128)
    d = block_scale(blocks)
    blocks["scales"] = np.clip(np.rint(scale * _inverse(d)), -128, 127)
    step = d * blocks["scales"]
    scaled = np.clip(np.rint(parts * _inverse(step)[:, :, None]), -32, 31)
    codes = (scaled + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    blocks["ql"] = ((codes[:, :, :2] & 15) | (codes[:, :, 2:] << 4)).reshape(-1, 128)
    shift = np.array([0, 2, 4, 6], np.uint8)[:, None]
    blocks["qh"] = np.bitwise_or.reduce((codes >> 4) << shift, axis=2).reshape(-1, 64)


_ENCODERS: dict[Quant, Callable[[Floats, Blocks], None]] = {
    Quant.F32: _encode_float,
    Quant.F16: _encode_float,
    Quant.BF16: _encode_bf16,
    Quant.Q4_0: _encode_q4_0,
    Quant.Q4_1: _encode_q4_1,
    Quant.Q5_0: _encode_q5_0,
    Quant.Q5_1: _encode_q5_1,
    Quant.Q8_0: _encode_q8_0,
    Quant.Q4_K: _encode_q4_k,
    Quant.Q5_K: _encode_q5_k,
    Quant.Q6_K: _encode_q6_k,
}
