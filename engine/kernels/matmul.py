"""The op ``linear`` for many tokens (prefill): every decoded weight serves a tile of tokens.

A node becomes one dispatch for each run of rows that lies in one part of the weight. Fused into it
are a bias, a residual, and the gate of a feed-forward layer; a fused norm becomes a dispatch of its
own. A :class:`Variant` says how the work is shared out; :func:`choose` picks one for a device,
:func:`variants` lists those that may run there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.graph.node import GraphError, Node, Role, Value
from engine.graph.ops import rows as rows_of
from engine.kernels import norm
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.matmul_tables import GROUP, VARIANTS, Variant, preferred
from engine.kernels.matvec import Run, runs
from engine.kernels.quantise import quantise
from engine.kernels.quantise_blocks import FLOAT_KINDS
from engine.tensor.descriptor import VEC, DType, Layout, Storage, TensorDesc

NARROW = ("f16", "matrix")  # styles that read x in 16 bits
_TEMPLATES = {
    "f32": "tile",
    "f16": "tile",
    "dp4a": "int8",
    "matrix": "matrix",
    "software": "software",
}


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """The dispatches of a ``linear`` node, by ``variant`` or the one that :func:`choose` picks.

    Raises:
        GraphError: the variant cannot run the node on this device.
    """
    before, node = without_norm(node, caps)
    variant = choose(node, caps) if variant is None else variant
    if not allowed(variant, node, caps):
        raise GraphError(f"The matrix kernel {variant.name} cannot run this node here.")
    gated = node.attrs["gated"] is not None
    x = node.named["x"]
    if variant.style == "dp4a":
        x, quantised = quantise(x, caps)
        before.append(quantised)
    return [
        *before,
        *(_dispatch(node, caps, variant, x, r) for r in runs(node.named["weight"].weight, gated)),
    ]


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
    wide = bool(node.attrs.get("wide"))
    for variant in itertools.chain(preferred(desc, _tokens(node), caps), VARIANTS):
        if allowed(variant, node, caps) and not (wide and variant.style in NARROW):
            return variant
    raise GraphError(f"No matrix kernel runs {desc.rows}x{desc.cols} {desc.kind} here.")


def allowed(variant: Variant, node: Node, caps: Capabilities) -> bool:
    """Whether the device and the node's shapes let a variant run."""
    size = variant.invocations(caps)
    if not 0 < size <= min(caps.limits.invocations, caps.limits.workgroup_x):
        return False
    gated = node.attrs["gated"] is not None
    fits = {
        "software": _fits_software,
        "matrix": _fits_matrix,
        "dp4a": _fits_int8,
        "f16": _fits_tile,
        "f32": _fits_tile,
    }[variant.style]
    if not fits(variant, node, caps) or _buffers(node) > caps.limits.storage_buffers:
        return False
    if gated and variant.style != "matrix" and variant.lane_rows % _least_gated(variant):
        return False
    return _by_fours(variant, node) or _plain(node.output.tensor)


def _least_gated(variant: Variant) -> int:
    """Rows of an invocation come in pairs of gate and up; tiles hold them by fours."""
    return 2 if variant.style == "software" else 2 * VEC


def _fits_software(variant: Variant, node: Node, caps: Capabilities) -> bool:
    del node
    return variant.tokens * 8 % caps.subgroup == 0


def _fits_tile(variant: Variant, node: Node, caps: Capabilities) -> bool:
    del node
    if variant.style == "f16" and not caps.f16:
        return False
    return variant.workgroup_bytes() <= caps.limits.workgroup_bytes


def _fits_int8(variant: Variant, node: Node, caps: Capabilities) -> bool:
    if not caps.dp4a or node.named["weight"].weight.kind in FLOAT_KINDS:
        return False
    return variant.workgroup_bytes() <= caps.limits.workgroup_bytes


def _fits_matrix(variant: Variant, node: Node, caps: Capabilities) -> bool:
    shape = _shape(variant, node, caps)
    if shape is None or (variant.by_bits and node.named["weight"].weight.kind in FLOAT_KINDS):
        return False
    return variant.workgroup_bytes(shape) <= caps.limits.workgroup_bytes


def _shape(variant: Variant, node: Node, caps: Capabilities) -> MatrixShape | None:
    """The largest matrix unit that a subgroup's part of the tile is made of, if there is one."""
    if not caps.f16 or not caps.subgroup:
        return None
    gated = node.attrs["gated"] is not None

    def fits(shape: MatrixShape) -> bool:
        across, rest = divmod(variant.lane_rows, shape.n)
        if (shape.input, shape.output) != ("f16", "f32") or rest or shape.n % VEC:
            return False
        if (across % 2 and across > 1) or (across == 1 and gated):
            return False
        return variant.lane_tokens % shape.m == 0 and GROUP % shape.k == 0

    return max(filter(fits, caps.matrix), key=lambda s: s.m * s.n * s.k, default=None)


def _buffers(node: Node) -> int:
    """Storage buffers that one dispatch binds at most."""
    named = node.named
    planes = 2 if named["weight"].weight.scale_words else 1
    gated = node.attrs["gated"] is not None
    split = gated and any(len(set(run.parts)) > 1 for run in runs(named["weight"].weight, gated))
    plain = sum(
        part == "x" or value.tensor.storage is Storage.BUFFER  # quantised, x is one in any case
        for part, value in (*named.items(), ("y", node.output))
        if part not in ("weight", "gain")
    )
    return planes * (2 if split else 1) + plain


def without_norm(node: Node, caps: Capabilities) -> tuple[list[Dispatch], Node]:
    """The dispatches of a fused norm, and the node that reads what they write."""
    eps = node.attrs["norm_eps"]
    if eps is None:
        return [], node
    named = node.named
    x, gain = named["x"], named.pop("gain")
    normed = Value(f"{x.name}.normed", x.tensor, Role.ACTIVATION)
    attrs = {"inputs": ("x", "gain"), "eps": eps}
    before = norm.lower(Node("rms_norm", (x, gain), (normed,), attrs), caps)
    named["x"] = normed
    attrs = {**node.attrs, "norm_eps": None, "inputs": tuple(named)}
    return before, Node(node.op, tuple(named.values()), node.outputs, attrs)


def _tokens(node: Node) -> int:
    return rows_of(node.named["x"].tensor.shape)


def _by_fours(variant: Variant, node: Node) -> bool:
    """Whether rows are written four at a time: runs must then start at a multiple of four."""
    desc, gated = node.named["weight"].weight, node.attrs["gated"] is not None
    if variant.style == "software" and variant.lane_rows // (2 if gated else 1) % VEC:
        return False
    return all(run.first % VEC == 0 for run in runs(desc, gated))


def _plain(desc: TensorDesc) -> bool:
    return desc.storage is Storage.BUFFER and (desc.layout is Layout.ROWS or desc.shape.w == 1)


def _dispatch(node: Node, caps: Capabilities, variant: Variant, x: Value, run: Run) -> Dispatch:
    desc = node.named["weight"].weight
    gated = node.attrs["gated"] is not None
    lanes = variant.invocations(caps)
    tile_rows = variant.rows or lanes * variant.lane_rows
    made = tile_rows // 2 if gated else tile_rows
    tokens = _tokens(node)
    grid = (-(-tokens // variant.tokens), -(-run.rows // made), 1)
    groups = -(-desc.cols // GROUP)
    pad_w, pad_x = variant.pads
    lines, columns = variant.teams if variant.style == "matrix" else (0, 0)
    params: dict[str, Any] = {
        **_row_params(node, run, _by_fours(variant, node)),
        "tokens": tokens,
        "groups": groups,
        "steps": -(-groups // variant.step) * variant.step,
        "step": variant.step,
        "lanes": caps.subgroup,
        "lines_of_subgroups": lines,
        "columns_of_subgroups": columns,
        "shape": _shape(variant, node, caps) if variant.style == "matrix" else None,
        "by_bits": variant.by_bits,
        "threads": lanes,
        "prefetch": variant.prefetch,
        "double": variant.double,
        "paired": variant.paired,
        "quads": variant.quads,
        "flush": variant.flush,
        "x_pitch": x.tensor.shape.slices * VEC,
        "tile_tokens": variant.tokens,
        "tile_rows": tile_rows,
        "lane_tokens": variant.lane_tokens,
        "lane_rows": variant.lane_rows,
        "unroll": variant.unroll,
        "half": variant.style == "f16",
        "pad_w": pad_w,
        "pad_x": pad_x,
    }
    names = [name for _, name in params["names"]]
    raw_x = "array<vec4<u32>>" if variant.style == "dp4a" else ""
    binds = (Bind("x", x, raw=raw_x), *_binds(node, run, names, vec=params["vec"]))
    template = f"matmul/{_TEMPLATES[variant.style]}.wgsl"
    label = f"matmul {desc.kind} {tokens}x{desc.rows}x{desc.cols} {variant.name}"
    return Dispatch(template, params, binds, grid, label)


def _row_params(node: Node, run: Run, vec: bool) -> dict[str, Any]:
    """What the end of a row needs to know: see matmul/parts.wgsl and matvec/parts.wgsl."""
    named, out = node.named, node.output.tensor
    desc = named["weight"].weight
    gated = node.attrs["gated"] is not None
    names = ["w"] if not gated else ["w", "w" if run.parts[0] == run.parts[1] else "u"]
    return {
        "cols": desc.cols,
        "slices": named["x"].tensor.shape.slices,
        "x_half": named["x"].tensor.dtype is DType.F16,
        "total": out.shape.c,
        "rows_here": run.rows,
        "first": run.first,
        "starts": run.starts,
        "norm_eps": None,
        "gate": node.attrs["gated"],
        "has_residual": "residual" in named,
        "has_bias": "bias" in named,
        "bias_rows": desc.rows,
        "gate_bias": run.first,
        "up_bias": run.first + desc.rows // 2 if gated else 0,
        "pitch": out.shape.slices * VEC,
        "vec": vec,
        "y_type": out.dtype.value,
        "names": list(enumerate(names)),
        "bound": sorted(set(names), reverse=True),
    }


def _binds(node: Node, run: Run, names: Iterable[str], *, vec: bool) -> Iterator[Bind]:
    named = node.named
    for name, part in dict(zip(names, run.parts, strict=True)).items():
        yield Bind(name, named["weight"], part=part)
    raw = "" if vec else f"array<{node.output.tensor.dtype.value}>"
    yield Bind("y", node.output, Access.WRITE, raw=raw)
    for part in ("bias", "residual"):
        if part in named:
            yield Bind(part, named[part])
