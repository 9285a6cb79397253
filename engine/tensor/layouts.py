"""Between numpy arrays and the physical form of a tensor: padding, slicing, axis order."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.tensor.descriptor import VEC, DType, Layout, Shape, Storage, TensorDesc

_NUMPY: dict[DType, Any] = {
    DType.F32: np.float32,
    DType.F16: np.float16,
    DType.I32: np.int32,
    DType.U32: np.uint32,
}


def numpy_dtype(dtype: DType) -> Any:
    """The numpy type of a GPU element type."""
    return _NUMPY[dtype]


def to_physical(values: np.ndarray, desc: TensorDesc) -> np.ndarray:
    """``values`` ([b, h, w, c], or any shape of as many elements) in the tensor's memory order."""
    shape = desc.shape
    full = np.zeros((shape.b, shape.h, shape.w, shape.slices * VEC), _NUMPY[desc.dtype])
    full[..., : shape.c] = np.reshape(values, (shape.b, shape.h, shape.w, shape.c))
    sliced = full.reshape(shape.b, shape.h, shape.w, shape.slices, VEC)
    return np.ascontiguousarray(sliced.transpose(_order(desc)))


def from_physical(flat: np.ndarray, desc: TensorDesc) -> np.ndarray:
    """The logical values ``[b, h, w, c]`` of bytes read back from the tensor's memory."""
    order = _order(desc)
    shape = desc.shape
    axes = (shape.b, shape.h, shape.w, shape.slices, VEC)
    typed = flat.reshape(-1).view(_NUMPY[desc.dtype])[: shape.vectors * VEC]
    stored = typed.reshape([axes[axis] for axis in order])
    logical = stored.transpose(np.argsort(order))
    return logical.reshape(shape.b, shape.h, shape.w, -1)[..., : shape.c]


def _order(desc: TensorDesc) -> tuple[int, ...]:
    """Positions of the axes (b, h, w, s, 4) in memory, slowest first."""
    if desc.storage is Storage.TEXTURE_2D_ARRAY:
        return (3, 1, 2, 0, 4)  # [layer = s, row = h, column = (w, b)]
    if desc.layout is Layout.DSHWBC4:
        return (3, 1, 2, 0, 4)
    if desc.layout is Layout.HSWBDC4 or desc.storage is Storage.TEXTURE_2D:
        return (1, 3, 2, 0, 4)
    return (0, 1, 2, 3, 4)


def matrix_shape(values: np.ndarray) -> Shape:
    """The :class:`Shape` of a 2D array: rows along w, columns along c."""
    return Shape(w=values.shape[0], c=values.shape[1])
