"""Every block decoder gives the weights that the numpy reference gives."""

from __future__ import annotations

import numpy as np
import pytest

from engine.formats.packed import pack
from engine.formats.quants import Quant, dequantise, quantise
from engine.gpu.device import Device
from engine.graph.node import Role, Value
from engine.kernels.quantise_blocks import dequantise_part, dequantised_desc, weight_desc
from engine.kernels.run import run_once

FLOATS = (Quant.F32, Quant.F16, Quant.BF16)
INTEGERS = tuple(quant for quant in Quant if quant not in FLOATS)


def decoded(
    device: Device, quant: Quant, rows: int, cols: int, *, whole: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(the GPU's weights, numpy's weights), float32 ``[rows, cols]``."""
    values = np.random.default_rng(7).normal(size=(rows, cols)).astype(np.float32)
    raw = quantise(values, quant)
    packed = pack(raw, quant, cols)
    desc = weight_desc(quant, rows, cols)
    weight = Value("w", desc, Role.WEIGHT)
    out = Value("y", dequantised_desc(desc), Role.OUTPUT)
    dispatch = dequantise_part(weight, out, device.caps, whole=whole)
    (have,) = run_once(device, [dispatch], {}, {weight: (packed.codes, packed.scales)}, [out])
    return have[0, 0, :, :cols], dequantise(raw, quant, cols)


def check(device: Device, quant: Quant, rows: int, cols: int, *, whole: bool) -> None:
    """Equal bits; where scale * code needs more than 24 bits, one unit in the last place."""
    have, want = decoded(device, quant, rows, cols, whole=whole)
    if quant in (Quant.Q4_K, Quant.Q5_K, Quant.Q6_K, Quant.Q4_1, Quant.Q5_1):
        bound = 2 * np.spacing(np.abs(want).max())
        np.testing.assert_allclose(have, want, rtol=0, atol=bound)
    else:
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("whole", [True, False], ids=["groups", "fours"])
@pytest.mark.parametrize("quant", INTEGERS, ids=lambda quant: quant.name)
def test_integer_kinds(full: Device, quant: Quant, whole: bool) -> None:
    check(full, quant, 5, 3 * max(quant.block, 32), whole=whole)


@pytest.mark.parametrize("whole", [True, False], ids=["groups", "fours"])
@pytest.mark.parametrize("quant", FLOATS, ids=lambda quant: quant.name)
def test_float_kinds_of_odd_width(full: Device, quant: Quant, whole: bool) -> None:
    check(full, quant, 3, 71, whole=whole)


@pytest.mark.parametrize("quant", Quant, ids=lambda quant: quant.name)
def test_without_f16(no_f16: Device, quant: Quant) -> None:
    check(no_f16, quant, 2, 256, whole=True)
