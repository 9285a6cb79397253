"""Attention over whole sequences against its formula in float64."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import numpy as np
import pytest

from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.gpu.device import Device
from engine.graph.graph import Graph, GraphError
from engine.graph.node import Node, Role, Value
from engine.kernels import attention_full
from engine.kernels import run as run_module
from engine.kernels.attention_full import Variant
from engine.kernels.base import Dispatch, Shader, generate
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Shape, TensorDesc


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int, causal: bool) -> np.ndarray:
    """[b, n, heads * d] of [b, n, ..] and [b, m, ..]."""
    b, n, c = q.shape
    dim = c // heads
    split = [
        a.astype(np.float64).reshape(b, -1, heads, dim).transpose(0, 2, 1, 3) for a in (q, k, v)
    ]
    scores = split[0] @ split[1].swapaxes(-1, -2) / np.sqrt(dim)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = weights / weights.sum(axis=-1, keepdims=True) @ split[2]
    return out.transpose(0, 2, 1, 3).reshape(b, n, c)


def check(
    device: Device,
    queries: int,
    keys: int,
    heads: int,
    dim: int,
    *,
    batch: int = 1,
    causal: bool = False,
    dtype: DType = DType.F32,
    spread: float = 1.0,
    every: bool = False,
) -> None:
    """The variants against the formula."""
    if dtype is DType.F16 and not device.caps.f16:
        pytest.skip("no f16 here")
    graph = Graph("test")
    shapes = {"q": queries, "k": keys, "v": keys}
    given = {
        part: graph.value(part, TensorDesc(Shape(batch, w=n, c=heads * dim), dtype), Role.INPUT)
        for part, n in shapes.items()
    }
    graph.add("attention_full", given, heads=heads, causal=causal)
    rng = np.random.default_rng(queries + keys)
    arrays = {
        part: rng.normal(0, spread, (batch, n, heads * dim)).astype(np.float16)
        for part, n in shapes.items()
    }
    want = reference(arrays["q"], arrays["k"], arrays["v"], heads, causal)
    compare(
        device, graph.nodes[0], {given[part]: a for part, a in arrays.items()}, want, every=every
    )


def compare(
    device: Device,
    node: Node,
    arrays: dict[Value, np.ndarray],
    want: np.ndarray,
    *,
    every: bool = False,
) -> None:
    """Run the first variant of each style, or ``every`` one."""
    half = node.output.tensor.dtype is DType.F16
    found = attention_full.variants(node, device.caps)
    assert found
    if not every:
        styles = {name.split("-")[0]: name for name in reversed(found)}
        found = {name: found[name] for name in styles.values()}
    for name, dispatches in found.items():
        inputs = {value: array.astype(np.float32) for value, array in arrays.items()}
        (have,) = run_once(device, dispatches, inputs, {}, [node.output])
        error = np.abs(have.reshape(want.shape) - want).max() / np.abs(want).max()
        assert error < (3e-3 if half or name.startswith(("f16", "matrix")) else 2e-5), name


@pytest.mark.parametrize(
    ("queries", "keys", "heads", "dim"),
    [
        (70, 70, 2, 8),
        (33, 9, 1, 40),
        (1, 77, 3, 64),
        (65, 40, 2, 80),
        (20, 35, 1, 160),
        (3, 1, 1, 4),
    ],
)
def test_shapes(full: Device, queries: int, keys: int, heads: int, dim: int) -> None:
    check(full, queries, keys, heads, dim)


def test_one_head_of_512_as_in_an_autoencoder(full: Device) -> None:
    check(full, 24, 24, 1, 512)


def test_every_device(device: Device) -> None:
    check(device, 40, 33, 2, 40, batch=2)
    check(device, 77, 77, 2, 64, causal=True)


def test_halves(device: Device) -> None:
    check(device, 40, 33, 2, 40, batch=2, dtype=DType.F16)


def test_every_variant(full: Device) -> None:
    check(full, 70, 37, 1, 72, every=True)


def test_large_scores_stay_finite(full: Device) -> None:
    check(full, 40, 70, 1, 64, spread=6.0)


def test_a_packed_projection(device: Device) -> None:
    heads, dim, n = 3, 16, 37
    graph = Graph("test")
    desc = TensorDesc(Shape(2, w=n, c=3 * heads * dim))
    qkv = graph.value("qkv", desc, Role.INPUT)
    offsets = (0, heads * dim, 2 * heads * dim)
    graph.add("attention_full", [qkv, qkv, qkv], heads=heads, head_dim=dim, offsets=offsets)
    data = np.random.default_rng(2).normal(size=(2, n, 3 * heads * dim)).astype(np.float16)
    want = reference(*np.split(data, 3, axis=-1), heads, False)
    compare(device, graph.nodes[0], {qkv: data}, want)


def test_sequences_below_one_another(full: Device) -> None:
    graph = Graph("test")
    q, k, v = (graph.value(n, TensorDesc(Shape(w=22, c=32)), Role.INPUT) for n in "qkv")
    graph.add("attention_full", [q, k, v], heads=2, batch=2, causal=True)
    data = np.random.default_rng(4).normal(size=(3, 2, 11, 32)).astype(np.float16)
    want = reference(*data, 2, True)
    compare(full, graph.nodes[0], dict(zip((q, k, v), data, strict=True)), want)


def test_heads_that_do_not_fit_are_refused(full: Device) -> None:
    graph = Graph("test")
    q = graph.value("q", TensorDesc(Shape(w=4, c=12)), Role.INPUT)
    with pytest.raises(GraphError, match="which 5 heads cannot share evenly"):
        graph.add("attention_full", [q, q, q], heads=5)
    graph.add("attention_full", [q, q, q], heads=2)
    with pytest.raises(GraphError, match="multiple of 4 channels wide"):
        attention_full.lower(graph.nodes[0], full.caps)


#: Matrix units of 8x4x8 as plain code: every lane does the whole product and stores the same.
#: `nothing()` is 0; no compiler knows, so none unrolls the loops.
UNITS = """
fn nothing() -> u32 { return arrayLength(&q_data) >> 31u; }
fn load_right(at: u32, by_columns: bool, pitch: u32) -> Right {
    var r: Right;  // [k = 8][n = 4]
    for (var i = 0u; i < 32u + nothing(); i++) {
        let steps = select(vec2<u32>(pitch, 1u), vec2<u32>(1u, pitch), by_columns);
        r[i] = f32(tile[at + i / 4u * steps.x + i % 4u * steps.y]);
    }
    return r;
}
fn multiply(a: Left, b: Right, c: Sums) -> Sums {
    var x = a;
    var y = b;
    var r = c;  // [m = 8][n = 4]
    for (var i = 0u; i < 32u + nothing(); i++) {
        for (var j = 0u; j < 8u + nothing(); j++) {
            r[i] += x[i / 4u * 8u + j] * y[j * 4u + i % 4u];
        }
    }
    return r;
}
fn sums_at(at: u32, pitch: u32) -> Sums {
    var r: Sums;
    for (var i = 0u; i < 32u + nothing(); i++) { r[i] = scores[at + i / 4u * pitch + i % 4u]; }
    return r;
}
fn store(at: u32, value: Sums, pitch: u32) {
    var r = value;
    for (var i = 0u; i < 32u + nothing(); i++) { scores[at + i / 4u * pitch + i % 4u] = r[i]; }
}
"""
LOAD_LEFT = """
fn left_of_SOURCE(at: u32, pitch: u32) -> Left {
    var r: Left;  // [m = 8][k = 8]
    for (var i = 0u; i < 64u + nothing(); i++) {
        r[i] = f32(SOURCE[at + i / 8u * pitch + i % 8u]);
    }
    return r;
}
"""


def emulated(source: str) -> str:
    """A shader of such matrix units as one that any device runs (slowly)."""
    source = re.sub(r"subgroup_matrix_left<[^>]*>", "array<f32, 64>", source)
    source = re.sub(r"subgroup_matrix_\w+<[^>]*>", "array<f32, 32>", source)
    for name in ("tile", "weights"):
        load = rf"subgroupMatrixLoad<Left>\(&{name}, (.*?), false, "
        source = re.sub(load, rf"left_of_{name}(\1, ", source)
        source += LOAD_LEFT.replace("SOURCE", name)
    source = source.replace("subgroupMatrixLoad<Right>(&tile, ", "load_right(")
    source = source.replace("subgroupMatrixMultiplyAccumulate", "multiply")
    source = re.sub(r"subgroupMatrixLoad<Sums>\(&scores, (.*?), false, ", r"sums_at(\1, ", source)
    source = re.sub(r"subgroupMatrixStore\(&scores, (.*?), false, ", r"store(\1, ", source)
    return source + UNITS


MATRIX_WAYS = (Variant("matrix", 2, 8, 1), Variant("matrix", 1, 16, 2))


@pytest.mark.skipif(
    "DRIFTWOOD_SLOW_TESTS" not in os.environ,
    reason="emulated matrix units compile for half a minute",
)
@pytest.mark.parametrize("way", MATRIX_WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize(
    ("keys", "dim", "causal", "rise"),
    [(19, 12, False, 0.0), (13, 8, True, 0.0), (30, 8, False, 9.0)],
    ids=["cross", "causal", "rising scores"],
)
def test_matrix_units(
    full: Device,
    monkeypatch: pytest.MonkeyPatch,
    way: Variant,
    keys: int,
    dim: int,
    causal: bool,
    rise: float,
) -> None:
    """``rise`` makes later keys score higher, so that sums are scaled on the way."""
    caps = replace(full.caps, matrix=(MatrixShape(8, 4, 8, "f16", "f32"),))

    def generated(dispatch: Dispatch, _: Capabilities) -> Shader:
        shader = generate(dispatch, caps)
        return replace(shader, source=emulated(shader.source))

    monkeypatch.setattr(run_module, "generate", generated)
    queries, heads, batch = keys if causal else 21, 2, 2
    graph = Graph("test")
    shapes = {"q": queries, "k": keys, "v": keys}
    given = {
        part: graph.value(part, TensorDesc(Shape(batch, w=n, c=heads * dim), DType.F16), Role.INPUT)
        for part, n in shapes.items()
    }
    graph.add("attention_full", given, heads=heads, causal=causal)
    rng = np.random.default_rng(6)
    arrays = {
        given[part]: rng.normal(size=(batch, n, heads * dim)).astype(np.float16)
        for part, n in shapes.items()
    }
    arrays[given["q"]] = np.abs(arrays[given["q"]])
    arrays[given["k"]] += np.linspace(0, rise, keys, dtype=np.float16)[:, None]
    want = reference(*arrays.values(), heads, causal)
    node = graph.nodes[0]
    dispatches = attention_full.lower(node, caps, way)
    (have,) = run_once(full, dispatches, arrays, {}, [node.output])
    assert np.abs(have.reshape(want.shape) - want).max() < 3e-3 * np.abs(want).max()
