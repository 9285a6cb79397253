"""The op ``layer_norm``: every row brought to mean 0 and deviation 1, times a gain, plus a bias."""

from __future__ import annotations

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.graph.ops import rows
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.kernels.norm import Variant, choices


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """One dispatch, shared out as an RMS norm would be; ``variant`` overrides the choice."""
    chosen = variant or choices(node, caps)[0]
    shape = node.named["x"].tensor.shape
    grid = fold(-(-rows(shape) // chosen.rows), caps)
    params = {
        "tokens": rows(shape),
        "slices": shape.slices,
        "channels": shape.c,
        "eps": float(node.attrs["eps"]),
        "lanes": chosen.lanes,
        "rows": chosen.rows,
        "subgroup": chosen.subgroup,
        "grid_x": grid[0],
    }
    read = tuple(Bind(part, node.named[part]) for part in ("x", "gain", "bias"))
    binds = (*read, Bind("y", node.output, Access.WRITE))
    return [Dispatch("layer_norm/layer_norm.wgsl", params, binds, grid, "layer_norm")]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, for tests, the self-test and the tuner."""
    return {v.name: lower(node, caps, v) for v in choices(node, caps)}
