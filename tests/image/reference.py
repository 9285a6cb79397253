"""The ops of pictures in numpy: what a graph computes, without a GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.graph.expression import Expression
from engine.graph.graph import Graph
from engine.graph.node import Node, Role, Value
from engine.graph.ops import expression_of
from engine.graph.ops_image import kernel_size, sides
from engine.image.weights import NetworkWeights

Arrays = dict[Value, np.ndarray]


def run(graph: Graph, weights: NetworkWeights, inputs: Mapping[Value, np.ndarray]) -> Arrays:
    """Every value of the graph, of its own shape [b, h, w, c]."""
    graph.check()
    known: Arrays = {}
    for value in graph.values():
        if value.role is Role.WEIGHT:
            known[value] = weights.array(value).astype(np.float64)
    for value, array in inputs.items():
        known[value] = np.reshape(array, shape_of(value))
    for node in graph.nodes:
        result = OPS.get(node.op, _elementwise)(node, {p: known[v] for p, v in node.named.items()})
        known[node.output] = result.reshape(shape_of(node.output))
    return known


def shape_of(value: Value) -> tuple[int, int, int, int]:
    """[b, h, w, c]."""
    shape = value.tensor.shape
    return (shape.b, shape.h, shape.w, shape.c)


def activate(name: str | None, x: np.ndarray) -> np.ndarray:
    """An activation by name."""
    if name is None:
        return x
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "quick_gelu":
        return x / (1 + np.exp(-1.702 * x))
    if name == "relu":
        return np.maximum(x, 0)
    assert name == "gelu"
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def _joined(named: dict[str, np.ndarray]) -> np.ndarray:
    skip = [named["skip"]] if "skip" in named else []
    return np.concatenate([named["x"], *skip], axis=-1)


def conv2d(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    attrs = node.attrs
    x = _joined(named)
    if "table" in named:
        table = named["table"]
        x = activate(attrs["norm_act"], x * table[:, :, :1] + table[:, :, 1:])
    if attrs["upsample"] == 2:
        x = x.repeat(2, axis=1).repeat(2, axis=2)
        if attrs.get("crop"):
            x = x[:, : attrs["crop"][0], : attrs["crop"][1]]
    height, width = kernel_size(attrs["kernel"])
    left, top, right, bottom = sides(attrs["padding"])
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (height, width), (1, 2))
    windows = windows[:, :: attrs["stride"], :: attrs["stride"]]  # [b, y, x, c, ky, kx]
    columns = windows.transpose(0, 1, 2, 4, 5, 3)
    y = columns.reshape(*columns.shape[:3], -1) @ named["weight"].T
    y = y + named.get("bias", 0.0)
    if "shift" in named:
        y = y + named["shift"].reshape(y.shape[0], 1, 1, -1)
    return activate(attrs["act"], y + named.get("residual", 0.0))


def group_norm(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    x = _joined(named)
    b, h, w, c = x.shape
    grouped = x.reshape(b, h * w, node.attrs["groups"], -1)
    mean = grouped.mean((1, 3), keepdims=True)
    variance = grouped.var((1, 3), keepdims=True)
    normed = ((grouped - mean) / np.sqrt(variance + node.attrs["eps"])).reshape(b, h, w, c)
    return activate(node.attrs["act"], normed * named["gain"] + named["bias"])


def layer_norm(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    x = named["x"]
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + node.attrs["eps"]) * named["gain"] + named["bias"]


def linear(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    y = named["x"] @ named["weight"].T + named.get("bias", 0.0)
    return y + named["residual"].reshape(y.shape) if "residual" in named else y


def attention_full(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    attrs = node.attrs
    heads = attrs["heads"]
    batch = attrs["batch"] or node.named["q"].tensor.shape.b
    dim = attrs["head_dim"] or named["q"].shape[-1] // heads

    def part(name: str, offset: int) -> np.ndarray:
        x = named[name].reshape(batch, -1, named[name].shape[-1])
        x = x[..., offset : offset + heads * dim]
        return x.reshape(batch, -1, heads, dim).transpose(0, 2, 1, 3)

    q, k, v = (part(name, at) for name, at in zip("qkv", attrs["offsets"], strict=True))
    scores = q @ k.transpose(0, 1, 3, 2) * (attrs["scale"] or dim**-0.5)
    if attrs["causal"]:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -1e9)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = scores / scores.sum(-1, keepdims=True) @ v
    return mixed.transpose(0, 2, 1, 3)


def gated(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    first, second = np.split(named["x"], 2, axis=-1)
    gate, up = (first, second) if node.attrs["gate_first"] else (second, first)
    return activate(node.attrs["act"], gate) * up


def embedding(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    ids = named["tokens"].reshape(-1).astype(np.int64)
    return named["weight"][ids] * node.attrs["scale"]


def concat(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate(list(named.values()), axis=-1)


def _elementwise(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    expression = expression_of(node)
    assert isinstance(expression, Expression), node.op
    operands: list[Any] = list(named.values())
    for step in expression.steps:
        a, *rest = (operands[i] for i in step.args)
        operands.append(_step(step.op, a, rest, step.constant))
    return operands[-1]


def _step(op: str, a: np.ndarray, rest: list[np.ndarray], constant: float | None) -> np.ndarray:
    if op == "add":
        return a + rest[0]
    if op == "mul":
        return a * rest[0]
    if op == "scale":
        return a * constant
    if op == "softcap":
        assert constant is not None
        return constant * np.tanh(a / constant)
    return activate(op, a)


OPS = {
    "conv2d": conv2d,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "linear": linear,
    "attention_full": attention_full,
    "gated": gated,
    "embedding": embedding,
    "concat": concat,
}
