"""The op ``linear``: a matrix-vector kernel for decode, a matrix-matrix kernel for prefill."""

from __future__ import annotations

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.graph.ops import rows
from engine.kernels import matmul, matvec
from engine.kernels.base import Dispatch


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """One row goes to :mod:`engine.kernels.matvec`, more to :mod:`engine.kernels.matmul`."""
    return matvec.lower(node, caps) if _one_row(node) else matmul.lower(node, caps)


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node, by name."""
    return matvec.variants(node, caps) if _one_row(node) else matmul.variants(node, caps)


def _one_row(node: Node) -> bool:
    return rows(node.named["x"].tensor.shape) == 1
