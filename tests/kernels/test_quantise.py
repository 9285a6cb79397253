"""Quantised activations stand for the activations to within half a step of each group's scale."""

from __future__ import annotations

import numpy as np
import pytest

from engine.gpu.device import Device
from engine.graph.node import Role, Value
from engine.kernels.quantise import dequantised, quantise, quantised_desc
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Storage, matrix


def quantised(
    device: Device,
    values: np.ndarray,
    lanes: int | None = None,
    dtype: DType = DType.F32,
    storage: Storage = Storage.BUFFER,
) -> tuple[np.ndarray, np.ndarray]:
    """(values that the quantised rows stand for, sums of groups) of ``[T, C]`` values."""
    desc = matrix(*values.shape, dtype).with_storage(storage)
    x = Value("x", desc, Role.INPUT)
    out, dispatch = quantise(x, device.caps, lanes)
    (words,) = run_once(device, [dispatch], {x: values}, {}, [out])
    return dequantised(np.ascontiguousarray(words[0, 0]), values.shape[1])


def by_groups(values: np.ndarray) -> np.ndarray:
    """``[T, groups, 32]``, the last group filled up with zeros."""
    tokens, channels = values.shape
    return np.pad(values, ((0, 0), (0, -channels % 32))).reshape(tokens, -1, 32)


def check(values: np.ndarray, have: np.ndarray, sums: np.ndarray) -> None:
    """Every value is within half a step; sums are those of the quantised values."""
    step = np.abs(by_groups(values)).max(axis=2, keepdims=True) / 127
    error = np.abs(by_groups(have) - by_groups(values))
    assert (error <= 0.5001 * step + 1e-20).all()
    np.testing.assert_allclose(sums, by_groups(have).sum(axis=2), rtol=1e-5, atol=1e-5)


def random(tokens: int, channels: int) -> np.ndarray:
    """Values of very different sizes by row, exact in f16."""
    rng = np.random.default_rng(3)
    scale = 10.0 ** np.arange(-2, tokens - 2)[:, None]
    return (rng.normal(size=(tokens, channels)) * scale).astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("channels", [32, 71, 160])
def test_within_half_a_step(full: Device, channels: int, lanes: int) -> None:
    values = random(5, channels)
    check(values, *quantised(full, values, lanes))


@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_storage(full: Device, dtype: DType, storage: Storage) -> None:
    values = random(3, 64)
    check(values, *quantised(full, values, dtype=dtype, storage=storage))


def test_every_device(device: Device) -> None:
    values = random(4, 96)
    check(values, *quantised(device, values))


@pytest.mark.parametrize("lanes", [1, 8])
def test_zeros_and_tiny_values_become_zero(full: Device, lanes: int) -> None:
    values = np.zeros((2, 64), np.float32)
    values[1, 40] = 1e-36
    have, sums = quantised(full, values, lanes)
    assert not have.any()
    assert not sums.any()


def test_largest_value_of_a_group_keeps_its_sign(full: Device) -> None:
    values = np.zeros((1, 32), np.float32)
    values[0, 7] = -3.0
    have, _ = quantised(full, values)
    assert have[0, 7] == pytest.approx(-3.0, rel=1e-4)


def test_rows_are_whole_vectors() -> None:
    assert quantised_desc(matrix(7, 96)) == matrix(7, 32, DType.U32)
    assert quantised_desc(matrix(7, 64)) == matrix(7, 20, DType.U32)
