"""Logical and physical descriptions of tensors (ML Drift, section 3.1: tensor virtualization).

A :class:`TensorDesc` says what a tensor is (its axes and element type) and, apart from that, how it
lies in memory (layout and storage). Kernels never compute an address from it themselves: they call
the accessors that :mod:`engine.tensor.accessors` generates.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

VEC = 4  # channels of one slice: every storage holds whole vectors of four


class DType(enum.Enum):
    """Element types of GPU tensors; the value is the WGSL scalar type."""

    F32 = "f32"
    F16 = "f16"
    I32 = "i32"
    U32 = "u32"

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return 2 if self is DType.F16 else 4


class Layout(enum.Enum):
    """Order of the axes in memory. Channels always lie in slices of four (S = ceil(C / 4))."""

    ROWS = "rows"  # [B, H, W, S, 4]: a row of channels is contiguous
    DSHWBC4 = "dshwbc4"  # [S, H, W, B, 4]
    HSWBDC4 = "hswbdc4"  # [H, S, W, B, 4]


class Storage(enum.Enum):
    """The kind of WebGPU object that holds a tensor."""

    BUFFER = "buffer"
    TEXTURE_2D = "texture_2d"
    TEXTURE_2D_ARRAY = "texture_2d_array"


@dataclass(frozen=True)
class Shape:
    """Logical axes: batch, height, width, channels. A matrix is ``Shape(w=rows, c=cols)``."""

    b: int = 1
    h: int = 1
    w: int = 1
    c: int = 1

    def __post_init__(self) -> None:
        if min(self.b, self.h, self.w, self.c) < 1:
            raise ValueError(f"every axis of a tensor must be at least 1: {self}")

    @property
    def slices(self) -> int:
        """Number of four-channel slices, the last one padded."""
        return -(-self.c // VEC)

    @property
    def elements(self) -> int:
        """Number of logical elements, without padding."""
        return self.b * self.h * self.w * self.c

    @property
    def vectors(self) -> int:
        """Number of stored four-channel vectors, padding included."""
        return self.b * self.h * self.w * self.slices


@dataclass(frozen=True)
class TensorDesc:
    """A tensor's axes, element type, memory layout and storage."""

    shape: Shape
    dtype: DType = DType.F32
    layout: Layout = Layout.ROWS
    storage: Storage = Storage.BUFFER

    @property
    def nbytes(self) -> int:
        """Bytes that the tensor takes, padding of the last slice included."""
        return self.shape.vectors * VEC * self.dtype.nbytes

    def strides(self) -> tuple[int, int, int, int]:
        """Strides of (b, y, x, s) in four-channel vectors, for a buffer."""
        b, h, w, s = self.shape.b, self.shape.h, self.shape.w, self.shape.slices
        if self.layout is Layout.ROWS:
            return (h * w * s, w * s, s, 1)
        if self.layout is Layout.DSHWBC4:
            return (1, w * b, b, h * w * b)
        return (1, s * w * b, b, w * b)

    def texture_extent(self) -> tuple[int, int, int]:
        """Texels (width, height, layers); x runs over (w, b), y over (h, s) or layers over s."""
        b, h, w, s = self.shape.b, self.shape.h, self.shape.w, self.shape.slices
        if self.storage is Storage.TEXTURE_2D_ARRAY:
            return (w * b, h, s)
        return (w * b, h * s, 1)

    def with_storage(self, storage: Storage) -> TensorDesc:
        """The same tensor held by another kind of object."""
        return replace(self, storage=storage)


def matrix(rows: int, cols: int, dtype: DType = DType.F32) -> TensorDesc:
    """A row-major ``[rows, cols]`` activation: one row a token, ``cols`` channels."""
    return TensorDesc(Shape(w=rows, c=cols), dtype)


def vector(length: int, dtype: DType = DType.F32) -> TensorDesc:
    """A vector of ``length`` channels."""
    return TensorDesc(Shape(c=length), dtype)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple of ``multiple`` that is at least ``value``."""
    return math.ceil(value / multiple) * multiple
