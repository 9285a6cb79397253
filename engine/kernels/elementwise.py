"""Elementwise ops: single ones, fused chains of them, and the gate of a feed-forward network."""

from __future__ import annotations

from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities
from engine.graph.expression import Expression, Step, wgsl_lines
from engine.graph.node import GraphError, Node, Value
from engine.graph.ops import expression_of
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold


@dataclass(frozen=True)
class Variant:
    """Invocations of a workgroup and the vectors of four that each computes."""

    size: int
    per: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"wg{self.size}x{self.per}"


def choices(node: Node, caps: Capabilities) -> list[Variant]:
    """The variants allowed for a node on this device, best first."""
    vectors = node.output.tensor.shape.vectors
    if caps.software:
        return [Variant(64, 1), Variant(32, 4)]
    wide = min(256, caps.limits.invocations)
    small, large = Variant(64, 1), Variant(wide, 2)
    return [large, small] if vectors >= 1 << 17 else [small, large]


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """One dispatch; ``variant`` overrides the choice.

    Raises:
        GraphError: the node is no elementwise op, or binds more buffers than the device allows.
    """
    chosen = variant or choices(node, caps)[0]
    expression, binds, loads = _parts(node)
    if len(binds) + 1 > caps.limits.storage_buffers:
        raise GraphError(
            f"{node.op} reads {len(binds)} tensors and writes one; this GPU binds at most "
            f"{caps.limits.storage_buffers} in one kernel. Fuse fewer ops."
        )
    shape = node.output.tensor.shape
    grid = fold(-(-shape.vectors // (chosen.size * chosen.per)), caps)
    params = {
        "vectors": shape.vectors,
        "slices": shape.slices,
        "width": shape.w,
        "height": shape.h,
        "size": chosen.size,
        "per": chosen.per,
        "spread": grid[0] * grid[1] * chosen.size,
        "grid_x": grid[0],
        "loads": loads,
        "lines": tuple(wgsl_lines(expression, [f"v{i}" for i in range(len(loads))])),
    }
    binds = (*binds, Bind("y", node.output, Access.WRITE))
    return [Dispatch("elementwise/elementwise.wgsl", params, binds, grid, node.op)]


def _parts(node: Node) -> tuple[Expression, tuple[Bind, ...], tuple[str, ...]]:
    """What is computed, what is bound, and how each operand is loaded."""
    if node.op == "gated":
        act = str(node.attrs["act"])
        expression = Expression(2, (Step(act, (0,)), Step("mul", (2, 1))))
        x = node.inputs[0]
        gate, up = _gate_loads(x)
        loads = (gate, up) if node.attrs.get("gate_first", True) else (up, gate)
        return expression, (Bind("x", x),), loads
    expression = expression_of(node)
    if expression is None:
        raise GraphError(f"{node.op} is no elementwise op.")
    unique = tuple(dict.fromkeys(node.inputs))
    binds = tuple(Bind(f"in{i}", value) for i, value in enumerate(unique))
    loads = tuple(f"in{unique.index(value)}_read(b, y, x, s)" for value in node.inputs)
    return expression, binds, loads


def _gate_loads(x: Value) -> tuple[str, str]:
    """Loads of a gate and of its up vector, which spans two slices where it is not aligned."""
    half = x.tensor.shape.c // 2
    if half % 4 == 0:
        return "x_read(b, y, x, s)", f"x_read(b, y, x, s + {half // 4}u)"
    most = x.tensor.shape.slices - 1
    channels = [f"(4u * s + {half + c}u)" for c in range(4)]
    parts = [f"x_read(b, y, x, min({c} >> 2u, {most}u))[{c} & 3u]" for c in channels]
    return "x_read(b, y, x, s)", f"vec4<f32>({', '.join(parts)})"


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, for tests, the self-test and the tuner."""
    return {v.name: lower(node, caps, v) for v in choices(node, caps)}
