"""Attention of one token where subgroups have one known size, with or without the rotation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node, Role, Value
from engine.kernels.attention_decode_sizes import (
    GROUP_MAX,
    Sizes,
    partials_shape,
    sizes_of,
    split_params,
)
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import power_of_two
from engine.kernels.rope import rotation_params
from engine.kernels.state import STATE_WGSL
from engine.tensor.descriptor import DType, TensorDesc

#: Floats a lane may keep of the queries, and of the sums: more would spill.
QUERY_FLOATS = 64
SUM_FLOATS = 64
#: The merge reads as many parts of each head, so there are never more.
SPLITS_MAX = 64


@dataclass(frozen=True)
class Variant:
    """How the first kernel is cut.

    Attributes:
        lanes: the subgroup's size.
        subs: subgroups of a workgroup.
        workgroups: how many to aim at, over all KV heads.
        loads: of keys that a lane has in flight, and about as many of values.
        fused: rotates the queries, and the newest key, itself.
    """

    lanes: int
    subs: int
    workgroups: int
    loads: int = 8
    fused: bool = False

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"sub{self.lanes}x{self.subs}l{self.loads}w{self.workgroups}"


@dataclass(frozen=True)
class Cut:
    """Who does what within a subgroup; all are powers of two but the units.

    Attributes:
        width: vectors of four channels that one load brings.
        units: loads of a whole key.
        parts: lanes that share a key.
        passes: keys of a lane in one block.
        value_lanes: lanes that share a value.
    """

    width: int
    units: int
    parts: int
    passes: int
    value_lanes: int


def choices(node: Node, caps: Capabilities, fused: bool = False) -> list[Variant]:
    """The variants allowed for a node on this device, best first; none without subgroups."""
    lanes = caps.subgroup
    if not 4 <= lanes <= 128:
        return []
    # Invocations, loads in flight, workgroups.
    aims = ((128, 8, 256), (256, 8, 128), (128, 4, 256), (256, 4, 256), (64, 8, 256))
    if caps.kind != "discrete":
        aims = ((128, 8, 64), (256, 8, 64), (128, 4, 128))
    found: list[Variant] = []
    for threads, loads, workgroups in aims:
        subs = max(1, min(threads, caps.limits.invocations) // lanes)
        sizes = _grouped(node, lanes)
        while subs > 1 and _shared_bytes(sizes, subs) > caps.limits.workgroup_bytes:
            subs //= 2
        if _shared_bytes(sizes, subs) <= caps.limits.workgroup_bytes:
            found.append(Variant(lanes, subs, workgroups, loads, fused))
    return list(dict.fromkeys(found))


def lower(node: Node, caps: Capabilities, variant: Variant) -> list[Dispatch]:
    """Both kernels of a variant, for the op attention or (fused) rope_attention."""
    sizes = _grouped(node, variant.lanes)
    cut = cut_of(sizes, node, variant)
    slots = variant.lanes // cut.parts
    grain = max(8, variant.subs * slots)
    splits = _splits(sizes, variant, grain)
    desc = TensorDesc(partials_shape(sizes, splits))
    partials = Value(f"{node.output.name}.partials", desc, Role.ACTIVATION)
    common = {"state_words": STATE_WGSL, **split_params(node, sizes, splits, grain)}
    half = node.named["k_cache"].tensor.dtype is DType.F16
    unit = "vec4<u32>" if cut.width == 2 else "vec4<f16>" if half else "vec4<f32>"
    params = common | {
        "fused": variant.fused,
        "lanes": variant.lanes,
        "subs": variant.subs,
        "width": cut.width,
        "units": cut.units,
        "parts": cut.parts,
        "slots": slots,
        "passes": cut.passes,
        "value_lanes": cut.value_lanes,
        "value_rows": variant.lanes // cut.value_lanes,
        "part_masks": _powers(1, cut.parts),
        "slot_masks": _powers(cut.parts, variant.lanes),
        "value_masks": _powers(cut.value_lanes, variant.lanes),
        "half_cache": half,
        "unit_type": unit,
    }
    if variant.fused:
        params |= rotation_params(node)
    grid = (sizes.kv_heads * sizes.blocks, splits, 1)
    binds = _binds(node, variant, f"array<{unit}>", partials)
    label = "rope_attention_split" if variant.fused else "attention_split"
    split = Dispatch("attention/decode_subgroups.wgsl", params, binds, grid, label)
    return [split, _merge(node, caps, sizes, partials, common | {"lanes": variant.lanes})]


def cut_of(sizes: Sizes, node: Node, variant: Variant) -> Cut:
    """The layout for these sizes: 16-byte loads where heads allow, and few enough registers."""
    half = node.named["k_cache"].tensor.dtype is DType.F16
    width = 2 if half and sizes.slices % 2 == 0 else 1
    units = sizes.slices // width
    value_lanes = min(variant.lanes, _up_to_power(units))
    parts = min(4, value_lanes)
    while parts < value_lanes and sizes.group * 4 * width * -(-units // parts) > QUERY_FLOATS:
        parts *= 2
    passes = power_of_two(max(1, variant.loads // -(-units // parts)))
    return Cut(width, units, parts, passes, value_lanes)


def _grouped(node: Node, lanes: int) -> Sizes:
    """The node's sizes, with as many query heads a workgroup as a lane can hold sums for."""
    sizes = sizes_of(node)
    each = 4 * max(1, -(-sizes.slices // lanes))
    return replace(sizes, group_max=max(1, min(GROUP_MAX, SUM_FLOATS // each)))


def _splits(sizes: Sizes, variant: Variant, grain: int) -> int:
    most = -(-sizes.positions // grain)
    wanted = -(-variant.workgroups // (sizes.kv_heads * sizes.blocks))
    return max(1, min(wanted, most, SPLITS_MAX))


def _shared_bytes(sizes: Sizes, subs: int) -> int:
    """Workgroup memory of the first kernel, fused or not."""
    query = (sizes.group + 2) * sizes.slices
    return 16 * (query + subs * sizes.group * sizes.slices) + 8 * subs * sizes.group


def _powers(first: int, end: int) -> list[int]:
    """The powers of two from ``first`` up to below ``end``."""
    return [1 << bit for bit in range(first.bit_length() - 1, end.bit_length() - 1)]


def _up_to_power(value: int) -> int:
    """The smallest power of two that is at least ``value``."""
    return 1 << (value - 1).bit_length()


def _binds(node: Node, variant: Variant, raw: str, partials: Value) -> tuple[Bind, ...]:
    named = node.named
    access = Access.READ_WRITE if variant.fused else Access.READ
    first = "qkv" if variant.fused else "q"
    binds = [
        Bind(first, named[first]),
        Bind("k_cache", named["k_cache"], access, raw),
        Bind("v_cache", named["v_cache"], access, raw),
        Bind("state", named["state"], raw="array<u32>"),
        Bind("partials", partials, Access.WRITE, "array<vec4<f32>>"),
    ]
    if variant.fused:
        used = ["rope_freqs"] if node.attrs["rope_dim"] else []
        used += [name for name in ("q_gain", "k_gain") if name in named]
        binds += [Bind(name, named[name]) for name in used]
    return tuple(binds)


def _merge(
    node: Node, caps: Capabilities, sizes: Sizes, partials: Value, common: dict[str, Any]
) -> Dispatch:
    lanes, splits = int(common["lanes"]), int(common["splits"])
    most = min(256, caps.limits.invocations)
    columns = min(sizes.slices, most)
    rows = power_of_two(min(most // columns, splits, lanes))
    threads = min(-(-columns * rows // lanes) * lanes, most)
    params = common | {"columns": columns, "rows": rows, "threads": threads}
    binds = (
        Bind("partials", partials, raw="array<vec4<f32>>"),
        Bind("state", node.named["state"], raw="array<u32>"),
        Bind("o", node.output, Access.WRITE),
    )
    grid = (sizes.heads, 1, 1)
    return Dispatch("attention/decode_merge_subgroups.wgsl", params, binds, grid, "attention_merge")
