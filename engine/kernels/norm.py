"""The op ``rms_norm``: every row divided by its root mean square, times a gain."""

from __future__ import annotations

from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.graph.ops import rows
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold, power_of_two

#: Slices of a row that one invocation keeps in registers at most.
HELD = 8


@dataclass(frozen=True)
class Variant:
    """How many invocations share a row, how many rows a workgroup; subgroup 0: shared memory."""

    lanes: int
    rows: int
    subgroup: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"lanes{self.lanes}x{self.rows}" + ("" if self.subgroup else "-shared")


def choices(node: Node, caps: Capabilities) -> list[Variant]:
    """The variants allowed for a node on this device, best first."""
    shape = node.named["x"].tensor.shape
    lanes = min(256, caps.limits.invocations, max(power_of_two(shape.slices), 1))
    found: list[Variant] = []
    size = caps.subgroup
    if size:
        many = max(1, min(64 // size, rows(shape)))
        whole = Variant(size, many, size)
        wide = Variant(max(lanes, size), 1, size)
        # A subgroup that cannot hold a wide row would wait for one read after the other.
        many_short = rows(shape) >= 512 and shape.slices <= HELD * size
        found += [whole, wide] if caps.software or many_short else [wide, whole]
    found.append(Variant(min(lanes, 64), 1, 0))
    found.append(Variant(1, 8, 0))
    return list(dict.fromkeys(found))


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """One dispatch; ``variant`` overrides the choice."""
    x, gain, y = node.named["x"], node.named["gain"], node.output
    chosen = variant or choices(node, caps)[0]
    shape = x.tensor.shape
    grid = fold(-(-rows(shape) // chosen.rows), caps)
    each = -(-shape.slices // chosen.lanes)
    params = {
        "held": each if each <= HELD else 0,
        "tokens": rows(shape),
        "slices": shape.slices,
        "channels": shape.c,
        "eps": float(node.attrs["eps"]),
        "lanes": chosen.lanes,
        "rows": chosen.rows,
        "subgroup": chosen.subgroup,
        "grid_x": grid[0],
    }
    binds = (Bind("x", x), Bind("gain", gain), Bind("y", y, Access.WRITE))
    return [Dispatch("norm/rms_norm.wgsl", params, binds, grid, "rms_norm")]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, for tests, the self-test and the tuner."""
    return {v.name: lower(node, caps, v) for v in choices(node, caps)}
