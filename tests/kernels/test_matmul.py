"""`linear` for many tokens equals float64 numpy on the dequantised weights, however it is tiled.

Errors are measured against |x| * |W row|, which bounds a sum: f32 tiles stay within 1e-5 of it, f16
tiles within 2e-3, and int8 activations, a coarser number format, within 1e-2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernels.linear_problem import Case, problem

from engine.formats.quants import Quant
from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.gpu.device import Device
from engine.graph.node import GraphError
from engine.kernels import matmul
from engine.kernels.base import generate
from engine.kernels.matmul_tables import VARIANTS, Variant
from engine.kernels.program import dispatch_lifetimes
from engine.kernels.quantise_blocks import FLOAT_KINDS
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Storage

ALL = frozenset({"gain", "bias", "residual"})
BOUNDS = {"f32": 1e-5, "software": 1e-5, "f16": 2e-3, "dp4a": 1e-2, "matrix": 2e-3}

# Small tiles compile fast on a software device; each takes other branches of the templates.
F32 = Variant("f32", 16, 16, 2, 8, unroll=1)
AHEAD = Variant("f32", 16, 24, 1, 8, 2, prefetch=True, unroll=1)
UNROLLED = Variant("f32", 8, 16, 1, 4)
F16 = Variant("f16", 16, 16, 2, 8, unroll=1)
PAIRS = Variant("f16", 16, 16, 2, 8, 1, False, 1, by_bits=True, paired=True, quads=True)
PAIRS_AHEAD = Variant("f16", 8, 16, 2, 8, 2, True, 1, by_bits=True, paired=True, flush=2)
BITS = Variant("f16", 8, 16, 1, 8, 2, unroll=2, by_bits=True, quads=True)
HALVES = (F16, PAIRS, PAIRS_AHEAD, BITS)
DP4A = Variant("dp4a", 8, 16, 1, 8)
DP4A_AHEAD = Variant("dp4a", 16, 24, 2, 8, 2, prefetch=True)
DP4A_HOLD = Variant("dp4a", 16, 16, 4, 4)
SOFTWARE = Variant("software", 8, 0, 8, 4)
WIDE = Variant("software", 4, 0, 4, 8)
WAYS = (F32, AHEAD, *HALVES, DP4A, DP4A_AHEAD, SOFTWARE, WIDE)
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)


def check(device: Device, case: Case, variant: Variant | None = None) -> None:
    """The device gives the right answer, by a variant or the one chosen for it."""
    made = problem(case)
    chosen = variant or matmul.choose(made.node, device.caps)
    dispatches = matmul.lower(made.node, device.caps, chosen)
    (have,) = run_once(device, dispatches, made.inputs, made.planes, [made.node.output])
    bound = BOUNDS[chosen.style]
    if case.dtype is DType.F16:
        bound = max(bound, 2e-3)  # y itself is rounded
    assert (np.abs(have[0, 0] - made.want) / (made.norms + 1)).max() < bound


# --- every kind of weight -----------------------------------------------------------------------


@pytest.mark.parametrize("way", [F32, PAIRS, BITS, SOFTWARE], ids=lambda way: way.name)
@pytest.mark.parametrize("quant", Quant, ids=lambda quant: quant.name)
def test_every_kind(full: Device, quant: Quant, way: Variant) -> None:
    check(full, Case(quant), way)


@pytest.mark.parametrize("way", [DP4A, DP4A_AHEAD], ids=lambda way: way.name)
@pytest.mark.parametrize(
    "quant", [q for q in Quant if q.name.lower() not in FLOAT_KINDS], ids=lambda quant: quant.name
)
def test_every_integer_kind_by_int8(full: Device, quant: Quant, way: Variant) -> None:
    check(full, Case(quant), way)


def test_float_weights_have_no_int8_way(full: Device) -> None:
    with pytest.raises(GraphError, match="dp4a-8x16x32-1x8 cannot run this node"):
        matmul.lower(problem(Case(Quant.F16)).node, full.caps, DP4A)


# --- fused parts, shapes, parts -----------------------------------------------------------------


@ways
@pytest.mark.parametrize("gated", [None, "silu"])
def test_everything_fused(full: Device, way: Variant, gated: str | None) -> None:
    check(full, Case(Quant.Q4_1, tokens=19, rows=44, cols=96, fused=ALL, gated=gated), way)


@pytest.mark.parametrize("way", [UNROLLED, DP4A_HOLD], ids=lambda way: way.name)
def test_other_branches(full: Device, way: Variant) -> None:
    check(full, Case(Quant.Q4_1, tokens=19, rows=44, cols=96, fused=ALL), way)
    check(full, Case(Quant.Q6_K, tokens=19, rows=44), way)


@pytest.mark.parametrize("gated", [None, "gelu_tanh"])
@pytest.mark.parametrize("part", sorted(ALL))
def test_one_part_fused(full: Device, part: str, gated: str | None) -> None:
    check(full, Case(rows=24, cols=64, fused=frozenset({part}), gated=gated), F32)


@ways
def test_odd_numbers_of_everything(full: Device, way: Variant) -> None:
    check(full, Case(Quant.Q5_1, tokens=17, rows=37, cols=160, fused=frozenset({"bias"})), way)


@pytest.mark.parametrize("way", [F32, AHEAD, F16, PAIRS, SOFTWARE], ids=lambda way: way.name)
@pytest.mark.parametrize("cols", [3, 36, 71])
def test_odd_widths(full: Device, cols: int, way: Variant) -> None:
    check(full, Case(Quant.F32, tokens=5, rows=9, cols=cols, fused=ALL), way)


@pytest.mark.parametrize("tokens", [2, 16])
def test_few_tokens(full: Device, tokens: int) -> None:
    check(full, Case(Quant.Q4_K, tokens=tokens, rows=1))


@pytest.mark.parametrize("gated", [None, "silu"])
@pytest.mark.parametrize("parts", [(32, 12), (13, 13, 13, 5)])
@pytest.mark.parametrize("way", [F32, PAIRS, DP4A, SOFTWARE], ids=lambda way: way.name)
def test_weights_in_parts(
    full: Device, way: Variant, parts: tuple[int, ...], gated: str | None
) -> None:
    fused = ALL - {"residual"}
    check(full, Case(rows=44, cols=64, parts=parts, gated=gated, fused=fused), way)


def test_one_token_does_not_spoil_another(full: Device) -> None:
    for way in (F32, PAIRS, DP4A, SOFTWARE):
        made = problem(Case(tokens=6, cols=64))
        x = made.node.named["x"]
        spoilt = {**made.inputs, x: made.inputs[x].copy()}
        spoilt[x][3] = np.nan
        dispatches = matmul.lower(made.node, full.caps, way)
        (have,) = run_once(full, dispatches, spoilt, made.planes, [made.node.output])
        kept = [0, 1, 2, 4, 5]
        error = np.abs(have[0, 0][kept] - made.want[kept]) / made.norms[kept]
        assert error.max() < BOUNDS[way.style], way.name


# --- storage and element types ------------------------------------------------------------------


@pytest.mark.parametrize("way", [F32, F16, PAIRS, DP4A, WIDE], ids=lambda way: way.name)
@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_storage(full: Device, dtype: DType, storage: Storage, way: Variant) -> None:
    check(full, Case(rows=38, cols=32, dtype=dtype, storage=storage, fused=ALL), way)


def test_gated_into_a_texture(full: Device) -> None:
    check(full, Case(rows=38, cols=32, gated="silu", storage=Storage.TEXTURE_2D, fused=ALL))


def test_large_values_stay_finite_in_f16(full: Device) -> None:
    made = problem(Case(Quant.Q8_0, tokens=2, rows=4, cols=32))
    x = made.node.named["x"]
    big = {**made.inputs, x: np.zeros((2, 32), np.float32)}
    big[x][0, 0] = 1e6
    dispatches = matmul.lower(made.node, full.caps, F16)
    (have,) = run_once(full, dispatches, big, made.planes, [made.node.output])
    assert np.isfinite(have[0, 0][1]).all()


# --- devices and choices ------------------------------------------------------------------------


@pytest.mark.parametrize("gated", [None, "silu"])
def test_every_device(device: Device, gated: str | None) -> None:
    check(device, Case(tokens=33, rows=70, cols=96, fused=ALL, gated=gated))


def test_small_devices_take_the_small_tile(small_limits: Device) -> None:
    caps = replace(small_limits.caps, kind="discrete", f16=False, subgroups=False)
    made = problem(Case(tokens=40, rows=70, fused=ALL, gated="silu"))
    chosen = matmul.choose(made.node, caps)
    assert chosen.workgroup_bytes() <= 16 << 10
    check(small_limits, Case(tokens=40, rows=70, fused=ALL, gated="silu"), chosen)


def gpu(caps: Capabilities, **changes: object) -> Capabilities:
    """The capabilities of a GPU with matrix units, changed."""
    shape = MatrixShape(16, 16, 16, "f16", "f32")
    limits = replace(caps.limits, workgroup_bytes=48 << 10, invocations=1024, workgroup_x=1024)
    made = replace(
        caps, kind="discrete", backend="dawn", matrix=(shape,), subgroup_min=32, subgroup_max=32
    )
    return replace(made, limits=limits, **changes)  # pyright: ignore[reportArgumentType]


def styles(caps: Capabilities, quant: Quant = Quant.Q4_0) -> set[str]:
    """What is chosen for prefill chunks of all sizes."""
    return {
        matmul.choose(problem(Case(quant, tokens=t, rows=rows)).node, caps).style
        for t in (2, 16, 64, 512)
        for rows in (64, 512)
    }


def test_matrix_units_come_first(full: Device) -> None:
    assert styles(gpu(full.caps)) == {"matrix"}
    assert styles(gpu(full.caps), Quant.F16) == {"matrix"}


def test_then_f16_and_never_rounded_activations(full: Device) -> None:
    assert styles(gpu(full.caps, matrix=())) == {"f16"}
    assert styles(gpu(full.caps, matrix=()), Quant.F16) == {"f16"}
    assert styles(gpu(full.caps, matrix=(), dp4a=False)) == {"f16"}


def test_without_f16_products_are_exact(full: Device) -> None:
    assert styles(gpu(full.caps, matrix=(), f16=False)) == {"f32"}


def test_a_matrix_of_other_types_is_no_help(full: Device) -> None:
    shapes = (MatrixShape(16, 16, 16, "f16", "f16"), MatrixShape(16, 16, 32, "i8", "i32"))
    assert styles(gpu(full.caps, matrix=shapes)) == {"f16"}


@pytest.mark.parametrize("gated", [None, "silu"])
@pytest.mark.parametrize("quant", [Quant.F16, Quant.Q6_K], ids=lambda quant: quant.name)
def test_every_variant_renders(full: Device, quant: Quant, gated: str | None) -> None:
    caps = gpu(full.caps)
    node = problem(Case(quant, gated=gated, fused=ALL)).node
    made = matmul.variants(node, caps)
    assert len(made) > 10
    for dispatches in made.values():
        assert all("fn main" in generate(dispatch, caps).source for dispatch in dispatches)


def test_names_are_unique() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


def test_scratch_is_planned_like_any_activation(full: Device) -> None:
    node = problem(Case(fused=frozenset({"gain"}))).node
    lifetimes = dispatch_lifetimes(matmul.lower(node, full.caps, DP4A))
    spans = {life.label: (life.first, life.last) for life in lifetimes}
    assert spans == {"x.normed": (0, 1), "x.normed.int8": (1, 2)}
