"""The ops ``group_norm`` and ``group_table``: every group of channels of a picture normalised.

Three kernels: the moments of every channel over strands of pixels in one pass, from them the scale
and shift of every channel (the *table*), and the table applied. Where a convolution follows, only
the table is made and the convolution applies it as it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.gpu.capabilities import Capabilities
from engine.graph.expression import activation
from engine.graph.node import Node, Role, Value
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.tensor.descriptor import VEC, Shape, TensorDesc, matrix


@dataclass(frozen=True)
class Variant:
    """Pixels of a strand (at least), and invocations that share a group when strands are joined."""

    run: int
    lanes: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"run{self.run}x{self.lanes}"


def choices(node: Node, caps: Capabilities) -> list[Variant]:
    """The variants allowed for a node on this device, best first."""
    shape = node.named["x"].tensor.shape
    pixels = shape.h * shape.w
    if caps.software:
        return [Variant(max(64, pixels // 16), 8), Variant(16, 64)]
    return [Variant(min(512, max(32, pixels // 64)), 256), Variant(64, 64)]


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """The dispatches of the node; ``variant`` overrides the choice."""
    chosen = variant or choices(node, caps)[0]
    if node.op == "group_table":
        return _make_table(node, caps, chosen, node.output)
    shape = node.output.tensor.shape
    desc = TensorDesc(Shape(b=shape.b, w=2, c=shape.c))
    table = Value(f"{node.output.name}.table", desc, Role.ACTIVATION)
    named, act = {**node.named, "table": table}, node.attrs["act"]
    return [*_make_table(node, caps, chosen, table), apply_table(named, node.output, act, caps)]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, for tests, the self-test and the tuner."""
    return {v.name: lower(node, caps, v) for v in choices(node, caps)}


def _make_table(node: Node, caps: Capabilities, variant: Variant, table: Value) -> list[Dispatch]:
    named = node.named
    params = _params(named, named["gain"].tensor.shape.elements)
    run = min(variant.run, params["pixels"])
    strands = -(-params["pixels"] // run)
    slices, batch, groups = params["slices"], params["batch"], int(node.attrs["groups"])
    moments = Value(
        f"{table.name}.moments", matrix(batch * strands, 2 * slices * VEC), Role.ACTIVATION
    )
    size = min(64, caps.limits.invocations)
    grid = fold(-(-batch * strands * slices // size), caps)
    shared = {**params, "run": run, "strands": strands}
    first = Dispatch(
        "group_norm/moments.wgsl",
        {**shared, "size": size, "grid_x": grid[0]},
        (*_reads(named), Bind("moments", moments, Access.WRITE)),
        grid,
        "group norm moments",
    )
    second = Dispatch(
        "group_norm/table.wgsl",
        {
            **shared,
            "last_run": params["pixels"] - (strands - 1) * run,
            "lanes": min(variant.lanes, caps.limits.invocations),
            "groups": groups,
            "per_group": params["channels"] // groups,
            "eps": float(node.attrs["eps"]),
        },
        (
            Bind("moments", moments),
            Bind("gain", named["gain"]),
            Bind("bias", named["bias"]),
            Bind("table", table, Access.WRITE, raw="array<f32>"),
        ),
        (batch * groups, 1, 1),
        "group norm table",
    )
    return [first, second]


def apply_table(
    named: Mapping[str, Value], y: Value, act: str | None, caps: Capabilities
) -> Dispatch:
    """y = act(x * scale + shift), of ``x`` (and ``skip``) with a ``table``, all three by name."""
    size = 64
    grid = fold(-(-y.tensor.shape.vectors // size), caps)
    params = {
        **_params(named, y.tensor.shape.c),
        "act": None if act is None else activation(act, "v"),
        "size": size,
        "grid_x": grid[0],
    }
    binds = (*_reads(named), Bind("table", named["table"]), Bind("y", y, Access.WRITE))
    return Dispatch("group_norm/apply.wgsl", params, binds, grid, "group norm apply")


def _reads(named: Mapping[str, Value]) -> tuple[Bind, ...]:
    return tuple(Bind(part, named[part]) for part in ("x", "skip") if part in named)


def _params(named: Mapping[str, Value], channels: int) -> dict[str, Any]:
    shape = named["x"].tensor.shape
    return {
        "batch": shape.b,
        "height": shape.h,
        "width": shape.w,
        "pixels": shape.h * shape.w,
        "channels": channels,
        "slices": -(-channels // VEC),
        "x_slices": shape.slices,
        "has_skip": "skip" in named,
    }
