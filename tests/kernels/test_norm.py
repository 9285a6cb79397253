"""RMS norm: every row divided by its root mean square, times the gain."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.kernel_nodes import STORAGES, close, make_node, rows_of, run, value

from engine.gpu.device import Device
from engine.kernels import norm
from engine.tensor.descriptor import DType, Shape, Storage, TensorDesc

EPS = 1e-5


def reference(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """The formula in float64."""
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(-1, keepdims=True) + EPS) * gain


def check(
    device: Device,
    tokens: int,
    channels: int,
    dtype: DType = DType.F32,
    storage: Storage = Storage.BUFFER,
) -> None:
    """Every variant against the formula."""
    rng = np.random.default_rng(tokens * channels)
    x = value("x", rows_of(tokens, channels, dtype).with_storage(storage))
    gain = value("gain", TensorDesc(Shape(c=channels)))
    y = value("y", x.tensor)
    node = make_node("rms_norm", {"x": x, "gain": gain}, [y], eps=EPS)
    data = rng.normal(0, 3, (tokens, channels)).astype(np.float16 if dtype is DType.F16 else "f4")
    weight = rng.normal(1, 0.2, channels).astype(np.float32)
    for name, dispatches in norm.variants(node, device.caps).items():
        (have,) = run(device, dispatches, {x: data, gain: weight}, [y])
        close(have, reference(data, weight), dtype), name


@pytest.mark.parametrize(("tokens", "channels"), [(1, 576), (7, 576), (3, 37), (65, 2), (1, 1)])
def test_shapes(device: Device, tokens: int, channels: int) -> None:
    check(device, tokens, channels)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_storages(full: Device, storage: Storage, dtype: DType) -> None:
    check(full, 3, 70, dtype, storage)


def test_tiny_rows_are_held_up_by_eps(full: Device) -> None:
    x, gain = value("x", rows_of(1, 8)), value("gain", TensorDesc(Shape(c=8)))
    y = value("y", x.tensor)
    node = make_node("rms_norm", {"x": x, "gain": gain}, [y], eps=EPS)
    (have,) = run(full, norm.lower(node, full.caps), {x: np.zeros((1, 8)), gain: np.ones(8)}, [y])
    assert not have.any()
