"""Attention of a chunk of tokens, in the flash manner: blocks of queries against tiles of keys."""

from __future__ import annotations

from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.kernels.attention_decode import sizes_of
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.kernels.state import STATE_WGSL


@dataclass(frozen=True)
class RowVariant:
    """One invocation a query, no barriers: for software devices, and where nothing else fits.

    Attributes:
        size: query rows of a workgroup.
        tile: keys between two rescalings.
        burst: keys that are scored together.
    """

    size: int
    tile: int
    burst: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"rows{self.size}t{self.tile}b{self.burst}"

    def lower(self, node: Node, caps: Capabilities) -> list[Dispatch]:
        """One dispatch."""
        sizes = sizes_of(node)
        q = node.named["q"]
        tokens = q.tensor.shape.w
        blocks = -(-tokens // self.size)
        grid = fold(blocks * sizes.heads, caps)
        softcap = node.attrs.get("softcap")
        params = {
            "state_words": STATE_WGSL,
            "tokens": tokens,
            "blocks": blocks,
            "heads": sizes.heads,
            "group": sizes.heads // sizes.kv_heads,
            "slices": sizes.slices,
            "positions": sizes.positions,
            "window": node.attrs.get("window"),
            "scale": float(node.attrs["scale"]),
            "softcap": None if softcap is None else float(softcap),
            "size": self.size,
            "tile": self.tile,
            "burst": self.burst,
            "wide": next(count for count in (4, 3, 2, 1) if sizes.slices % count == 0),
            "grid_x": grid[0],
        }
        return [Dispatch("attention/prefill_rows.wgsl", params, binds_of(node), grid, "attention")]


def binds_of(node: Node) -> tuple[Bind, ...]:
    """What every prefill kernel binds."""
    return (
        Bind("q", node.named["q"]),
        Bind("k_cache", node.named["k_cache"]),
        Bind("v_cache", node.named["v_cache"]),
        Bind("state", node.named["state"], raw="array<u32>"),
        Bind("o", node.output, Access.WRITE),
    )


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, best first."""
    found = [RowVariant(8, 64, 8), RowVariant(8, 32, 4)]
    return {v.name: v.lower(node, caps) for v in found}
