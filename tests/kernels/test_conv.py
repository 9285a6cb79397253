"""Convolution equals float64 numpy on the dequantised weights, whatever is folded in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernels.conv_problem import ALL, Case, problem
from kernels.test_matmul_matrix import spelled_out

from engine.formats.quants import Quant
from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.gpu.device import Device
from engine.graph.graph import GraphError
from engine.graph.node import Node, Role, Value
from engine.kernels import conv, run
from engine.kernels.base import Dispatch, Shader, generate
from engine.kernels.conv_tables import Variant
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Shape


def check(device: Device, case: Case, ways: tuple[Variant, ...] = ()) -> None:
    """Each of ``ways``, or each variant that compiles fast, gives the right answer."""
    if case.dtype is DType.F16 and not device.caps.f16:
        pytest.skip("no f16 here")
    made = problem(case)
    found = ways or [v for v in conv.candidates(made.node, device.caps) if light(v)]
    assert found
    for variant in found:
        dispatches = conv.lower(made.node, device.caps, variant)
        (have,) = run_once(device, dispatches, made.inputs, made.planes, [made.node.output])
        half = variant.style in ("f16", "matrix") or case.dtype is DType.F16
        error = np.abs(have - made.want) / made.norms
        assert error.max() < (4e-3 if half else 2e-5), variant.name


def light(variant: Variant) -> bool:
    """Whether a variant's shader is short: loops that are written out take seconds to compile."""
    short = not variant.unroll and variant.splits == 1
    return short and variant.lane_pixels * variant.lane_rows <= 16


@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(channels=4, outputs=12, batch=2),
        Case(channels=36, outputs=40, height=9, width=6),
        Case(channels=3, outputs=8),
        Case(channels=9, outputs=4, batch=2),
        Case(channels=5, outputs=3, kernel=1, padding=0),
        Case(channels=40, outputs=33, kernel=1, padding=0),
        Case(stride=2),
        Case(stride=2, padding=(0, 0, 1, 1), height=6, width=8),
        Case(upsample=2, channels=12, batch=2),
        Case(upsample=2, crop=(9, 13)),
        Case(height=1, width=1, outputs=5, batch=3),
        Case(channels=3, kernel=5, padding=2, stride=2, upsample=2),
    ],
    ids=str,
)
def test_geometry(full: Device, case: Case) -> None:
    check(full, case)


@pytest.mark.parametrize(
    "case",
    [
        Case(fused=frozenset({"bias"}), act="relu", outputs=6),
        Case(fused=frozenset({"shift", "bias"}), batch=3),
        Case(fused=frozenset({"residual"}), act="relu", outputs=7, upsample=2),
        Case(fused=frozenset({"table"}), norm_act="silu", batch=2, channels=36),
        Case(fused=frozenset({"table"}), channels=6, stride=2, padding=(0, 0, 1, 1)),
        Case(fused=ALL, norm_act="silu", act="silu", batch=2, outputs=30),
        Case(skip=16, channels=12, fused=frozenset({"table"}), norm_act="silu", batch=2),
        Case(skip=5, channels=4, outputs=9),
        Case(skip=8, kernel=1, padding=0, fused=frozenset({"bias"})),
    ],
    ids=str,
)
def test_fused_parts(full: Device, case: Case) -> None:
    check(full, case)


def test_every_device(device: Device) -> None:
    check(device, Case(channels=44, outputs=36, batch=2, fused=ALL, norm_act="silu"))


def test_one_shift_for_all_pictures(device: Device, full: Device) -> None:
    case = Case(channels=20, outputs=36, batch=3, shifts=1, fused=frozenset({"shift"}))
    check(device, case)
    check(full, case)
    check(full, replace(case, channels=160), (Variant("f32", 64, 64, 4, 8, splits=2),))


@pytest.mark.parametrize("quant", [Quant.F16, Quant.BF16, Quant.Q8_0])
def test_packed_kinds(device: Device, quant: Quant) -> None:
    check(device, Case(channels=32, outputs=20, quant=quant, fused=frozenset({"bias"})))


@pytest.mark.parametrize("skip", [0, 8])
def test_halves(full: Device, skip: int) -> None:
    check(full, Case(channels=24, outputs=20, skip=skip, dtype=DType.F16, quant=Quant.F16))
    fused = Case(channels=24, outputs=20, skip=skip, fused=ALL, norm_act="silu", batch=2)
    check(full, replace(fused, dtype=DType.F16, quant=Quant.F16))
    check(full, Case(channels=3, dtype=DType.F16))


def test_a_weight_in_parts(full: Device) -> None:
    check(full, Case(outputs=44, parts=(16, 16, 12), fused=frozenset({"bias", "residual"})))


#: What the large variants do, on tiles small enough to compile fast.
WAYS = (
    Variant("f32", 16, 16, 2, 4, 2, prefetch=True, unroll=False),
    Variant("f32", 16, 16, 2, 4, unroll=False, splits=3),
    Variant("f16", 16, 16, 2, 4, prefetch=True),
    Variant("f16", 16, 16, 2, 4, 2, unroll=False, splits=2),
    Variant("software", 8, 0, 8, 4),
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("channels", [64, 36])
def test_every_way(full: Device, way: Variant, channels: int) -> None:
    case = Case(channels=channels, outputs=44, height=9, width=8, batch=2, fused=ALL)
    check(full, replace(case, quant=Quant.F16), (way,))


def test_too_much_fused_is_taken_apart_or_says_so(small_limits: Device) -> None:
    made = problem(Case(skip=8, fused=ALL, quant=Quant.Q8_0, channels=24))
    assert conv.choose(made.node, small_limits.caps).apart
    few = replace(small_limits.caps, limits=replace(small_limits.caps.limits, storage_buffers=5))
    with pytest.raises(GraphError, match="binds 9 buffers"):
        conv.lower(made.node, few)


@pytest.mark.parametrize(("kernel", "act", "apart"), [(1, None, False), (3, "silu", True)])
def test_a_norm_is_done_apart_where_it_would_be_done_often(
    full: Device, kernel: int, act: str | None, apart: bool
) -> None:
    case = Case(kernel=kernel, padding=kernel // 2, fused=frozenset({"table"}), norm_act=act)
    assert conv.choose(problem(case).node, full.caps).apart is apart


def test_a_norm_whose_result_would_take_much_memory_is_done_on_the_way_in(full: Device) -> None:
    case = Case(channels=256, fused=frozenset({"table"}), norm_act="silu", dtype=DType.F16)
    node = problem(case).node
    large = replace(node.named["x"].tensor, shape=Shape(1, 512, 512, 256))
    x = Value("x", large, Role.INPUT)
    wide = Node(node.op, (x, *node.inputs[1:]), node.outputs, node.attrs)
    assert conv.choose(node, full.caps).apart
    assert not conv.choose(wide, full.caps).apart


def test_products_in_f16_are_for_activations_in_f16(full: Device) -> None:
    caps = replace(full.caps, kind="discrete", subgroup_min=32, subgroup_max=32)
    caps = replace(caps, matrix=(MatrixShape(16, 16, 16, "f16", "f32"),))
    case = Case(channels=64, outputs=64, height=20, width=20, quant=Quant.F16)
    assert conv.choose(problem(case).node, caps).style == "f32"
    node = problem(replace(case, dtype=DType.F16)).node
    assert conv.choose(node, caps).style == "matrix"
    assert conv.choose(node, replace(caps, matrix=())).style == "f16"


UNIT = MatrixShape(8, 4, 16, "f16", "f32")
SMALL = (
    Variant("matrix", 16, 16, 16, 8),
    Variant("matrix", 8, 16, 8, 8, 2, prefetch=True),
    Variant("matrix", 16, 8, 8, 8, prefetch=True, splits=2),
)


FUSED = Case(channels=36, outputs=20, fused=ALL, norm_act="silu", batch=2)
HALVES = Case(channels=17, outputs=12, upsample=2, dtype=DType.F16, quant=Quant.F16)
CODES = Case(channels=32, skip=32, outputs=20, quant=Quant.Q8_0, stride=2)


@pytest.mark.parametrize(
    ("way", "case"), [(SMALL[0], FUSED), (SMALL[1], CODES), (SMALL[2], HALVES)], ids=str
)
def test_matrix_units_spelled_out(
    full: Device, way: Variant, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No software device has matrix units: they are replaced by plain arithmetic."""
    caps = replace(full.caps, matrix=(UNIT,))

    def generated(dispatch: Dispatch, known: Capabilities) -> Shader:
        shader = generate(dispatch, caps if "matrix" in dispatch.template else known)
        if "Sums" not in shader.source:
            return shader
        return replace(shader, source=spelled_out(shader.source, full.caps.subgroup))

    monkeypatch.setattr(run, "generate", generated)
    made = problem(case)
    dispatches = conv.lower(made.node, caps, way)
    (have,) = run_once(full, dispatches, made.inputs, made.planes, [made.node.output])
    assert (np.abs(have - made.want) / made.norms).max() < 4e-3
