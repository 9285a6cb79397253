"""The op ``linear``: a matrix-vector kernel for decode, a matrix-matrix kernel for prefill."""

from __future__ import annotations

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.graph.ops import rows
from engine.kernels import matmul, matvec
from engine.kernels.base import Dispatch


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """One row goes to :mod:`engine.kernels.matvec`, more to :mod:`engine.kernels.matmul`."""
    if rows(node.named["x"].tensor.shape) == 1:
        return matvec.lower(node, caps)
    return matmul.lower(node, caps)
