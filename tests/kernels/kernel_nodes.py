"""Nodes and values for kernel tests, and one call that runs a node on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.gpu.device import Device
from engine.graph.node import Node, Role, Value
from engine.kernels.base import Dispatch
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Shape, Storage, TensorDesc

STORAGES = (Storage.BUFFER, Storage.TEXTURE_2D, Storage.TEXTURE_2D_ARRAY)
#: Each storage and each element type, for kernels that are slow to compile.
PLACES = (
    (Storage.BUFFER, DType.F16),
    (Storage.TEXTURE_2D, DType.F32),
    (Storage.TEXTURE_2D_ARRAY, DType.F16),
)


def rows_of(tokens: int, channels: int, dtype: DType = DType.F32) -> TensorDesc:
    """A matrix of activations."""
    return TensorDesc(Shape(w=tokens, c=channels), dtype)


def value(name: str, desc: TensorDesc, role: Role = Role.ACTIVATION) -> Value:
    """A value of a graph that is never built."""
    return Value(name, desc, role)


def make_node(op: str, inputs: Mapping[str, Value], outputs: Sequence[Value], **attrs: Any) -> Node:
    """A node outside any graph."""
    return Node(op, tuple(inputs.values()), tuple(outputs), {"inputs": tuple(inputs), **attrs})


def run(
    device: Device,
    dispatches: Sequence[Dispatch],
    inputs: Mapping[Value, np.ndarray],
    outputs: Sequence[Value],
) -> list[np.ndarray]:
    """The outputs' values, ``[h, w, c]`` squeezed of leading ones to at least two axes."""
    results = run_once(device, dispatches, inputs, {}, outputs)
    return [r[0, 0] if r.shape[:2] == (1, 1) else r[0] for r in results]


def close(have: np.ndarray, want: np.ndarray, dtype: DType = DType.F32, loose: float = 1.0) -> None:
    """Equal to within the precision of the element type, relative to the largest value."""
    bound = (2e-3 if dtype is DType.F16 else 2e-6) * loose * max(float(np.abs(want).max()), 1e-6)
    np.testing.assert_allclose(have.astype(np.float64), want, rtol=0, atol=bound)
