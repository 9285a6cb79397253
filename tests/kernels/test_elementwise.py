"""Elementwise ops against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels.kernel_nodes import STORAGES, close, make_node, rows_of, run, value

from engine.gpu.device import Device
from engine.graph.expression import Expression, Step
from engine.graph.node import GraphError, Node, Value
from engine.kernels import elementwise
from engine.tensor.descriptor import DType, Layout, Shape, Storage, TensorDesc


def silu(x: np.ndarray) -> np.ndarray:
    """x times its logistic."""
    return x / (1 + np.exp(-x))


def gelu(x: np.ndarray) -> np.ndarray:
    """The tanh form."""
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


SINGLE: dict[str, tuple[int, dict[str, Any], Any]] = {
    "add": (2, {}, lambda a, b: a + b),
    "mul": (2, {}, lambda a, b: a * b),
    "scale": (1, {"factor": 0.3}, lambda a: a * 0.3),
    "softcap": (1, {"cap": 5.0}, lambda a: 5 * np.tanh(a / 5)),
    "silu": (1, {}, silu),
    "gelu_tanh": (1, {}, gelu),
}


def data_for(parts: list[Value], spread: float = 4.0) -> dict[Value, np.ndarray]:
    """Random values, in the precision of each tensor."""
    rng = np.random.default_rng(3)
    return {
        part: rng.normal(
            0, spread, (1, part.tensor.shape.h, part.tensor.shape.w, part.tensor.shape.c)
        ).astype(np.float16 if part.tensor.dtype is DType.F16 else np.float32)
        for part in parts
    }


def check(device: Device, node: Node, want: Any, spread: float = 4.0) -> None:
    """Every variant against ``want`` of the float64 inputs."""
    data = data_for(list(dict.fromkeys(node.inputs)), spread)
    wide = [data[part].astype(np.float64)[0] for part in node.inputs]
    expected = want(*wide)
    for dispatches in elementwise.variants(node, device.caps).values():
        (have,) = run(device, dispatches, data, [node.output])
        close(have.reshape(expected.shape), expected, node.output.tensor.dtype, 4)


def single(op: str, desc: TensorDesc) -> Node:
    """A node of one op over tensors of one description."""
    count, attrs, _ = SINGLE[op]
    names = ["a", "b"] if count == 2 else ["x"]
    return make_node(op, {n: value(n, desc) for n in names}, [value("out", desc)], **attrs)


@pytest.mark.parametrize("op", SINGLE)
def test_single_ops(device: Device, op: str) -> None:
    check(device, single(op, rows_of(3, 37)), SINGLE[op][2])


@pytest.mark.parametrize("op", ["softcap", "silu", "gelu_tanh"])
def test_large_arguments_stay_finite(full: Device, op: str) -> None:
    def quiet(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(SINGLE[op][2](x))

    check(full, single(op, rows_of(2, 64)), quiet, spread=500.0)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_storages(full: Device, storage: Storage, dtype: DType) -> None:
    check(full, single("add", rows_of(5, 30, dtype).with_storage(storage)), SINGLE["add"][2])


@pytest.mark.parametrize("layout", Layout)
def test_four_axes_and_layouts(full: Device, layout: Layout) -> None:
    check(full, single("mul", TensorDesc(Shape(h=3, w=5, c=9), layout=layout)), SINGLE["mul"][2])


def test_the_same_tensor_twice_is_bound_once(full: Device) -> None:
    x = value("x", rows_of(2, 8))
    check(full, make_node("add", {"a": x, "b": x}, [value("out", x.tensor)]), lambda a, b: a + b)


def test_fused_chain(device: Device) -> None:
    a, b, c = (value(n, rows_of(2, 50)) for n in "abc")
    steps = (
        Step("add", (0, 1)),
        Step("silu", (3,)),
        Step("mul", (4, 2)),
        Step("scale", (5,), 1e-5),
    )
    node = make_node(
        "elementwise",
        {"in0": a, "in1": b, "in2": c},
        [value("out", rows_of(2, 50))],
        expression=Expression(3, steps),
    )
    check(device, node, lambda a, b, c: silu(a + b) * c * 1e-5)


@pytest.mark.parametrize("half", [32, 6, 7, 1])
@pytest.mark.parametrize(("act", "formula"), [("silu", silu), ("gelu_tanh", gelu)])
def test_gated(device: Device, half: int, act: str, formula: Any) -> None:
    x, out = value("x", rows_of(3, 2 * half)), value("out", rows_of(3, half))
    node = make_node("gated", {"x": x}, [out], act=act)
    check(device, node, lambda x: formula(x[..., :half]) * x[..., half:])


def test_too_many_inputs_say_so(small_limits: Device) -> None:
    steps = [Step("add", (0, 1))] + [Step("add", (i, 6 + i)) for i in range(2, 8)]
    parts = {f"in{i}": value(f"in{i}", rows_of(1, 4)) for i in range(8)}
    node = make_node(
        "elementwise", parts, [value("out", rows_of(1, 4))], expression=Expression(8, tuple(steps))
    )
    with pytest.raises(GraphError, match="binds at most 8"):
        elementwise.lower(node, small_limits.caps)
