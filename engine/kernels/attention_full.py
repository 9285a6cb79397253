"""The op ``attention_full``: whole sequences against whole sequences, without a cache.

For the self-attention and cross-attention of pictures, and for text encoders (causal). Heads lie
side by side in the channels; a packed projection is bound as q, k and v at once with offsets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.graph.node import GraphError, Node
from engine.graph.ops import rows as rows_of
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.tensor.descriptor import VEC, DType


@dataclass(frozen=True)
class Sizes:
    """Sequences, their lengths, heads and slices of a head."""

    batch: int
    queries: int
    keys: int
    heads: int
    head_dim: int

    @property
    def slices(self) -> int:
        """Vectors of four of one head."""
        return self.head_dim // VEC


@dataclass(frozen=True)
class Variant:
    """One way to share out queries.

    Attributes:
        style: "f32" or "f16" (what keys and values are in workgroup memory), "matrix" (products on
            matrix units) or "software".
        lines: lines of invocations ("matrix": subgroups).
        columns: invocations of a line; a tile has four keys for each ("matrix": keys of a tile).
        lane_queries: queries of a line ("matrix": units high that a subgroup is).
        chunk: slices of a head in workgroup memory at once ("matrix": all).
    """

    style: str
    lines: int = 0
    columns: int = 0
    lane_queries: int = 1
    chunk: int = 0

    @property
    def name(self) -> str:
        """A stable short name for tuning files and tables."""
        if self.style == "software":
            return "software"
        if self.style == "matrix":
            return f"matrix-{self.lines}x{self.lane_queries}x{self.columns}"
        return f"{self.style}-{self.lines * self.lane_queries}x{4 * self.columns}x{self.chunk}"

    def workgroup_bytes(self, slices: int) -> int:
        """Workgroup memory of the tiles."""
        queries, chunk = self.lines * self.lane_queries, min(self.chunk, slices)
        vectors = (queries + 1 + 4 * self.columns + 1) * chunk
        return vectors * (8 if self.style == "f16" else 16) + queries * (self.columns + 1) * 20

    def registers(self, slices: int) -> int:
        """Vectors that an invocation holds for its part of the output."""
        chunk = min(self.chunk, slices)
        return self.lane_queries * -(-slices // chunk) * -(-chunk // self.columns)


SOFTWARE = Variant("software")
_MATRIX = (
    Variant("matrix", 4, 64, 1),
    Variant("matrix", 4, 32, 1),
    Variant("matrix", 2, 32, 1),
)
VARIANTS: tuple[Variant, ...] = (
    SOFTWARE,
    *_MATRIX,
    Variant("f16", 16, 8, 4, 16),
    Variant("f16", 16, 8, 4, 20),
    Variant("f16", 8, 16, 4, 20),
    Variant("f32", 16, 8, 4, 16),
    Variant("f16", 16, 8, 2, 16),
    Variant("f16", 16, 8, 1, 32),
    Variant("f32", 16, 8, 2, 8),
    Variant("f32", 16, 8, 1, 16),
)
MOST_VECTORS = 24  # of output in the registers of an invocation
MOST_UNITS = 24  # matrices of output and of queries in the registers of a subgroup


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """One dispatch, by ``variant`` or the best that may run.

    Raises:
        GraphError: heads that no kernel takes, or a variant that cannot run here.
    """
    chosen = variant or choose(node, caps)
    if not allowed(chosen, node, caps):
        raise GraphError(f"The attention kernel {chosen.name} cannot run this node here.")
    sizes = sizes_of(node)
    params = _params(node, sizes)
    if chosen.style == "matrix":
        params |= _matrix_params(chosen, sizes, caps)
    elif chosen.style == "software":
        params |= {"lanes": caps.subgroup, "blocks": -(-sizes.queries // caps.subgroup)}
    else:
        params |= {
            "half": chosen.style == "f16",
            "lines": chosen.lines,
            "columns": chosen.columns,
            "lane_queries": chosen.lane_queries,
            "chunk": min(chosen.chunk, sizes.slices),
            "blocks": -(-sizes.queries // (chosen.lines * chosen.lane_queries)),
        }
    grid = fold(params["blocks"] * sizes.heads * sizes.batch, caps)
    template = "tile" if chosen.style in ("f32", "f16") else chosen.style
    binds = (
        *(Bind(part, node.named[part]) for part in "qkv"),
        Bind("o", node.output, Access.WRITE),
    )
    label = f"attention {sizes.batch}x{sizes.heads}x{sizes.head_dim} {sizes.queries}x{sizes.keys}"
    path = f"attention_full/{template}.wgsl"
    return [Dispatch(path, {**params, "grid_x": grid[0]}, binds, grid, f"{label} {chosen.name}")]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node on this device, by the variant's name."""
    return {v.name: lower(node, caps, v) for v in candidates(node, caps)}


def candidates(node: Node, caps: Capabilities) -> list[Variant]:
    """The variants that may run the node on this device."""
    return [variant for variant in VARIANTS if allowed(variant, node, caps)]


def choose(node: Node, caps: Capabilities) -> Variant:
    """The best variant that may run the node here.

    Raises:
        GraphError: none may.
    """
    for variant in _preferred(node, caps):
        if allowed(variant, node, caps):
            return variant
    raise GraphError(f"No attention kernel takes heads of {sizes_of(node).head_dim} here.")


def _preferred(node: Node, caps: Capabilities) -> Iterator[Variant]:
    half = node.named["q"].tensor.dtype is DType.F16
    if caps.software:
        yield SOFTWARE
    if half and sizes_of(node).head_dim < 64:  # H200, heads of 40: 81 TFLOP/s, not 60
        yield Variant("matrix", 4, 32, 1)
    yield from (v for v in VARIANTS if v.style != "f16" or half)
    yield from VARIANTS


def allowed(variant: Variant, node: Node, caps: Capabilities) -> bool:
    """Whether the device and the node's shapes let a variant run."""
    sizes = sizes_of(node)
    if variant.style == "software":
        room = sizes.slices * caps.subgroup * 16
        return caps.software and 0 < caps.subgroup <= 16 and room <= caps.limits.workgroup_bytes
    if variant.style == "matrix":
        return _fits_matrix(variant, node, caps)
    size = variant.lines * variant.columns
    if size > min(caps.limits.invocations, caps.limits.workgroup_x):
        return False
    if variant.style == "f16" and not caps.f16:
        return False
    if variant.registers(sizes.slices) > MOST_VECTORS and variant.lane_queries > 1:
        return False
    return variant.workgroup_bytes(sizes.slices) <= caps.limits.workgroup_bytes


def _unit(variant: Variant, caps: Capabilities) -> MatrixShape | None:
    """The largest unit of f16 inputs and f32 sums that tiles are made of, if there is one."""

    def fits(shape: MatrixShape) -> bool:
        rest = variant.columns % shape.n or variant.columns % shape.k or shape.n % VEC
        own = shape.m * variant.lane_queries
        per = _lanes_of_row(own, caps)
        even = not (own * per % caps.subgroup or variant.columns % (VEC * per))
        return (shape.input, shape.output) == ("f16", "f32") and not rest and even

    if not caps.f16 or not caps.subgroup:
        return None
    return max(filter(fits, caps.matrix), key=lambda s: s.m * s.n * s.k, default=None)


def _lanes_of_row(own_rows: int, caps: Capabilities) -> int:
    """Lanes that share the scores of a row: two read from different banks where one would not."""
    return max(2, caps.subgroup // own_rows)


def _fits_matrix(variant: Variant, node: Node, caps: Capabilities) -> bool:
    shape, sizes = _unit(variant, caps), sizes_of(node)
    if shape is None or node.named["q"].tensor.dtype is not DType.F16:
        return False
    if variant.lines * caps.subgroup > min(caps.limits.invocations, caps.limits.workgroup_x):
        return False
    units = variant.lane_queries * (-(-sizes.head_dim // shape.n) * 2)  # of sums, and of queries
    made = _matrix_params(variant, sizes, caps)
    rows, keys = made["rows"], variant.columns
    nbytes = 2 * made["tile_rows"] * made["pitch"] + rows * (6 * (keys + 8) + 4) + 16
    return nbytes <= caps.limits.workgroup_bytes and units <= MOST_UNITS


def _matrix_params(variant: Variant, sizes: Sizes, caps: Capabilities) -> dict[str, Any]:
    shape = _unit(variant, caps)
    if shape is None:
        raise GraphError("This device has no matrix units for attention.")
    rows = variant.lines * variant.lane_queries * shape.m
    widest = max(-(-sizes.head_dim // shape.k) * shape.k, -(-sizes.head_dim // shape.n) * shape.n)
    return {
        "shape": shape,
        "lanes": caps.subgroup,
        "over": variant.lane_queries,
        "per": _lanes_of_row(shape.m * variant.lane_queries, caps),
        "log2e": math.log2(math.e),
        "rows": rows,
        "key_tile": variant.columns,
        "size": variant.lines * caps.subgroup,
        "pitch": widest + 8,  # whole 16-byte units, and neighbours in different banks
        "tile_rows": max(2 * variant.columns, rows),
        "blocks": -(-sizes.queries // rows),
    }


def sizes_of(node: Node) -> Sizes:
    """The sizes of a node.

    Raises:
        GraphError: heads or offsets that are no multiple of four channels.
    """
    q, attrs = node.named["q"].tensor.shape, node.attrs
    heads = int(attrs["heads"])
    dim = int(attrs["head_dim"] or q.c // heads)
    batch = int(attrs["batch"] or q.b)
    if dim % VEC or any(offset % VEC for offset in attrs["offsets"]):
        raise GraphError(
            f"Attention heads must be a multiple of 4 channels wide and start at one, "
            f"not {dim} from {attrs['offsets']} on."
        )
    keys = rows_of(node.named["k"].tensor.shape) // batch
    return Sizes(batch, rows_of(q) // batch, keys, heads, dim)


def _params(node: Node, sizes: Sizes) -> dict[str, Any]:
    scale = node.attrs["scale"]
    offsets = zip("qkv", node.attrs["offsets"], strict=True)
    return {
        "batch": sizes.batch,
        "queries": sizes.queries,
        "keys": sizes.keys,
        "heads": sizes.heads,
        "slices": sizes.slices,
        "causal": bool(node.attrs["causal"]),
        "scale": 1.0 / math.sqrt(sizes.head_dim) if scale is None else float(scale),
        **{f"{part}_offset": offset // VEC for part, offset in offsets},
    }
