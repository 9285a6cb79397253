"""`linear` for many tokens equals float64 numpy on the dequantised weights, however it is tiled."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.linear_problem import Case, problem

from engine.formats.quants import Quant
from engine.gpu.device import Device
from engine.kernels import matmul
from engine.kernels.matmul_tables import VARIANTS, Variant
from engine.kernels.run import run_once

ALL = frozenset({"gain", "bias", "residual"})


def check(device: Device, case: Case, variant: Variant | None = None) -> None:
    """The device gives the right answer, by a variant or the one chosen for it."""
    made = problem(case)
    dispatches = matmul.lower(made.node, device.caps, variant)
    (have,) = run_once(device, dispatches, made.inputs, made.planes, [made.node.output])
    assert (np.abs(have[0, 0] - made.want) / made.norms).max() < 1e-5


@pytest.mark.parametrize("quant", Quant, ids=lambda quant: quant.name)
def test_every_kind(full: Device, quant: Quant) -> None:
    check(full, Case(quant))


def test_every_device(device: Device) -> None:
    check(device, Case(rows=22, cols=96, fused=ALL, gated="silu"))
    assert len(VARIANTS) > 3
