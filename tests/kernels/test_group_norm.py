"""Group norm: scales and shifts of every channel, alone and applied."""

from __future__ import annotations

import numpy as np
import pytest

from engine.gpu.device import Device
from engine.graph.graph import Graph
from engine.graph.node import Node, Role
from engine.kernels import group_norm
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Shape, TensorDesc, vector

EPS = 1e-5


def reference(x: np.ndarray, gain: np.ndarray, bias: np.ndarray, groups: int) -> np.ndarray:
    """The formula in float64."""
    b, h, w, c = x.shape
    parts = x.astype(np.float64).reshape(b, h * w, groups, c // groups)
    mean = parts.mean(axis=(1, 3), keepdims=True)
    var = parts.var(axis=(1, 3), keepdims=True)
    return ((parts - mean) / np.sqrt(var + EPS)).reshape(x.shape) * gain + bias


def check(
    device: Device,
    shape: Shape,
    groups: int,
    *,
    skip: int = 0,
    act: str | None = None,
    dtype: DType = DType.F32,
    mean: float = 0.0,
    op: str = "group_norm",
) -> None:
    """Every variant against the formula; a table is applied by numpy."""
    if dtype is DType.F16 and not device.caps.f16:
        pytest.skip("no f16 here")
    rng = np.random.default_rng(1)
    graph = Graph("test")
    total = shape.c + skip
    given = {
        "x": graph.value("x", TensorDesc(shape, dtype), Role.INPUT),
        "gain": graph.value("gain", vector(total), Role.WEIGHT),
        "bias": graph.value("bias", vector(total), Role.WEIGHT),
    }
    if skip:
        other = Shape(shape.b, shape.h, shape.w, skip)
        given["skip"] = graph.value("skip", TensorDesc(other, dtype), Role.INPUT)
    attrs = {"act": act} if op == "group_norm" else {}
    graph.add(op, given, groups=groups, eps=EPS, **attrs)
    x = rng.normal(mean, 2, (shape.b, shape.h, shape.w, total)) + rng.normal(size=total)
    x = x.astype(np.float16 if dtype is DType.F16 else np.float32)
    gain, bias = rng.normal(size=(2, total)).astype(np.float32)
    arrays = {given["x"]: x[..., : shape.c], given["gain"]: gain, given["bias"]: bias}
    if skip:
        arrays[given["skip"]] = x[..., shape.c :]
    want = reference(x, gain, bias, groups)
    if act == "silu":
        want = want / (1 + np.exp(-want))
    node: Node = graph.nodes[0]
    for name, dispatches in group_norm.variants(node, device.caps).items():
        (have,) = run_once(device, dispatches, arrays, {}, [node.output])
        if op == "group_table":
            have = x * have[:, 0, 0, None, None] + have[:, 0, 1, None, None]
        bound = 2e-3 if dtype is DType.F16 else 1e-5 * (1 + abs(mean))
        assert np.abs(have - want).max() < bound * np.abs(want).max(), name


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        (Shape(1, 4, 4, 8), 2),
        (Shape(2, 9, 7, 64), 32),
        (Shape(1, 1, 1, 12), 3),
        (Shape(3, 5, 3, 10), 5),
        (Shape(1, 40, 33, 6), 1),
        (Shape(2, 70, 3, 36), 12),
    ],
)
def test_shapes(full: Device, shape: Shape, groups: int) -> None:
    check(full, shape, groups)
    check(full, shape, groups, op="group_table")


def test_every_device(device: Device) -> None:
    check(device, Shape(2, 9, 9, 40), 4, skip=20, act="silu")


def test_halves(device: Device) -> None:
    check(device, Shape(2, 9, 9, 40), 8, act="silu", dtype=DType.F16)


def test_groups_may_straddle_x_and_skip(full: Device) -> None:
    check(full, Shape(1, 6, 6, 32), 4, skip=16)
    check(full, Shape(1, 6, 6, 32), 4, skip=16, op="group_table")


def test_a_large_mean_costs_no_precision(full: Device) -> None:
    check(full, Shape(1, 33, 31, 16), 2, mean=300.0)
