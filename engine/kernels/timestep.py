"""The ops ``timestep_embedding`` and ``add_shift``: what a network is told about its step."""

from __future__ import annotations

import math

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.graph.ops import rows as rows_of
from engine.graph.ops_image import STEP_WORDS
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.kernels.scheduler_step import STEP_WGSL

SIZE = 64


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """The dispatch of one of this family's ops."""
    return [_add_shift(node, caps) if node.op == "add_shift" else _embedding(node, caps)]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node, by name: there is one."""
    return {"only": lower(node, caps)}


def _embedding(node: Node, caps: Capabilities) -> Dispatch:
    named, attrs, shape = node.named, node.attrs, node.output.tensor.shape
    half = shape.c // 2
    grid = fold(-(-shape.vectors // SIZE), caps)
    params = {
        "state_words": STEP_WGSL,
        "has_state": "state" in named,
        "steps": named["values"].tensor.shape.elements // STEP_WORDS,
        "step_words": STEP_WORDS,
        "channels": shape.c,
        "slices": shape.slices,
        "rows": shape.w,
        "half": half,
        "exponent": -math.log(attrs["max_period"]) / (half - attrs["freq_shift"]),
        "flip": bool(attrs["flip"]),
        "size": SIZE,
    }
    binds = [Bind("values", named["values"], raw="array<f32>")]
    if "state" in named:
        binds.append(Bind("state", named["state"], raw="array<u32>"))
    binds.append(Bind("y", node.output, Access.WRITE))
    return Dispatch("image/timestep.wgsl", params, tuple(binds), grid, "timestep embedding")


def _add_shift(node: Node, caps: Capabilities) -> Dispatch:
    shape = node.output.tensor.shape
    grid = fold(-(-shape.vectors // SIZE), caps)
    params = {
        "vectors": shape.vectors,
        "slices": shape.slices,
        "pixels": rows_of(shape) // rows_of(node.named["shift"].tensor.shape),
        "size": SIZE,
        "grid_x": grid[0],
    }
    reads = (Bind(part, node.named[part]) for part in ("x", "shift"))
    binds = (*reads, Bind("y", node.output, Access.WRITE))
    return Dispatch("image/add_shift.wgsl", params, binds, grid, "add_shift")
