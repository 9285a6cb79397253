"""Number formats of GGUF tensors: names, sizes and the fields of a block.

Every format stores a row as blocks of ``Quant.block`` weights in ``Quant.block_bytes`` bytes. The
structured types in ``BLOCK_DTYPES`` name the fields of a block; all are little-endian.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.formats.errors import FormatError

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Words = NDArray[np.uint32]
Blocks = NDArray[Any]  # [n] of a structured type in BLOCK_DTYPES

CHUNK_WEIGHTS = 1 << 18  # weights handled at a time, so that temporaries stay in the cache


class Quant(enum.Enum):
    """A tensor's number format; the value is its ggml type id."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    BF16 = 30

    @property
    def block(self) -> int:
        """Weights in one block."""
        return _BLOCK_SIZES[self]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return BLOCK_DTYPES[self].itemsize

    @property
    def is_float(self) -> bool:
        """Whether weights are stored as they are, without a shared scale."""
        return self.block == 1

    def row_bytes(self, cols: int) -> int:
        """Bytes of a row of ``cols`` weights. Raises FormatError unless whole blocks fit."""
        if cols < 1 or cols % self.block:
            raise FormatError(
                f"A {self.name} row needs a positive multiple of {self.block} weights, "
                f"and this one has {cols}."
            )
        return cols // self.block * self.block_bytes


_BLOCK_SIZES = {
    Quant.F32: 1,
    Quant.F16: 1,
    Quant.BF16: 1,
    Quant.Q4_0: 32,
    Quant.Q4_1: 32,
    Quant.Q5_0: 32,
    Quant.Q5_1: 32,
    Quant.Q8_0: 32,
    Quant.Q4_K: 256,
    Quant.Q5_K: 256,
    Quant.Q6_K: 256,
}

# Names for messages: what else a GGUF file may hold.
GGML_NAMES = {
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}

_D = ("d", "<f2")  # scale of the block
_M = ("m", "<f2")  # offset added to every weight of the block
_DMIN = ("dmin", "<f2")  # scale of the sub-blocks' minima

BLOCK_DTYPES: dict[Quant, np.dtype[Any]] = {
    Quant.F32: np.dtype([("f", "<f4")]),
    Quant.F16: np.dtype([("f", "<f2")]),
    Quant.BF16: np.dtype([("f", "<u2")]),
    Quant.Q4_0: np.dtype([_D, ("qs", "u1", 16)]),
    Quant.Q4_1: np.dtype([_D, _M, ("qs", "u1", 16)]),
    Quant.Q5_0: np.dtype([_D, ("qh", "u1", 4), ("qs", "u1", 16)]),
    Quant.Q5_1: np.dtype([_D, _M, ("qh", "u1", 4), ("qs", "u1", 16)]),
    Quant.Q8_0: np.dtype([_D, ("qs", "i1", 32)]),
    Quant.Q4_K: np.dtype([_D, _DMIN, ("scales", "u1", 12), ("qs", "u1", 128)]),
    Quant.Q5_K: np.dtype([_D, _DMIN, ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", 128)]),
    Quant.Q6_K: np.dtype([("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), _D]),
}


def check_raw(raw: Bytes, quant: Quant, cols: int) -> None:
    """Raises FormatError unless ``raw`` is uint8 ``[rows, quant.row_bytes(cols)]``."""
    expected = quant.row_bytes(cols)
    if raw.ndim != 2 or raw.dtype != np.uint8 or raw.shape[1] != expected:
        raise FormatError(
            f"Rows of {cols} {quant.name} weights are uint8 [rows, {expected}], "
            f"not {raw.dtype} {list(raw.shape)}."
        )


def block_scale(blocks: Blocks, field: str = "d") -> Floats:
    """A float16 field of every block as float32 ``[n, 1]``."""
    return blocks[field].astype(np.float32)[:, None]
