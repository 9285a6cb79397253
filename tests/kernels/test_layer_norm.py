"""Layer norm: every row brought to mean 0 and deviation 1, times a gain, plus a bias."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.kernel_nodes import STORAGES, close, make_node, rows_of, run, value

from engine.gpu.device import Device
from engine.kernels import layer_norm
from engine.tensor.descriptor import DType, Shape, Storage, TensorDesc

EPS = 1e-5


def reference(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The formula in float64."""
    wide = x.astype(np.float64)
    off = wide - wide.mean(-1, keepdims=True)
    return off / np.sqrt((off**2).mean(-1, keepdims=True) + EPS) * gain + bias


def check(
    device: Device,
    tokens: int,
    channels: int,
    dtype: DType = DType.F32,
    storage: Storage = Storage.BUFFER,
    mean: float = 0.0,
) -> None:
    """Every variant against the formula."""
    rng = np.random.default_rng(tokens * channels)
    x = value("x", rows_of(tokens, channels, dtype).with_storage(storage))
    gain, bias = (value(name, TensorDesc(Shape(c=channels))) for name in ("gain", "bias"))
    y = value("y", x.tensor)
    node = make_node("layer_norm", {"x": x, "gain": gain, "bias": bias}, [y], eps=EPS)
    data = rng.normal(mean, 3, (tokens, channels))
    data = data.astype(np.float16 if dtype is DType.F16 else np.float32)
    scale, shift = rng.normal(1, 0.2, (2, channels)).astype(np.float32)
    want = reference(data, scale, shift)
    for dispatches in layer_norm.variants(node, device.caps).values():
        (have,) = run(device, dispatches, {x: data, gain: scale, bias: shift}, [y])
        close(have, want, dtype, 1 + abs(mean) / 3)


@pytest.mark.parametrize(("tokens", "channels"), [(1, 320), (7, 768), (3, 37), (65, 2), (1, 1)])
def test_shapes(device: Device, tokens: int, channels: int) -> None:
    check(device, tokens, channels)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_storages(full: Device, storage: Storage, dtype: DType) -> None:
    check(full, 3, 70, dtype, storage)


def test_a_large_mean_costs_no_precision(full: Device) -> None:
    check(full, 4, 256, mean=400.0)
