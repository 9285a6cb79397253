"""Attention of one token: workgroups share the cache, and a second kernel merges their parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node, Role, Value
from engine.kernels import attention_decode_subgroups
from engine.kernels.attention_decode_sizes import (
    GROUP_MAX,
    Sizes,
    partials_shape,
    sizes_of,
    split_params,
)
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import power_of_two
from engine.kernels.state import STATE_WGSL
from engine.tensor.descriptor import TensorDesc


@dataclass(frozen=True)
class Variant:
    """Sizes of the first kernel.

    Attributes:
        threads: invocations of a workgroup.
        parts: invocations that share the dot product of one key.
        tile: keys between two barriers.
        workgroups: how many to aim at, over all KV heads.
        prefetch: load a tile's values before its scores are known.
    """

    threads: int
    parts: int
    tile: int
    workgroups: int
    prefetch: bool = True

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        late = "" if self.prefetch else "-late"
        return f"split{self.threads}x{self.parts}t{self.tile}w{self.workgroups}{late}"


@dataclass(frozen=True)
class LaneVariant:
    """The first kernel for software devices: a workgroup is one subgroup.

    Attributes:
        lanes: the subgroup's size.
        workgroups: how many to aim at, over all KV heads.
        group: query heads of a workgroup, at most.
    """

    lanes: int
    workgroups: int
    group: int

    @property
    def tile(self) -> int:
        """Keys of one step."""
        return self.lanes

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"lanes{self.lanes}w{self.workgroups}"


def choices(node: Node, caps: Capabilities) -> list[Variant | LaneVariant]:
    """The variants allowed for a node on this device, best first."""
    slices = sizes_of(node).slices
    parts = 4
    while slices % parts:
        parts //= 2
    if caps.software:
        found: list[Variant | LaneVariant] = []
        if caps.subgroup and slices <= 64:
            # Unrolled over heads and channels: few heads where channels are many.
            group = max(1, min(GROUP_MAX, 96 // slices))
            found.append(LaneVariant(caps.subgroup, 6, group))
        return [*found, Variant(8, 1, 32, 8)]
    aim = 512 if caps.kind == "discrete" else 128
    wide = max(32, 128 // parts)
    found = [Variant(128, parts, wide, aim), Variant(128, parts, wide, aim // 2)]
    found += [
        Variant(128, parts, wide, aim, prefetch=False),
        Variant(64, parts, max(32, 64 // parts), aim),
    ]
    if caps.limits.invocations >= 256:
        found.append(Variant(256, parts, max(64, 256 // parts), aim // 2))
    return found


def splits_of(sizes: Sizes, variant: Variant | LaneVariant) -> int:
    """Into how many parts the cache is cut, whatever is in it: at most a tile each when full."""
    most = -(-sizes.positions // variant.tile)
    wanted = -(-variant.workgroups // (sizes.kv_heads * sizes.blocks))
    return max(1, min(wanted, most, 256))


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, best first."""
    plain = {v.name: _lower(node, caps, v) for v in choices(node, caps)}
    if caps.software:
        return plain
    subgroups = {
        each.name: attention_decode_subgroups.lower(node, caps, each)
        for each in attention_decode_subgroups.choices(node, caps)
    }
    return {**subgroups, **plain}


def _lower(node: Node, caps: Capabilities, variant: Variant | LaneVariant) -> list[Dispatch]:
    sizes = sizes_of(node)
    if isinstance(variant, LaneVariant):
        sizes = replace(sizes, group_max=variant.group)
        template, own = "attention/decode_lanes.wgsl", {"lanes": variant.lanes}
    else:
        template, own = "attention/decode_split.wgsl", _split_params(caps, sizes, variant)
    splits = splits_of(sizes, variant)
    desc = TensorDesc(partials_shape(sizes, splits))
    partials = Value(f"{node.output.name}.partials", desc, Role.ACTIVATION)
    common = {
        "state_words": STATE_WGSL,
        **split_params(node, sizes, splits, variant.tile),
    }
    state = Bind("state", node.named["state"], raw="array<u32>")
    raw = "array<vec4<f32>>"
    split = Dispatch(
        template,
        common | own,
        (
            Bind("q", node.named["q"]),
            Bind("k_cache", node.named["k_cache"]),
            Bind("v_cache", node.named["v_cache"]),
            state,
            Bind("partials", partials, Access.WRITE, raw),
        ),
        (sizes.kv_heads * sizes.blocks, splits, 1),
        "attention_split",
    )
    merge = Dispatch(
        "attention/decode_merge.wgsl",
        common | _merge_params(caps, sizes, splits),
        (Bind("partials", partials, raw=raw), state, Bind("o", node.output, Access.WRITE)),
        (sizes.heads, 1, 1),
        "attention_merge",
    )
    return [split, merge]


def _split_params(caps: Capabilities, sizes: Sizes, variant: Variant) -> dict[str, Any]:
    lanes = min(sizes.slices, variant.threads)
    subs = power_of_two(variant.threads // lanes)
    group = sizes.group
    words = (
        4 * group * sizes.slices + group * variant.tile * (variant.parts + 2) + group * (subs + 3)
    )
    room = caps.limits.workgroup_bytes - 4 * words - 256
    round_heads = max(1, min(group, room // (16 * max(subs - 1, 1) * sizes.slices)))
    return {
        "parts": variant.parts,
        "burst": _burst(sizes.slices // variant.parts, 4 if caps.software else 8),
        "threads": variant.threads,
        "lanes": lanes,
        "subs": subs,
        "vecs": -(-sizes.slices // lanes),
        "round_heads": round_heads,
        "prefetch": variant.prefetch and lanes == sizes.slices and variant.tile // subs <= 16,
    }


def _burst(steps: int, most: int) -> int:
    """How many loads of a key are in flight at once: a divisor of ``steps``."""
    return max(count for count in range(1, most + 1) if steps % count == 0)


def _merge_params(caps: Capabilities, sizes: Sizes, splits: int) -> dict[str, Any]:
    if caps.software:
        return {"lanes": 8, "subs": 1}
    lanes = min(sizes.slices, 64)
    most = min(256, caps.limits.invocations) // lanes
    return {"lanes": lanes, "subs": max(1, min(power_of_two(most), power_of_two(splits), 8))}
