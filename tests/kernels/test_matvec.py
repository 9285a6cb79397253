"""`linear` for one or a few tokens equals float64 numpy on the dequantised weights, however it is cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from engine.formats.packed import pack
from engine.formats.quants import Quant, dequantise, quantise
from engine.gpu.device import Device
from engine.graph.node import GraphError, Node, Role, Value
from engine.kernels import matvec
from engine.kernels.matvec import Run, runs
from engine.kernels.matvec_tables import VARIANTS, Variant
from engine.kernels.quantise_blocks import weight_desc
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Storage, matrix, vector
from engine.tensor.weights import WeightDesc

EPS = 1e-5
ALL = frozenset({"gain", "bias", "residual"})


@dataclass(frozen=True)
class Case:
    """A ``linear`` node: shape, packing, fused parts, and the form of what it reads and writes."""

    quant: Quant = Quant.Q4_0
    rows: int = 24
    cols: int = 256
    tokens: int = 1
    fused: frozenset[str] = frozenset()
    gated: str | None = None
    parts: tuple[int, ...] = ()
    dtype: DType = DType.F32
    storage: Storage = Storage.BUFFER

    @property
    def outputs(self) -> int:
        """Channels of y."""
        return self.rows // 2 if self.gated else self.rows


@dataclass(frozen=True)
class Problem:
    """A node with numbers for its inputs, and the right answer in float64."""

    node: Node
    inputs: dict[Value, np.ndarray]
    planes: dict[Value, tuple[np.ndarray, np.ndarray]]
    want: np.ndarray


def problem(case: Case) -> Problem:
    """Random numbers for a case."""
    rng = np.random.default_rng(11)
    raw = quantise(rng.normal(size=(case.rows, case.cols)).astype(np.float32), case.quant)
    packed = pack(raw, case.quant, case.cols)
    desc = weight_desc(case.quant, case.rows, case.cols)
    weight = Value("w", replace(desc, parts=case.parts or (case.rows,)), Role.WEIGHT)
    x_desc = matrix(case.tokens, case.cols, case.dtype).with_storage(case.storage)
    y_desc = matrix(case.tokens, case.outputs, case.dtype).with_storage(case.storage)
    tensors = {
        "x": Value("x", x_desc, Role.INPUT),
        "gain": Value("gain", vector(case.cols), Role.WEIGHT),
        "bias": Value("bias", vector(case.rows), Role.WEIGHT),
        "residual": Value("residual", y_desc, Role.INPUT),
    }
    used = {part: tensors[part] for part in tensors if part == "x" or part in case.fused}
    arrays = {
        part: rng.normal(size=(value.tensor.shape.w, value.tensor.shape.c)).astype(np.float16)
        for part, value in used.items()
    }
    attrs = {
        "inputs": ("weight", *used),
        "norm_eps": EPS if "gain" in case.fused else None,
        "gated": case.gated,
    }
    node = Node("linear", (weight, *used.values()), (Value("y", y_desc, Role.OUTPUT),), attrs)
    want = reference(case, dequantise(raw, case.quant, case.cols), arrays)
    inputs = {value: arrays[part].astype(np.float32) for part, value in used.items()}
    return Problem(node, inputs, {weight: (packed.codes, packed.scales)}, want)


def reference(case: Case, weights: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """What the node means, in float64."""
    wide = {part: array.astype(np.float64) for part, array in arrays.items()}
    x = wide["x"]
    if "gain" in wide:
        x = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPS) * wide["gain"]
    y = x @ weights.astype(np.float64).T + wide.get("bias", 0.0)
    if case.gated:
        gate, up = np.split(y, 2, axis=1)
        if case.gated == "silu":
            y = gate / (1 + np.exp(-gate)) * up
        else:
            inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
            y = 0.5 * gate * (1 + np.tanh(inner)) * up
    return y + wide.get("residual", 0.0)


def check(device: Device, case: Case, variant: Variant | None = None) -> None:
    """The device gives the right answer, by the variant it chooses or a given one."""
    made = problem(case)
    dispatches = matvec.lower(made.node, device.caps, variant)
    (have,) = run_once(device, dispatches, made.inputs, made.planes, [made.node.output])
    size = np.abs(made.want).max() + 1.0
    tolerance = size * (2e-3 if case.dtype is DType.F16 else 4e-6)
    np.testing.assert_allclose(have[0, 0], made.want, rtol=0, atol=tolerance)


def named(name: str) -> Variant:
    """A variant by its name."""
    return next(variant for variant in VARIANTS if variant.name == name)


# --- every kind, by each template ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["sub-r4k2n1-w4u2", "sub-r2k1n2-w1u2", "software-r4-l8"])
@pytest.mark.parametrize("quant", Quant, ids=lambda quant: quant.name)
def test_every_kind(full: Device, quant: Quant, name: str) -> None:
    variant = named(name)
    if quant in (Quant.F32, Quant.F16, Quant.BF16) and variant.words != 4:
        variant = named("sub-r2k1n2-w4u2")
    check(full, Case(quant, cols=512), variant)


# --- every variant, with everything fused -------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_variant(full: Device, variant: Variant) -> None:
    check(full, Case(Quant.Q4_1, rows=37, cols=864, fused=ALL), variant)


@pytest.mark.parametrize(
    "name",
    ["sub-r1k4n1-w4u2", "sub-r4k1n4-w4u2", "sub-r4k1n8-w4u2-x", "sub-r4k4n2-w4u2-x", "mem64-r4k1n1-w4u2"]
    + ["mem64-r1k1n1-w4u2", "software-r1-l8", "software-r4-l32"],
)
@pytest.mark.parametrize("gated", ["silu", "gelu_tanh"])
def test_gated(full: Device, gated: str, name: str) -> None:
    check(full, Case(Quant.Q8_0, rows=76, cols=224, gated=gated, fused=ALL), named(name))


# --- fused parts, one by one --------------------------------------------------------------------


@pytest.mark.parametrize("gated", [None, "silu"])
@pytest.mark.parametrize("part", sorted(ALL))
def test_fused_part(device: Device, part: str, gated: str | None) -> None:
    check(device, Case(rows=44, fused=frozenset({part}), gated=gated))


# --- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cols", [1, 3, 4, 7, 36, 101])
@pytest.mark.parametrize("quant", [Quant.F32, Quant.F16])
def test_odd_widths(device: Device, quant: Quant, cols: int) -> None:
    check(device, Case(quant, rows=9, cols=cols, fused=ALL))


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 31, 66])
def test_odd_heights(device: Device, rows: int) -> None:
    check(device, Case(Quant.Q6_K, rows=rows, fused=frozenset({"residual"})))


def test_rows_folded_over_two_dimensions(full: Device) -> None:
    made = problem(Case(Quant.F32, rows=70, cols=4))
    caps = replace(full.caps, limits=replace(full.caps.limits, workgroups=5))
    dispatches = matvec.lower(made.node, caps, named("sub-r1k1n2-w4u2"))
    assert dispatches[0].grid == (5, 7, 1)
    (have,) = run_once(full, dispatches, made.inputs, made.planes, [made.node.output])
    np.testing.assert_allclose(have[0, 0], made.want, atol=1e-5)


# --- a few tokens -------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [2, 5, 8])
@pytest.mark.parametrize("gated", [None, "silu"])
def test_few_tokens(device: Device, tokens: int, gated: str | None) -> None:
    check(device, Case(Quant.Q4_K, rows=26, tokens=tokens, gated=gated, fused=ALL))


def test_many_tokens_are_refused(full: Device) -> None:
    with pytest.raises(GraphError, match=r"1 to 8 tokens, and this linear has 9"):
        matvec.lower(problem(Case(tokens=9)).node, full.caps)


# --- storage and element types ------------------------------------------------------------------


@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize("gated", [None, "silu"])
def test_every_storage(full: Device, gated: str | None, dtype: DType, storage: Storage) -> None:
    case = Case(Quant.Q5_0, rows=38, gated=gated, dtype=dtype, storage=storage, fused=ALL)
    check(full, case)


def test_texture_on_a_device_without_subgroups(no_subgroups: Device) -> None:
    check(no_subgroups, Case(Quant.Q5_K, rows=22, storage=Storage.TEXTURE_2D, fused=ALL))


# --- weights in several objects -----------------------------------------------------------------


@pytest.mark.parametrize("parts", [(32, 8), (12, 12, 12, 4), (13, 13, 13, 1)])
@pytest.mark.parametrize("gated", [None, "silu"])
def test_parts(device: Device, parts: tuple[int, ...], gated: str | None) -> None:
    check(device, Case(Quant.Q5_1, rows=40, parts=parts, gated=gated, fused=ALL - {"residual"}))


def test_more_buffers_than_the_device_binds_are_refused(small_limits: Device) -> None:
    case = Case(rows=40, parts=(20, 20), gated="silu", fused=ALL)
    with pytest.raises(GraphError, match=r"binds 9 buffers, and this device allows 8"):
        matvec.lower(problem(case).node, small_limits.caps)


def cut(rows: int, parts: tuple[int, ...], *, gated: bool) -> list[Run]:
    """The runs of a matrix that is cut like this."""
    return runs(WeightDesc(rows, 32, "q4_0", 4, 1, parts), gated)


def test_runs_end_where_parts_end() -> None:
    assert cut(10, (6, 4), gated=False) == [Run(0, 6, (0,), (0,)), Run(6, 4, (1,), (0,))]


def test_gated_runs_pair_each_gate_row_with_its_up_row() -> None:
    assert cut(20, (8, 8, 4), gated=True) == [
        Run(0, 6, (0, 1), (0, 2)),
        Run(6, 2, (0, 2), (6, 0)),
        Run(8, 2, (1, 2), (0, 2)),
    ]


# --- choosing -----------------------------------------------------------------------------------


def test_without_subgroups_no_variant_needs_them(no_subgroups: Device) -> None:
    node = problem(Case()).node
    assert all(v.reduce != "subgroup" for v in matvec.candidates(node, no_subgroups.caps))


def test_every_candidate_fits_small_limits(small_limits: Device) -> None:
    node = problem(Case(Quant.Q8_0, cols=4096)).node
    limits = small_limits.caps.limits
    for variant in matvec.candidates(node, small_limits.caps):
        assert variant.invocations(small_limits.caps) <= limits.invocations
        assert not variant.staged, "4096 activations take more than 16 KiB of workgroup memory"


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel", "apple"])
@pytest.mark.parametrize("subgroup", [0, 8, 32, 64])
def test_every_device_has_a_choice(full: Device, vendor: str, subgroup: int) -> None:
    caps = replace(
        full.caps, vendor=vendor, kind="discrete", subgroup_min=subgroup, subgroup_max=subgroup
    )
    for rows, cols in ((3072, 3072), (16384, 3072), (3072, 8192), (1, 32), (128256, 3072)):
        weight = Value("w", weight_desc(Quant.Q4_0, rows, cols), Role.WEIGHT)
        x, y = (Value(n, matrix(1, c), Role.OUTPUT) for n, c in (("x", cols), ("y", rows)))
        attrs = {"inputs": ("x", "weight"), "norm_eps": None, "gated": None}
        node = Node("linear", (x, weight), (y,), attrs)
        assert matvec.allowed(matvec.choose(node, caps), node, caps)
