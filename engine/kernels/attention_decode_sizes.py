"""What attention of one token asks for, in the terms of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.graph.node import Node
from engine.tensor.descriptor import Shape

#: Query heads that share the loads of one workgroup; more are cut into blocks.
GROUP_MAX = 8


@dataclass(frozen=True)
class Sizes:
    """What a node asks for, in the terms of the kernels."""

    heads: int
    kv_heads: int
    slices: int  # vectors of four channels in a head
    positions: int
    group_max: int = GROUP_MAX

    @property
    def group(self) -> int:
        """Query heads of one workgroup."""
        return min(self.heads // self.kv_heads, self.group_max)

    @property
    def blocks(self) -> int:
        """Workgroups that share a KV head."""
        return -(-(self.heads // self.kv_heads) // self.group)


def sizes_of(node: Node) -> Sizes:
    """The sizes of an attention node."""
    positions = node.named["k_cache"].tensor.shape.w
    heads, kv_heads = int(node.attrs["heads"]), int(node.attrs["kv_heads"])
    return Sizes(heads, kv_heads, int(node.attrs["head_dim"]) // 4, positions)


def partials_shape(sizes: Sizes, splits: int) -> Shape:
    """Of each head and split the sums of weighted values, the largest score, the sum of weights."""
    return Shape(h=sizes.heads, w=splits, c=4 * (sizes.slices + 1))


def split_params(node: Node, sizes: Sizes, splits: int, tile: int) -> dict[str, Any]:
    """What the templates of every kernel of decode attention take; ``tile``: see span.wgsl."""
    return {
        "splits": splits,
        "tile": tile,
        "positions": sizes.positions,
        "window": node.attrs.get("window"),
        "slices": sizes.slices,
        "group": sizes.group,
        "blocks": sizes.blocks,
        "heads_per_kv": sizes.heads // sizes.kv_heads,
        "scale": float(node.attrs["scale"]),
        "softcap": node.attrs.get("softcap"),
    }
