"""Graphs of real shape that the tests of this room share, and a numpy meaning for their ops."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from engine.graph.expression import Expression
from engine.graph.graph import Graph, Node, Role, Value
from engine.graph.ops import expression_of
from engine.tensor.descriptor import DType, matrix, vector
from engine.tensor.weights import WeightDesc


@dataclass(frozen=True)
class Llama:
    """The sizes of a llama model; the defaults are SmolLM2 135M with fewer layers."""

    layers: int = 3
    channels: int = 576
    feed_forward: int = 1536
    heads: int = 9
    kv_heads: int = 3
    head_dim: int = 64
    vocab: int = 49152
    context: int = 2048


def packed(graph: Graph, name: str, rows: int, cols: int, parts: tuple[int, ...] = ()) -> Value:
    """A Q4_0 weight of a graph."""
    groups = -(-cols // 32)
    desc = WeightDesc(rows, cols, "q4_0", 4 * groups, (groups + 1) // 2, parts or (rows,))
    return graph.value(name, desc, Role.WEIGHT)


def build_llama(tokens: int, **sizes: int) -> Graph:
    """A llama graph over ``tokens`` tokens, as the model runner builds it, unfused."""
    s = Llama(**sizes)
    g = Graph("decode" if tokens == 1 else "prefill")
    state = g.value("state", vector(16, DType.U32), Role.STATE)
    ids = g.value("tokens", vector(tokens, DType.U32), Role.INPUT)
    freqs = g.value("rope_freqs", vector(s.head_dim // 2), Role.WEIGHT)
    embed = packed(g, "token_embd.weight", s.vocab, s.channels)
    x = g.add("embedding", [ids, embed])
    heads = {"heads": s.heads, "kv_heads": s.kv_heads, "head_dim": s.head_dim}
    for layer in range(s.layers):
        kv = matrix(s.context, s.kv_heads * s.head_dim, DType.F16)
        k = g.value(f"k.{layer}", kv, Role.CACHE)
        v = g.value(f"v.{layer}", kv, Role.CACHE)

        def norm(value: Value, part: str) -> Value:
            return g.add("rms_norm", [value, gain(g, f"{part}_norm", s.channels)], eps=1e-5)

        def weight(part: str, rows: int, cols: int, layer: int = layer) -> Value:
            return packed(g, f"blk.{layer}.{part}.weight", rows, cols)

        qkv_rows = (s.heads + 2 * s.kv_heads) * s.head_dim
        h = norm(x, f"blk.{layer}.attn")
        qkv = g.add("linear", [h, weight("attn_qkv", qkv_rows, s.channels)])
        q = g.add(
            "rope_cache", [qkv, k, v, freqs, state], rope_dim=s.head_dim, mode="normal", **heads
        )
        o = g.add(
            "attention", [q, k, v, state], scale=s.head_dim**-0.5, sequence_max=s.context, **heads
        )
        x = g.add("add", [x, g.add("linear", [o, weight("attn_output", s.channels, s.channels)])])
        h = norm(x, f"blk.{layer}.ffn")
        up = g.add("linear", [h, weight("ffn_gate_up", 2 * s.feed_forward, s.channels)])
        f = g.add("gated", [up], act="silu")
        x = g.add("add", [x, g.add("linear", [f, weight("ffn_down", s.channels, s.feed_forward)])])
    if tokens > 1:
        x = g.add("last_row", [x, state])
    x = g.add("rms_norm", [x, gain(g, "output_norm", s.channels)], eps=1e-5)
    logits = g.value("logits", matrix(1, s.vocab), Role.OUTPUT)
    g.add("linear", [x, embed], outputs=[logits])
    history = g.value("history", vector(s.context, DType.U32), Role.STATE)
    params = g.value("params", vector(16), Role.INPUT)
    g.add("sample", [logits, history, params, state], outputs=[])
    g.check()
    return g


def gain(graph: Graph, name: str, channels: int) -> Value:
    """The gain vector of a norm."""
    return graph.value(f"{name}.weight", vector(channels), Role.WEIGHT)


@pytest.fixture
def llama() -> Callable[..., Graph]:
    """``llama(tokens, layers=30, ...)`` builds an unfused llama graph."""
    return build_llama


@pytest.fixture
def interpret() -> Callable[[Graph, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """``interpret(graph, arrays)`` computes the outputs of a graph in numpy, float64."""
    return run_graph


def run_graph(graph: Graph, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a graph by name; ``arrays`` are its inputs and weights (dense) by name."""
    have = dict(arrays)
    for node in graph.nodes:
        named = {part: have[value.name] for part, value in node.named.items()}
        have[node.output.name] = run_node(node, named)
    return {value.name: have[value.name] for value in graph.values(Role.OUTPUT)}


def run_node(node: Node, named: dict[str, np.ndarray]) -> np.ndarray:
    """What a node computes; the meaning of the ops, in numpy."""
    if (expression := expression_of(node)) is not None:
        return run_expression(expression, list(named.values()))
    if node.op == "rms_norm":
        return named["x"] * named["gain"] * inverse_rms(named["x"], node.attrs["eps"])
    if node.op == "gated":
        return gate(named["x"], node.attrs["act"])
    assert node.op == "linear", node.op
    x = named["x"]
    if "gain" in named:
        x = x * named["gain"] * inverse_rms(x, node.attrs["norm_eps"])
    y = x @ named["weight"].T + named.get("bias", 0.0)
    if node.attrs["gated"] is not None:
        y = gate(y, node.attrs["gated"])
    return y + named.get("residual", 0.0)


def run_expression(expression: Expression, operands: list[np.ndarray]) -> np.ndarray:
    """The value of an elementwise expression, step by step."""
    for step in expression.steps:
        args = [operands[arg] for arg in step.args]
        operands = [*operands, ARITHMETIC_MEANING[step.op](*args, step.constant)]
    return operands[-1]


ARITHMETIC_MEANING: dict[str, Callable[..., np.ndarray]] = {
    "add": lambda a, b, _: a + b,
    "mul": lambda a, b, _: a * b,
    "scale": lambda a, factor: a * factor,
    "softcap": lambda a, cap: cap * np.tanh(a / cap),
    "silu": lambda a, _: a / (1 + np.exp(-a)),
    "gelu_tanh": lambda a, _: 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))),
}


def inverse_rms(x: np.ndarray, eps: float) -> np.ndarray:
    """One over the root mean square of each row."""
    return 1 / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)


def gate(x: np.ndarray, act: str) -> np.ndarray:
    """Activation of the first half of the channels times the second half."""
    left, right = np.split(x, 2, axis=-1)
    return ARITHMETIC_MEANING[act](left, None) * right


def build_random(seed: int, rows: int = 1, length: int = 24) -> Graph:
    """A random graph of the ops that fuse, with branches, shared readers and dead ends."""
    rng = random.Random(seed)
    g = Graph(f"random {seed}")
    pool = [g.value(f"in{i}", matrix(rows, 8), Role.INPUT) for i in range(2)]
    for index in range(length):
        x = pool[-1] if rng.random() < 0.7 else rng.choice(pool)
        kind = rng.choice(["linear", "linear", "norm", "gated", "add", "add", "mul", "unary"])
        if kind == "linear":
            y = g.add("linear", [x, packed(g, f"w{index}", 8, 8)])
        elif kind == "gated":
            up = g.add("linear", [x, packed(g, f"w{index}", 16, 8)])
            y = g.add("gated", [up], act=rng.choice(["silu", "gelu_tanh"]))
        elif kind == "norm":
            y = g.add("rms_norm", [x, gain(g, f"n{index}", 8)], eps=1e-5)
        elif kind == "unary":
            op, attrs = rng.choice(
                [("silu", {}), ("scale", {"factor": 0.5}), ("softcap", {"cap": 3.0})]
            )
            y = g.add(op, [x], **attrs)
        else:
            y = g.add(kind, [x, rng.choice(pool)])
        pool.append(y)
    for index, value in enumerate(rng.sample(pool[2:], 2)):
        out = g.value(f"out{index}", matrix(rows, 8), Role.OUTPUT)
        g.add("scale", [value], outputs=[out], factor=2.0)
    g.check()
    return g


@pytest.fixture
def random_graph() -> Callable[..., Graph]:
    """``random_graph(seed, rows=1, length=24)`` builds a random graph of fusible ops."""
    return build_random


@pytest.fixture
def numbers() -> Callable[[Graph], dict[str, np.ndarray]]:
    """``numbers(graph)`` gives every input and weight of a graph seeded random numbers."""

    def make(graph: Graph) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(7)
        outside = [v for v in graph.values() if not v.role.writable]
        return {v.name: rng.standard_normal(dense_shape(v)) * 0.5 for v in outside}

    return make


def dense_shape(value: Value) -> tuple[int, ...]:
    """The numpy shape of a value: [rows, cols] of a packed weight or [tokens, channels]."""
    if isinstance(value.desc, WeightDesc):
        return (value.desc.rows, value.desc.cols)
    return (value.desc.shape.w, value.desc.shape.c)
