"""The matrix-unit kernel, held against numpy with the units spelled out in plain WGSL.

No software device has matrix units. Here the sums of a subgroup lie in workgroup memory, each lane
owns some of them, and a loaded matrix is just the place where it was loaded from: which numbers the
kernel loads, multiplies and stores stays the same.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from kernels.linear_problem import Case, problem

from engine.formats.quants import Quant
from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.gpu.device import Device
from engine.kernels import matmul, run
from engine.kernels.base import Dispatch, Shader, generate
from engine.kernels.matmul_tables import Variant
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Storage

M, N, K = 8, 4, 16
ALL = frozenset({"gain", "bias", "residual"})
PLAIN = Variant("matrix", 16, 16, 16, 8)
AHEAD = Variant("matrix", 16, 16, 8, 8, 2, prefetch=True)
BITS = Variant("matrix", 8, 16, 8, 8, by_bits=True)
ways = pytest.mark.parametrize("way", [PLAIN, AHEAD, BITS], ids=lambda way: way.name)

_UNITS = """
var<workgroup> units: array<f32, {size}>;
var<private> my_units: u32;
var<private> my_lane: u32;

fn start_units(first: u32, lane: u32) {{
    my_units = first;
    my_lane = lane;
    for (var i = lane; i < {count}u * {mn}u; i += {lanes}u) {{
        units[first * {mn}u + i] = 0.0;
    }}
}}

fn multiply_add(x: u32, w: u32, unit: u32) {{
    for (var i = my_lane; i < {mn}u; i += {lanes}u) {{
        var sum = units[(my_units + unit) * {mn}u + i];
        for (var k = 0u; k < {k}u; k++) {{
            let a = tile_x[x + i / {n}u * {pitch}u + k];
            sum += f32(a) * f32(tile_w[w + i % {n}u * {pitch}u + k]);
        }}
        units[(my_units + unit) * {mn}u + i] = sum;
    }}
}}

fn store_sums(offset: u32, unit: u32) {{
    for (var i = my_lane; i < {mn}u; i += {lanes}u) {{
        corners[offset + i] = units[(my_units + unit) * {mn}u + i];
    }}
}}
"""


def spelled_out(source: str, lanes: int) -> str:
    """The kernel with its matrix units replaced by plain arithmetic."""
    names = re.findall(r"var (sums_\w+): Sums;", source)
    threads = int(re.findall(r"workgroup_size\((\d+)\)", source)[0])
    pitch = re.findall(r"subgroupMatrixLoad<Left>\(.*, (\d+)u\)", source)[0]
    for unit, name in enumerate(names):
        source = source.replace(f"var {name}: Sums;", f"let {name} = {unit}u;")
        source = re.sub(rf"{name} = (subgroupMatrixMultiply)", r"\1", source)
    replaced = (
        (r"alias .*", ""),
        (r"subgroupMatrixLoad<\w+>\(&\w+, (.*), (?:true|false), \d+u\)", r"\1"),
        (r"subgroupMatrixMultiplyAccumulate\(", "multiply_add("),
        (rf"subgroupMatrixStore\(&corners, (.*), (\w+), false, {N}u\)", r"store_sums(\1, \2)"),
        (r"bitcast<vec2<f16>>\((.*)\);", r"vec2<f16>(unpack2x16float(\1));"),
        (r"let lane = .*;", rf"\g<0> start_units(subgroup * {len(names)}u, lane);"),
    )
    for pattern, by in replaced:
        source = re.sub(pattern, by, source)
    assert "ubgroup_matrix" not in source
    assert "ubgroupMatrix" not in source
    count = len(names)
    sizes = {"size": count * threads // lanes * M * N, "mn": M * N, "n": N, "k": K}
    return source + _UNITS.format(**sizes, count=count, lanes=lanes, pitch=pitch)


def unit_caps(device: Device) -> Capabilities:
    """The device with matrix units."""
    shape = MatrixShape(M, N, K, "f16", "f32")
    return replace(device.caps, matrix=(shape,))


@pytest.fixture
def units(full: Device, monkeypatch: pytest.MonkeyPatch) -> Device:
    """A device whose shaders have their matrix units spelled out."""

    def generated(dispatch: Dispatch, caps: Capabilities) -> Shader:
        shader = generate(dispatch, unit_caps(full) if "matrix" in dispatch.template else caps)
        if "Sums" not in shader.source:
            return shader
        return replace(shader, source=spelled_out(shader.source, full.caps.subgroup))

    monkeypatch.setattr(run, "generate", generated)
    return full


def check(device: Device, case: Case, way: Variant) -> None:
    """The right answer to within f16 products."""
    made = problem(case)
    before, node = matmul.without_norm(made.node, device.caps)
    dispatches = [*before, *matmul.lower(node, unit_caps(device), way)]
    (have,) = run_once(device, dispatches, made.inputs, made.planes, [made.node.output])
    assert (np.abs(have[0, 0] - made.want) / (made.norms + 1)).max() < 2e-3


@ways
@pytest.mark.parametrize("gated", [None, "silu"])
def test_everything_fused(units: Device, way: Variant, gated: str | None) -> None:
    check(units, Case(Quant.Q4_1, tokens=11, rows=44, cols=96, fused=ALL, gated=gated), way)


@pytest.mark.parametrize("quant", [Quant.F32, Quant.BF16, Quant.Q8_0], ids=lambda q: q.name)
def test_kinds_decoded_in_other_ways(units: Device, quant: Quant) -> None:
    check(units, Case(quant, tokens=5, cols=64), BITS if quant is Quant.Q8_0 else PLAIN)


def test_odd_rows_are_written_one_by_one(units: Device) -> None:
    check(units, Case(rows=25, cols=64, parts=(13, 12), fused=frozenset({"bias"})), BITS)


def test_odd_width(units: Device) -> None:
    check(units, Case(Quant.F16, rows=20, cols=71), AHEAD)


def test_halves_in_textures(units: Device) -> None:
    case = Case(rows=20, cols=64, dtype=DType.F16, storage=Storage.TEXTURE_2D, fused=ALL)
    check(units, case, PLAIN)
