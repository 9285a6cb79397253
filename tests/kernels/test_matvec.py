"""`linear` of one or a few tokens equals float64 numpy on the dequantised weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from kernels.linear_problem import Case as LinearCase
from kernels.linear_problem import problem

from engine.formats.quants import Quant
from engine.gpu.capabilities import Capabilities
from engine.gpu.device import Device
from engine.graph.node import GraphError, Node, Role, Value
from engine.kernels import matvec
from engine.kernels.matvec import Run, runs
from engine.kernels.matvec_tables import VARIANTS, Variant, variant_named
from engine.kernels.quantise_blocks import weight_desc
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Storage, matrix
from engine.tensor.weights import WeightDesc

ALL = frozenset({"gain", "bias", "residual"})


@dataclass(frozen=True)
class Case(LinearCase):
    """A ``linear`` node of one token, unless the case says more."""

    tokens: int = 1


def check(
    device: Device, case: Case, variant: Variant | None = None, caps: Capabilities | None = None
) -> None:
    """The device gives the right answer, by a variant or the one chosen for ``caps`` (its own)."""
    made = problem(case)
    dispatches = matvec.lower(made.node, caps or device.caps, variant)
    (have,) = run_once(device, dispatches, made.inputs, made.planes, [made.node.output])
    size = np.abs(made.want).max() + 1.0
    tolerance = size * (2e-3 if case.dtype is DType.F16 else 4e-6)
    np.testing.assert_allclose(have[0, 0], made.want, rtol=0, atol=tolerance)


def named(name: str) -> Variant:
    """A variant by its name."""
    found = variant_named(name)
    assert found is not None, name
    return found


@dataclass(frozen=True)
class Way:
    """A device, and the capabilities (maybe those of a GPU) for which kernels are chosen."""

    device: Device
    caps: Capabilities

    def check(self, case: Case) -> None:
        """See :func:`check`."""
        check(self.device, case, caps=self.caps)


@pytest.fixture(params=["software", "nvidia", "memory"])
def way(request: pytest.FixtureRequest, full: Device, no_subgroups: Device) -> Way:
    """What is chosen for the software device, for GPUs with subgroups, and without."""
    if request.param == "software":
        return Way(full, full.caps)
    device = no_subgroups if request.param == "memory" else full
    return Way(device, replace(device.caps, kind="discrete", vendor=request.param))


def representatives() -> list[Variant]:
    """One variant for each combination of what changes the generated code."""
    found: dict[object, Variant] = {}
    for v in VARIANTS:
        key = (v.style, v.reduce, v.split > 1, v.words, v.rows % 4 == 0, v.staged, v.wide, v.shared)
        found.setdefault(key, v)
    return list(found.values())


# --- every kind, by each template ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["sub-r1k4n1-w4u2", "sub-r2k2n1-w1u4-i", "software-r1-l8"])
@pytest.mark.parametrize("quant", Quant, ids=lambda quant: quant.name)
def test_every_kind(full: Device, quant: Quant, name: str) -> None:
    made = problem(case := Case(quant, rows=6, cols=512))
    variant = named(name)
    if not matvec.allowed(variant, made.node, full.caps):
        variant = named("sub-r2k1n2-w4u2")
    check(full, case, variant)


# --- every way to share out the work, with everything fused -------------------------------------


@pytest.mark.parametrize("variant", representatives(), ids=lambda variant: variant.name)
def test_variant(full: Device, variant: Variant) -> None:
    check(full, Case(Quant.Q4_1, rows=37, cols=352, fused=ALL), variant)


@pytest.mark.parametrize("name", ["sub-r2k1n2-w4u2", "sub-r4k4n1-w2u2-i", "sub-r4k1n8-w4u2-x"])
@pytest.mark.parametrize("quant", [Quant.Q6_K, Quant.Q8_0], ids=lambda quant: quant.name)
def test_long_rows(full: Device, quant: Quant, name: str) -> None:
    check(full, Case(quant, rows=9, cols=1792, fused=frozenset({"gain"})), named(name))


def test_gated_by_gelu(way: Way) -> None:
    way.check(Case(Quant.Q8_0, rows=76, cols=224, gated="gelu_tanh", fused=ALL))


# --- fused parts, one by one --------------------------------------------------------------------


@pytest.mark.parametrize("gated", [None, "silu"])
@pytest.mark.parametrize("part", sorted(ALL))
def test_fused_part(way: Way, part: str, gated: str | None) -> None:
    way.check(Case(rows=22, cols=64, fused=frozenset({part}), gated=gated))


def test_every_device(device: Device) -> None:
    check(device, Case(rows=22, cols=96, fused=ALL, gated="silu"))


# --- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("quant", "cols"), [(Quant.F32, 1), (Quant.F32, 7), (Quant.F16, 3)])
def test_odd_widths(way: Way, quant: Quant, cols: int) -> None:
    way.check(Case(quant, rows=9, cols=cols, fused=ALL))


@pytest.mark.parametrize("cols", [4, 36, 101])
def test_odd_widths_of_16_bits(full: Device, cols: int) -> None:
    check(full, Case(Quant.BF16, rows=9, cols=cols, fused=ALL))


@pytest.mark.parametrize("rows", [1, 2, 31])
def test_odd_heights(way: Way, rows: int) -> None:
    way.check(Case(Quant.Q5_1, rows=rows, cols=32, fused=frozenset({"residual"})))


def test_rows_folded_over_two_dimensions(full: Device) -> None:
    made = problem(Case(Quant.F32, rows=70, cols=4))
    caps = replace(full.caps, limits=replace(full.caps.limits, workgroups=5))
    dispatches = matvec.lower(made.node, caps, named("sub-r1k1n2-w4u2"))
    assert dispatches[0].grid == (5, 7, 1)
    (have,) = run_once(full, dispatches, made.inputs, made.planes, [made.node.output])
    np.testing.assert_allclose(have[0, 0], made.want, atol=1e-5)


# --- a few tokens -------------------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "gated"), [(2, "silu"), (3, None)])
def test_few_tokens(way: Way, tokens: int, gated: str | None) -> None:
    way.check(Case(Quant.Q4_K, rows=14, tokens=tokens, gated=gated, fused=ALL))


def test_eight_tokens(full: Device) -> None:
    check(
        full, Case(rows=8, cols=64, tokens=8, fused=frozenset({"gain"})), named("sub-r4k4n1-w1u2")
    )


def test_many_tokens_are_refused(full: Device) -> None:
    with pytest.raises(GraphError, match=r"1 to 8 tokens, and this linear has 9"):
        matvec.lower(problem(Case(tokens=9)).node, full.caps)


# --- storage and element types ------------------------------------------------------------------


@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_storage(way: Way, dtype: DType, storage: Storage) -> None:
    way.check(Case(rows=38, cols=32, dtype=dtype, storage=storage, fused=ALL))


def test_gated_into_a_texture(way: Way) -> None:
    way.check(Case(rows=38, cols=32, gated="silu", storage=Storage.TEXTURE_2D, fused=ALL))


# --- weights in several objects -----------------------------------------------------------------


@pytest.mark.parametrize("parts", [(32, 8), (13, 13, 13, 1)])
@pytest.mark.parametrize("gated", [None, "silu"])
def test_parts(way: Way, parts: tuple[int, ...], gated: str | None) -> None:
    fused = ALL - {"residual"}
    way.check(Case(rows=40, cols=32, parts=parts, gated=gated, fused=fused))


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


def test_a_gpu_is_offered_no_software_variant(full: Device) -> None:
    caps = replace(full.caps, kind="discrete")
    assert all(v.style != "software" for v in matvec.candidates(problem(Case()).node, caps))


def test_names_are_unique() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


def test_an_unknown_name_gives_nothing() -> None:
    assert variant_named("sub-r99") is None


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
