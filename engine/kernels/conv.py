"""The op ``conv2d``: an implicit matrix product with everything around it folded in.

The product is never laid out: each workgroup gathers the pixels of its taps as it needs them, adds
upsampling, the group norm before and its activation on the way in, and bias, time embedding,
residual and activation on the way out. A :class:`Variant` says how the work is shared out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.graph.expression import activation
from engine.graph.node import GraphError, Node, Role, Value
from engine.graph.ops import rows as rows_of
from engine.graph.ops_image import kernel_size, sides
from engine.kernels import group_norm
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.conv_tables import GROUP, VARIANTS, Variant, preferred
from engine.kernels.grid import fold
from engine.kernels.matvec import Run, runs
from engine.tensor.descriptor import VEC, DType, matrix

MERGE_SIZE = 64
APART_MOST = 96 << 20  # bytes
_TEMPLATES = {"f32": "tile", "f16": "tile", "matrix": "matrix", "software": "software"}


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """The dispatches of a ``conv2d`` node, by ``variant`` or the one that :func:`choose` picks.

    Raises:
        GraphError: the variant cannot run the node on this device.
    """
    variant = choose(node, caps) if variant is None else variant
    if not allowed(variant, node, caps):
        raise GraphError(f"The convolution kernel {variant.name} cannot run this node here.")
    if variant.apart:
        before, node = _normed(node, caps)
        return [before, *lower(node, caps, replace(variant, apart=False))]
    desc = node.named["weight"].weight
    if variant.splits == 1:
        return [_dispatch(node, caps, variant, run, None) for run in runs(desc, False)]
    pixels = rows_of(node.output.tensor.shape)
    sums = matrix(variant.splits * pixels, desc.rows)
    partial = Value(f"{node.output.name}.partial", sums, Role.ACTIVATION)
    products = [_dispatch(node, caps, variant, run, partial) for run in runs(desc, False)]
    return [*products, _merge(node, caps, variant, partial)]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node on this device, by the variant's name."""
    return {v.name: lower(node, caps, v) for v in candidates(node, caps)}


def candidates(node: Node, caps: Capabilities) -> list[Variant]:
    """The variants that may run the node on this device."""
    ways = (False, True) if "table" in node.named else (False,)
    found = (replace(variant, apart=apart) for variant in VARIANTS for apart in ways)
    return [variant for variant in found if allowed(variant, node, caps)]


def choose(node: Node, caps: Capabilities) -> Variant:
    """The variant that suits the node's shape and is allowed on this device.

    Raises:
        GraphError: none is allowed.
    """
    desc = node.named["weight"].weight
    half = node.named["x"].tensor.dtype is DType.F16
    groups = -(-desc.cols // GROUP)
    best = preferred(rows_of(node.output.tensor.shape), desc.rows, groups, caps, half=half)
    apart = _better_apart(node)
    for variant in itertools.chain(best, VARIANTS):
        for way in (apart, True) if "table" in node.named else (False,):
            chosen = replace(variant, apart=way)
            if allowed(chosen, node, caps):
                return chosen
    raise GraphError(
        f"No convolution kernel runs here: this one binds {_buffers(node)} buffers, and this "
        f"device allows {caps.limits.storage_buffers}. Run it with less fused into it."
    )


def allowed(variant: Variant, node: Node, caps: Capabilities) -> bool:
    """Whether the device and the node's shapes let a variant run."""
    desc = node.named["weight"].weight
    if variant.apart:
        _, node = _normed(node, caps)
    size = variant.invocations(caps)
    if not 0 < size <= min(caps.limits.invocations, caps.limits.workgroup_x):
        return False
    shape = matrix_shape(variant, caps) if variant.style == "matrix" else None
    if variant.style == "matrix" and shape is None:
        return False
    if variant.workgroup_bytes(shape) > caps.limits.workgroup_bytes:
        return False
    if variant.style == "f16" and not caps.f16:
        return False
    if variant.style == "software" and (not caps.software or variant.pixels * 8 % size):
        return False
    if variant.splits > 1 and -(-desc.cols // GROUP) < 2 * variant.splits * variant.step:
        return False
    aligned = all(start % VEC == 0 for start in desc.starts)
    return aligned and _buffers(node) <= caps.limits.storage_buffers


def matrix_shape(variant: Variant, caps: Capabilities) -> MatrixShape | None:
    """The largest matrix unit that a subgroup's part of the tile is made of, if there is one."""

    def fits(shape: MatrixShape) -> bool:
        rest = variant.lane_pixels % shape.m or variant.lane_rows % shape.n or GROUP % shape.k
        return (shape.input, shape.output) == ("f16", "f32") and not rest and shape.n % VEC == 0

    if not caps.f16 or not caps.subgroup:
        return None
    return max(filter(fits, caps.matrix), key=lambda s: s.m * s.n * s.k, default=None)


def _better_apart(node: Node) -> bool:
    """Whether a norm would be computed so often on the way in that it should be done before.

    Not where its result would take more than APART_MOST: at 512x512 the widest of an autoencoder's
    takes 134 MB, and the decoder 335 MB with it, 269 MB without.
    """
    if "table" not in node.named:
        return False
    height, width = kernel_size(node.attrs["kernel"])
    if height * width == 1 and node.attrs["norm_act"] is None:
        return False
    x = node.named["x"].tensor
    normed = replace(x, shape=replace(x.shape, c=node.named["table"].tensor.shape.c))
    return normed.nbytes <= APART_MOST


def _normed(node: Node, caps: Capabilities) -> tuple[Dispatch, Node]:
    """The dispatch that applies a node's table, and the node that reads what it writes."""
    named, attrs = node.named, node.attrs
    x = named["x"].tensor
    desc = replace(x, shape=replace(x.shape, c=named["table"].tensor.shape.c))
    normed = Value(f"{node.output.name}.normed", desc, Role.ACTIVATION)
    before = group_norm.apply_table(named, normed, attrs["norm_act"], caps)
    rest = {part: value for part, value in named.items() if part not in ("skip", "table")}
    rest["x"] = normed
    bare = {**attrs, "norm_act": None, "inputs": tuple(rest)}
    return before, Node(node.op, tuple(rest.values()), node.outputs, bare)


def _buffers(node: Node) -> int:
    return len(node.inputs) + 1 + (node.named["weight"].weight.scale_words > 0)


def _dispatch(
    node: Node, caps: Capabilities, variant: Variant, run: Run, partial: Value | None
) -> Dispatch:
    named = node.named
    desc = named["weight"].weight
    pixels = rows_of(node.output.tensor.shape)
    tiles = fold(-(-pixels // variant.pixels), caps)
    lanes = variant.invocations(caps)
    tile_rows = variant.rows or lanes * variant.lane_rows
    grid = (tiles[0], tiles[1], -(-run.rows // tile_rows) * variant.splits)
    groups = -(-desc.cols // GROUP)
    split_groups = -(-groups // variant.splits // variant.step) * variant.step
    params: dict[str, Any] = {
        **geometry(node),
        "first": run.first,
        "rows_here": run.rows,
        "starts": run.starts[0],
        "groups": groups,
        "k_groups": -(-groups // variant.step) * variant.step,
        "splits": variant.splits,
        "split_groups": split_groups,
        "step": variant.step,
        "threads": lanes,
        "tile_pixels": variant.pixels,
        "tile_rows": tile_rows,
        "lane_pixels": variant.lane_pixels,
        "lane_rows": variant.lane_rows,
        "prefetch": variant.prefetch,
        "unroll": variant.unroll,
        "half": variant.style == "f16",
        "lanes": caps.subgroup,
        "shape": matrix_shape(variant, caps) if variant.style == "matrix" else None,
        "grid_x": tiles[0],
    }
    binds = tuple(_binds(node, run, partial))
    label = f"conv {params['kernel_h']}x{params['kernel_w']} {pixels}x{desc.rows}x{desc.cols}"
    template = _TEMPLATES[variant.style]
    return Dispatch(f"conv/{template}.wgsl", params, binds, grid, f"{label} {variant.name}")


def _merge(node: Node, caps: Capabilities, variant: Variant, partial: Value) -> Dispatch:
    slices = node.output.tensor.shape.slices
    pixels = rows_of(node.output.tensor.shape)
    grid = fold(-(-pixels * slices // MERGE_SIZE), caps)
    params = {
        **geometry(node),
        "first": 0,
        "splits": variant.splits,
        "threads": MERGE_SIZE,
        "step": 1,
        "tile_pixels": 1,
        "tile_rows": 1,
        "out_slices": slices,
        "size": MERGE_SIZE,
        "grid_x": grid[0],
    }
    binds = (Bind("partial", partial), *_late(node))
    return Dispatch("conv/merge.wgsl", params, binds, grid, f"conv merge {variant.name}")


def geometry(node: Node) -> dict[str, Any]:
    """What conv/parts.wgsl needs to know of a node."""
    named, attrs = node.named, node.attrs
    shape, out = named["x"].tensor.shape, node.output.tensor.shape
    kernel_h, kernel_w = kernel_size(attrs["kernel"])
    left, top, _, _ = sides(attrs["padding"])
    up = attrs["upsample"]
    high, wide = attrs["crop"] or (shape.h * up, shape.w * up)
    skip = named["skip"].tensor.shape.c if "skip" in named else 0
    return {
        "height": high,
        "width": wide,
        "out_height": out.h,
        "out_width": out.w,
        "pixels": rows_of(out),
        "kernel_h": kernel_h,
        "kernel_w": kernel_w,
        "stride": attrs["stride"],
        "pad_left": left,
        "pad_top": top,
        "up": up // 2,
        "channels": shape.c + skip,
        "x_channels": shape.c,
        "columns_in": named["weight"].weight.cols,
        "outputs": out.c,
        "x_half": named["x"].tensor.dtype is DType.F16,
        "norm_act": _expression(attrs["norm_act"]),
        "act": _expression(attrs["act"]),
        "one_shift": "shift" in named and rows_of(named["shift"].tensor.shape) == 1,
        **{f"has_{part}": part in named for part in ("skip", "table", "bias", "shift", "residual")},
    }


def _expression(act: str | None) -> str | None:
    return None if act is None else activation(act, "v")


def _binds(node: Node, run: Run, partial: Value | None) -> Iterator[Bind]:
    for part in ("x", "skip", "table"):
        if part in node.named:
            yield Bind(part, node.named[part])
    yield Bind("w", node.named["weight"], part=run.parts[0])
    if partial is None:
        yield from _late(node)
    else:
        yield Bind("partial", partial, Access.WRITE)


def _late(node: Node) -> Iterator[Bind]:
    """What the end of a convolution binds."""
    for part in ("bias", "shift", "residual"):
        if part in node.named:
            yield Bind(part, node.named[part])
    yield Bind("y", node.output, Access.WRITE)
