"""Our number formats give the bits of ggml's numpy reference (the ``gguf`` package)."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from engine.formats.errors import FormatError
from engine.formats.quants import Quant, dequantise, quantise

K_QUANTS = (Quant.Q4_K, Quant.Q5_K, Quant.Q6_K)
# Steps between a block's extremes; a correct quantiser is off by about one step at worst.
STEPS = {Quant.Q4_K: 15, Quant.Q5_K: 31, Quant.Q6_K: 63}


def every(kinds=tuple(Quant)):
    return pytest.mark.parametrize("quant", kinds, ids=lambda quant: quant.name)


def random_raw(quant: Quant, rows: int, cols: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, quant.row_bytes(cols)), np.uint8)


def reference(raw: np.ndarray, quant: Quant) -> np.ndarray:
    with np.errstate(all="ignore"):
        return quants.dequantize(raw, GGMLQuantizationType(quant.value))


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape
    numbers = ~np.isnan(expected)
    assert np.array_equal(numbers, ~np.isnan(got))
    assert np.array_equal(got.view(np.uint32)[numbers], expected.view(np.uint32)[numbers])


@every()
def test_sizes_are_those_of_ggml(quant):
    from gguf import GGML_QUANT_SIZES

    assert GGML_QUANT_SIZES[GGMLQuantizationType(quant.value)] == (quant.block, quant.block_bytes)


@every()
@pytest.mark.parametrize("rows", [1, 7])
def test_dequantise_gives_the_reference_bits_for_random_bytes(quant, rows):
    raw = random_raw(quant, rows, 768)
    assert_same_bits(dequantise(raw, quant, 768), reference(raw, quant))


@every()
def test_dequantise_works_across_chunks_and_on_views(quant):
    raw = random_raw(quant, 1100, 512)[::2]
    assert_same_bits(dequantise(raw, quant, 512), reference(np.ascontiguousarray(raw), quant))


@every([quant for quant in Quant if quant not in K_QUANTS])
@pytest.mark.parametrize("scale", [1e-6, 0.02, 300.0])
def test_quantise_gives_the_reference_bits(quant, scale):
    values = np.random.default_rng(1).normal(0, scale, (33, 512)).astype(np.float32)
    values[3] = 0
    values[4, :64] = np.linspace(0, 1, 64)
    values[5] = np.round(values[5] / scale * 4) * scale / 4  # ties
    with np.errstate(all="ignore"):
        expected = quants.quantize(values, GGMLQuantizationType(quant.value)).view(np.uint8)
    assert np.array_equal(quantise(values, quant), expected.reshape(33, -1))


@every(K_QUANTS)
@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_k_quantisers_stay_close_to_the_values(quant, scale):
    values = np.random.default_rng(2).normal(0, scale, (9, 768)).astype(np.float32)
    values[3] = 0
    values[4] = np.abs(values[4])
    values[5] = -np.abs(values[5])
    error = np.abs(dequantise(quantise(values, quant), quant, 768) - values).max(axis=1)
    assert (error <= 2 * np.abs(values).max(axis=1) / STEPS[quant] * 1.1).all()


def test_bf16_keeps_nan_and_infinity():
    values = np.array([[np.nan, np.inf, -np.inf, 1.0]], np.float32)
    got = dequantise(quantise(values, Quant.BF16), Quant.BF16, 4)
    assert np.array_equal(got, values, equal_nan=True)


@every([Quant.Q4_0, Quant.Q8_0, Quant.Q4_1, Quant.Q4_K, Quant.Q6_K])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_values_without_a_finite_scale_are_refused(quant, bad):
    values = np.ones((2, 256), np.float32)
    values[1, 5] = bad
    with pytest.raises(FormatError, match="infinite, not a number"):
        quantise(values, quant)


@every([Quant.Q4_0, Quant.Q6_K])
@pytest.mark.parametrize("cols", [0, -32, 33])
def test_rows_of_broken_blocks_are_refused(quant, cols):
    with pytest.raises(FormatError, match=f"multiple of {quant.block}"):
        quant.row_bytes(cols)


@pytest.mark.parametrize(
    "raw",
    [np.zeros((2, 17), np.uint8), np.zeros(18, np.uint8), np.zeros((2, 18), np.int8)],
    ids=["width", "axes", "dtype"],
)
def test_bytes_that_do_not_fit_the_shape_are_refused(raw):
    with pytest.raises(FormatError, match=r"uint8 \[rows, 18\]"):
        dequantise(raw, Quant.Q4_0, 32)


def test_quantise_wants_rows():
    with pytest.raises(FormatError, match=r"\[rows, cols\]"):
        quantise(np.zeros(32, np.float32), Quant.Q4_0)
