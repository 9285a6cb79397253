"""Ops that only move rows: the last valid row of a chunk, and tensors put side by side."""

from __future__ import annotations

from itertools import pairwise

from engine.gpu.capabilities import Capabilities
from engine.graph.node import GraphError, Node
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.kernels.state import STATE_WGSL

SIZE = 64


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """The dispatch of a ``last_row`` or ``concat`` node."""
    return _concat(node, caps) if node.op == "concat" else _last_row(node, caps)


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node, by name: there is one."""
    return {"rows": lower(node, caps)}


def _last_row(node: Node, caps: Capabilities) -> list[Dispatch]:
    """Row COUNT - 1 of the state."""
    x, state, y = node.named["x"], node.named["state"], node.output
    params = {
        "tokens": x.tensor.shape.w,
        "slices": x.tensor.shape.slices,
        "size": SIZE,
        "state_words": STATE_WGSL,
    }
    binds = (Bind("x", x), Bind("state", state, raw="array<u32>"), Bind("y", y, Access.WRITE))
    grid = fold(-(-x.tensor.shape.slices // SIZE), caps)
    return [Dispatch("rows/last_row.wgsl", params, binds, grid, "last_row")]


def _concat(node: Node, caps: Capabilities) -> list[Dispatch]:
    """Matrices of as many rows side by side.

    Raises:
        GraphError: more matrices than the device binds in one kernel.
    """
    if len(node.inputs) + 1 > caps.limits.storage_buffers:
        raise GraphError(
            f"concat of {len(node.inputs)} tensors: this GPU binds at most "
            f"{caps.limits.storage_buffers} in one kernel."
        )
    starts = [0]
    for part in node.inputs:
        starts.append(starts[-1] + part.tensor.shape.c)
    shape = node.output.tensor.shape
    grid = fold(-(-shape.vectors // SIZE), caps)
    params = {
        "parts": tuple({"start": a, "end": b} for a, b in pairwise(starts)),
        "aligned": all(start % 4 == 0 for start in starts[:-1]),
        "slices": shape.slices,
        "vectors": shape.vectors,
        "size": SIZE,
        "grid_x": grid[0],
    }
    unique = tuple(Bind(f"in{i}", part) for i, part in enumerate(node.inputs))
    binds = (*unique, Bind("y", node.output, Access.WRITE))
    return [Dispatch("rows/concat.wgsl", params, binds, grid, "concat")]
