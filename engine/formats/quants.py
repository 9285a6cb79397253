"""Dequantise GGUF tensors in numpy, bit-exact with ggml's reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.formats.kinds import (
    BLOCK_DTYPES,
    CHUNK_WEIGHTS,
    Blocks,
    Bytes,
    Floats,
    Quant,
    block_scale,
    check_raw,
)
from engine.formats.quantiser import quantise

__all__ = ["Quant", "dequantise", "quantise"]


def dequantise(raw: Bytes, quant: Quant, cols: int) -> Floats:
    """Weights of ``raw`` (uint8 ``[rows, quant.row_bytes(cols)]``) as float32 ``[rows, cols]``.

    Bit-exact with ggml's reference. Raises FormatError when the bytes do not fit the shape.
    """
    check_raw(raw, quant, cols)
    rows = raw.shape[0]
    out = np.empty((rows, cols), np.float32)
    decode = _DECODERS[quant]
    step = max(1, CHUNK_WEIGHTS // cols)
    # Signalling NaNs and infinities in a damaged file are data here, not a reason to warn.
    with np.errstate(invalid="ignore", over="ignore"):
        for first in range(0, rows, step):
            chunk = np.ascontiguousarray(raw[first : first + step])
            decode(
                chunk.reshape(-1).view(BLOCK_DTYPES[quant]),
                out[first : first + step].reshape(-1, quant.block),
            )
    return out


# --- decoders: blocks [n] -> out float32 [n, block] -------------------------------------------


def _decode_float(blocks: Blocks, out: Floats) -> None:
    out[:, 0] = blocks["f"]


def _decode_bf16(blocks: Blocks, out: Floats) -> None:
    np.left_shift(blocks["f"], 16, out=out[:, 0].view(np.uint32), dtype=np.uint32)


def _nibbles(blocks: Blocks, out: Floats) -> None:
    np.bitwise_and(blocks["qs"], 15, out=out[:, :16], casting="unsafe")
    np.right_shift(blocks["qs"], 4, out=out[:, 16:], casting="unsafe")


def _fifth_bits(blocks: Blocks, out: Floats) -> None:
    out += np.unpackbits(blocks["qh"], axis=-1, bitorder="little") * np.float32(16)


def _decode_q4_0(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks, out)
    out -= 8
    out *= block_scale(blocks)


def _decode_q4_1(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks, out)
    out *= block_scale(blocks)
    out += block_scale(blocks, "m")


def _decode_q5_0(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks, out)
    _fifth_bits(blocks, out)
    out -= 16
    out *= block_scale(blocks)


def _decode_q5_1(blocks: Blocks, out: Floats) -> None:
    _nibbles(blocks, out)
    _fifth_bits(blocks, out)
    out *= block_scale(blocks)
    out += block_scale(blocks, "m")


def _decode_q8_0(blocks: Blocks, out: Floats) -> None:
    out[...] = blocks["qs"]
    out *= block_scale(blocks)


def k_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """The 6-bit scales and minima ([n, 8] each) that Q4_K and Q5_K pack into ``[n, 12]``."""
    low, mid, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.empty((len(packed), 8), np.uint8)
    minima = np.empty((len(packed), 8), np.uint8)
    scales[:, :4], scales[:, 4:] = low & 63, (high & 15) | ((low >> 2) & 48)
    minima[:, :4], minima[:, 4:] = mid & 63, (high >> 4) | ((mid >> 2) & 48)
    return scales, minima


def _apply_k_scales(blocks: Blocks, q: Floats) -> None:
    """Turn codes ``q`` [n, 8, 32] into weights in place."""
    scales, minima = k_scales(blocks["scales"])
    q *= (block_scale(blocks) * scales)[:, :, None]
    q -= (block_scale(blocks, "dmin") * minima)[:, :, None]


def _k_nibbles(blocks: Blocks, q: Floats) -> None:
    pairs = blocks["qs"].reshape(-1, 4, 32)  # low nibbles: an even sub-block, high: the odd one
    q[:, 0::2] = pairs & 15
    q[:, 1::2] = pairs >> 4


def _decode_q4_k(blocks: Blocks, out: Floats) -> None:
    q = out.reshape(-1, 8, 32)
    _k_nibbles(blocks, q)
    _apply_k_scales(blocks, q)


def _decode_q5_k(blocks: Blocks, out: Floats) -> None:
    q = out.reshape(-1, 8, 32)
    _k_nibbles(blocks, q)
    bit = np.arange(8, dtype=np.uint8)[:, None]
    q += ((blocks["qh"][:, None, :] >> bit) & 1) * np.float32(16)
    _apply_k_scales(blocks, q)


def _decode_q6_k(blocks: Blocks, out: Floats) -> None:
    low = blocks["ql"].reshape(-1, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None]
    shift = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = (blocks["qh"].reshape(-1, 2, 1, 32) >> shift) & 3
    q = out.reshape(-1, 2, 4, 32)
    q[...] = (low & 15).reshape(-1, 2, 4, 32) | (high << 4)
    q -= 32
    out.reshape(-1, 16, 16)[...] *= (block_scale(blocks) * blocks["scales"])[:, :, None]


_DECODERS: dict[Quant, Callable[[Blocks, Floats], None]] = {
    Quant.F32: _decode_float,
    Quant.F16: _decode_float,
    Quant.BF16: _decode_bf16,
    Quant.Q4_0: _decode_q4_0,
    Quant.Q4_1: _decode_q4_1,
    Quant.Q5_0: _decode_q5_0,
    Quant.Q5_1: _decode_q5_1,
    Quant.Q8_0: _decode_q8_0,
    Quant.Q4_K: _decode_q4_k,
    Quant.Q5_K: _decode_q5_k,
    Quant.Q6_K: _decode_q6_k,
}
