"""The op ``linear`` for one token (or a few): every weight is read once and decoded in registers.

A node becomes one dispatch for each run of rows that lies in one part of the weight. Fused into it
are an input norm, a bias, a residual, and the gate of a feed-forward layer. A :class:`Variant` says
how the work is shared out; :func:`choose` picks one for a device, :func:`variants` lists those that
may run there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.gpu.capabilities import Capabilities
from engine.graph.node import GraphError, Node
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.matvec_tables import VARIANTS, Variant, preferred
from engine.kernels.quantise_blocks import FLOAT_KINDS, GROUP, fold
from engine.tensor.descriptor import VEC, Layout, Storage, TensorDesc
from engine.tensor.weights import WeightDesc

MAX_TOKENS = 8  # more than a few rows of activations are a matrix product


@dataclass(frozen=True)
class Run:
    """Output rows ``first`` to ``first + rows`` whose weights lie in one part (gated: in one each).

    ``parts`` and ``starts`` are the part, and the first row within it, of the gate (or only) rows
    and, when gated, of the up rows.
    """

    first: int
    rows: int
    parts: tuple[int, ...]
    starts: tuple[int, ...]


def runs(desc: WeightDesc, gated: bool) -> list[Run]:
    """Cut the output rows wherever a part of the weight ends."""
    total = desc.rows // 2 if gated else desc.rows
    offsets = (0, total) if gated else (0,)
    cuts = {0, total}
    for start, offset in itertools.product(desc.starts, offsets):
        if 0 < start - offset < total:
            cuts.add(start - offset)
    edges = sorted(cuts)
    return [_run(desc, first, end - first, offsets) for first, end in itertools.pairwise(edges)]


def _runs(node: Node) -> list[Run]:
    return runs(node.named["weight"].weight, _gated(node))


def _gated(node: Node) -> bool:
    return node.attrs.get("gated") is not None


def _run(desc: WeightDesc, first: int, rows: int, offsets: tuple[int, ...]) -> Run:
    parts = tuple(_part_of(desc, first + offset) for offset in offsets)
    starts = tuple(
        first + offset - desc.starts[part] for part, offset in zip(parts, offsets, strict=True)
    )
    return Run(first, rows, parts, starts)


def _part_of(desc: WeightDesc, row: int) -> int:
    return max(part for part, start in enumerate(desc.starts) if start <= row)


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """The dispatches of a ``linear`` node, by ``variant`` or the one that :func:`choose` picks.

    Raises:
        GraphError: the node has more tokens than this family takes, or the variant cannot run it.
    """
    tokens = _tokens(node)
    if tokens > MAX_TOKENS:
        raise GraphError(
            f"A matrix-vector kernel takes 1 to {MAX_TOKENS} tokens, and this linear has {tokens}."
        )
    variant = choose(node, caps) if variant is None else variant
    if not allowed(variant, node, caps):
        raise GraphError(f"The matrix-vector variant {variant.name} cannot run this node here.")
    return [_dispatch(node, caps, variant, run) for run in _runs(node)]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node on this device, by the variant's name."""
    return {v.name: lower(node, caps, v) for v in candidates(node, caps)}


def candidates(node: Node, caps: Capabilities) -> list[Variant]:
    """The variants that may run the node on this device."""
    return [variant for variant in VARIANTS if allowed(variant, node, caps)]


def choose(node: Node, caps: Capabilities) -> Variant:
    """The variant that a device's table prefers for the node's shape and that is allowed there.

    Raises:
        GraphError: none is allowed.
    """
    desc = node.named["weight"].weight
    outputs = node.output.tensor.shape.c
    for variant in itertools.chain(preferred(desc, outputs, _tokens(node), caps), VARIANTS):
        if allowed(variant, node, caps):
            return variant
    raise GraphError(
        f"No matrix-vector kernel runs {desc.rows}x{desc.cols} {desc.kind} here: it binds "
        f"{_buffers(node)} buffers, and this device allows {caps.limits.storage_buffers}. "
        "Run it with less fused into it."
    )


def allowed(variant: Variant, node: Node, caps: Capabilities) -> bool:
    """Whether the device and the node's shapes let a variant run."""
    desc = node.named["weight"].weight
    if not _fits_device(variant, caps) or not _fits_output(variant, node):
        return False
    if _buffers(node) > caps.limits.storage_buffers:
        return False
    tokens = _tokens(node)
    if desc.kind in FLOAT_KINDS and (variant.words != 4 or variant.staged or variant.wide):
        return False  # these only mean something for groups of codes
    if variant.staged and tokens > 1:
        return False
    slices = node.named["x"].tensor.shape.slices
    staged = (slices + slices // 8) * 16 + 128 if variant.staged else 0
    size, sums = variant.invocations(caps), _sums(node, variant)
    if variant.reduce == "memory":
        partial = 4 * variant.sets * sums * (_lanes(variant, caps) + 8)
    else:
        partial = 4 * variant.sets * sums * variant.split
    if staged + partial > caps.limits.workgroup_bytes:
        return False
    return variant.style == "software" or variant.sets * variant.rows * tokens <= size


def _buffers(node: Node) -> int:
    """Storage buffers that the widest dispatch of the node binds."""
    plain = [value for value in (*node.inputs, *node.outputs) if isinstance(value.desc, TensorDesc)]
    desc = node.named["weight"].weight
    objects = max(len(set(run.parts)) for run in _runs(node))
    planes = 2 if desc.scale_words else 1
    buffers = sum(value.tensor.storage is Storage.BUFFER for value in plain)
    return buffers + planes * objects


def _sums(node: Node, variant: Variant) -> int:
    matrices = 2 if _gated(node) else 1
    return (matrices * variant.rows + 1) * _tokens(node)


def _fits_device(variant: Variant, caps: Capabilities) -> bool:
    size = variant.invocations(caps)
    if size == 0 or size > min(caps.limits.invocations, caps.limits.workgroup_x):
        return False
    if variant.style == "software" and not caps.software:
        return False  # every lane reads rows of its own, which a GPU cannot join into wide loads
    if variant.shared and caps.subgroup != GROUP // VEC:
        return False  # each lane loads one of the vectors of a group
    return variant.reduce != "subgroup" or caps.subgroup > 0


def _fits_output(variant: Variant, node: Node) -> bool:
    """Rows written one by one need a plain buffer; by fours, runs that start at a multiple."""
    return _by_fours(variant, node) or _plain(node.output.tensor)


def _by_fours(variant: Variant, node: Node) -> bool:
    if variant.rows % VEC:
        return False
    return all(run.first % VEC == 0 for run in _runs(node))


def _plain(desc: TensorDesc) -> bool:
    return desc.storage is Storage.BUFFER and (desc.layout is Layout.ROWS or desc.shape.w == 1)


def _tokens(node: Node) -> int:
    shape = node.named["x"].tensor.shape
    return shape.b * shape.h * shape.w


def _lanes(variant: Variant, caps: Capabilities) -> int:
    return caps.subgroup if variant.reduce == "subgroup" else variant.lanes


def _dispatch(node: Node, caps: Capabilities, variant: Variant, run: Run) -> Dispatch:
    named, out = node.named, node.output.tensor
    desc = named["weight"].weight
    per_group = variant.rows * variant.rows_per_invocation_group(caps)
    grid = fold(-(-run.rows // per_group), caps)
    by_fours = _by_fours(variant, node)
    gated = _gated(node)
    names = ["w"] if not gated else ["w", "w" if run.parts[0] == run.parts[1] else "u"]
    params: dict[str, Any] = {
        "cols": desc.cols,
        "slices": named["x"].tensor.shape.slices,
        "tokens": _tokens(node),
        "total": out.shape.c,
        "rows_here": run.rows,
        "first": run.first,
        "starts": run.starts,
        "norm_eps": node.attrs.get("norm_eps"),
        "gate": node.attrs.get("gated"),
        "has_residual": "residual" in named,
        "has_bias": "bias" in named,
        "bias_rows": desc.rows,
        "gate_bias": run.first,
        "up_bias": run.first + desc.rows // 2 if gated else 0,
        "pitch": out.shape.slices * VEC,
        "vec": by_fours,
        "y_type": out.dtype.value,
        "names": list(enumerate(names)),
        "bound": sorted(set(names), reverse=True),
        "ragged": run.rows != grid[0] * grid[1] * per_group,
        "last_parcel": (run.rows - 1) // VEC * VEC if by_fours else run.rows - 1,
        "grid": grid,
        **variant.params(caps),
    }
    label = f"matvec {desc.kind} {desc.rows}x{desc.cols} {variant.name}"
    template = "matvec/software.wgsl" if variant.style == "software" else "matvec/lanes.wgsl"
    return Dispatch(template, params, tuple(_binds(node, run, names, by_fours)), grid, label)


def _binds(node: Node, run: Run, names: Iterable[str], by_fours: bool) -> Iterator[Bind]:
    named = node.named
    yield Bind("x", named["x"])
    for name, part in dict(zip(names, run.parts, strict=True)).items():
        yield Bind(name, named["weight"], part=part)
    raw = "" if by_fours else f"array<{node.output.tensor.dtype.value}>"
    yield Bind("y", node.output, Access.WRITE, raw=raw)
    for part in ("gain", "bias", "residual"):
        if part in named:
            yield Bind(part, named[part])
