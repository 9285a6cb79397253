"""The small ops of pictures: activations, embeddings, sampler steps, bytes for the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine.formats.packed import pack
from engine.formats.quants import Quant, quantise
from engine.gpu.device import Device
from engine.graph.graph import Graph, GraphError
from engine.graph.node import Role, Value
from engine.graph.ops_image import STEP_WORDS
from engine.kernels import elementwise, preview, timestep
from engine.kernels.program import lower_graph
from engine.kernels.quantise_blocks import weight_desc
from engine.kernels.registry import lower
from engine.kernels.run import run_once
from engine.kernels.scheduler_step import NO_CLIP, STATE_WORDS, StepFactors, pack_steps
from engine.tensor.descriptor import DType, Shape, TensorDesc, vector

ERF = np.vectorize(math.erf)
FORMULAS: dict[str, Any] = {
    "gelu": lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2))),
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "relu": lambda x: np.maximum(x, 0),
}


def run(device: Device, graph: Graph, inputs: dict[Value, np.ndarray], *out: Value) -> Any:
    """All nodes of a graph, one after the other, on numpy arrays."""
    dispatches = [dispatch for node in graph.nodes for dispatch in lower(node, device.caps)]
    results = run_once(device, dispatches, inputs, {}, out)
    return results[0] if len(results) == 1 else results


@pytest.mark.parametrize("act", FORMULAS)
def test_activations(device: Device, act: str) -> None:
    graph = Graph("test")
    x = graph.value("x", TensorDesc(Shape(w=9, c=33)), Role.INPUT)
    y = graph.add(act, [x])
    data = np.random.default_rng(1).normal(0, 3, (9, 33)).astype(np.float32)
    have = run(device, graph, {x: data}, y)[0, 0]
    np.testing.assert_allclose(have, FORMULAS[act](data.astype(np.float64)), rtol=0, atol=2e-6)


def test_a_gate_may_come_second(device: Device) -> None:
    graph = Graph("test")
    x = graph.value("x", TensorDesc(Shape(2, w=3, c=24)), Role.INPUT)
    y = graph.add("gated", [x], act="gelu", gate_first=False)
    data = np.random.default_rng(1).normal(size=(2, 1, 3, 24)).astype(np.float32)
    have = run(device, graph, {x: data}, y)
    want = data[..., :12] * FORMULAS["gelu"](data[..., 12:].astype(np.float64))
    np.testing.assert_allclose(have, want, rtol=0, atol=2e-6)
    assert elementwise.variants(graph.nodes[0], device.caps)


def embedding(t: np.ndarray, channels: int, shift: float = 0.0, flip: bool = True) -> np.ndarray:
    """The formula in float64."""
    half = channels // 2
    f = np.exp(-math.log(10000) * np.arange(half) / (half - shift))
    angle = t[:, None] * f
    first, second = (np.cos(angle), np.sin(angle)) if flip else (np.sin(angle), np.cos(angle))
    return np.concatenate([first, second], axis=1)


@pytest.mark.parametrize(
    ("channels", "shift", "flip"), [(320, 0.0, True), (6, 1.0, True), (32, 0.0, False)]
)
def test_timestep_embedding_of_numbers(
    device: Device, channels: int, shift: float, flip: bool
) -> None:
    graph = Graph("test")
    values = graph.value("values", vector(4), Role.INPUT)
    y = graph.add("timestep_embedding", [values], channels=channels, freq_shift=shift, flip=flip)
    t = np.array([0.0, 999.0, 41.25, 512.0])
    have = run(device, graph, {values: t}, y)[0, 0]
    np.testing.assert_allclose(have, embedding(t, channels, shift, flip), rtol=0, atol=5e-4)
    assert timestep.variants(graph.nodes[0], device.caps)


def test_timestep_embedding_of_the_step_that_the_state_says(device: Device) -> None:
    graph, _, steps, state = loop(Shape(c=4))
    y = graph.add("timestep_embedding", {"values": steps, "state": state}, channels=16, count=2)
    table = pack_steps([StepFactors(t, (1.0,)) for t in (981.0, 961.5)])
    have = run(device, graph, {steps: table, state: state_words(1)}, y)[0, 0]
    want = embedding(np.array([961.5, 961.5]), 16)
    np.testing.assert_allclose(have, want, rtol=0, atol=5e-4)


def loop(shape: Shape) -> tuple[Graph, Value, Value, Value]:
    """A graph with x, a table of two steps, and the state."""
    graph = Graph("test")
    x = graph.value("x", TensorDesc(shape), Role.CACHE)
    steps = graph.value("steps", vector(2 * STEP_WORDS), Role.INPUT)
    state = graph.value("state", TensorDesc(Shape(c=STATE_WORDS), DType.U32), Role.STATE)
    return graph, x, steps, state


def state_words(step: int) -> np.ndarray:
    """The state's contents."""
    return np.array([step, 0, 0, 0], np.uint32)


@pytest.mark.parametrize("channels", [4, 3])
@pytest.mark.parametrize("guided", [False, True])
def test_a_step_is_a_sum_of_everything(device: Device, channels: int, guided: bool) -> None:
    shape = Shape(2, 3, 5, channels)
    graph, x, steps, state = loop(shape)
    model = graph.value("model", _stack(shape, 2 if guided else 1), Role.INPUT)
    history = graph.value("history", _stack(shape, 2), Role.CACHE)
    noise = graph.value("noise", _stack(shape, 2), Role.INPUT)
    given = {"x": x, "model": model, "steps": steps, "state": state}
    graph.add("scheduler_step", {**given, "history": history, "noise": noise}, outputs=[])
    graph.add("advance_step", [state], outputs=[])
    rng = np.random.default_rng(7)
    factors = rng.normal(size=(3, 7))
    step = StepFactors(
        10.0,
        factors[0].tolist(),
        factors[1:].tolist(),
        guidance=4.5,
        denoised=(0.5, -0.3),
        clip=1.5 if channels == 4 else NO_CLIP,
    )
    arrays = {v: rng.normal(size=_size(v)).astype(np.float32) for v in (x, model, history, noise)}
    inputs = {**arrays, steps: pack_steps([StepFactors(0.0, ()), step]), state: state_words(1)}
    new, kept, after = run(device, graph, inputs, x, history, state)
    out = arrays[model].astype(np.float64)
    if guided:
        out = out[:2] + 4.5 * (out[2:] - out[:2])
    clean = np.clip(0.5 * arrays[x] - 0.3 * out, -step.clip, step.clip)
    kept_before = [arrays[history][:2], arrays[history][2:], 0.0]
    terms = [arrays[x], out, *kept_before, arrays[noise][2:], clean]
    sums = [sum(f * t for f, t in zip(row, terms, strict=True)) for row in factors]
    np.testing.assert_allclose(new, sums[0], rtol=0, atol=2e-5)
    np.testing.assert_allclose(kept, np.concatenate(sums[1:]), rtol=0, atol=2e-5)
    assert after.reshape(-1)[0] == 2


def _stack(shape: Shape, count: int) -> TensorDesc:
    return TensorDesc(Shape(count * shape.b, shape.h, shape.w, shape.c))


def _size(value: Value) -> tuple[int, ...]:
    shape = value.tensor.shape
    return (shape.b, shape.h, shape.w, shape.c)


@pytest.mark.parametrize("copies", [1, 2])
def test_what_the_network_gets(device: Device, copies: int) -> None:
    graph, x, steps, state = loop(Shape(1, 4, 3, 5))
    y = graph.add("scheduler_input", [x, steps, state], copies=copies)
    data = np.random.default_rng(1).normal(size=(1, 4, 3, 5)).astype(np.float32)
    table = pack_steps([StepFactors(1.0, (1.0,), in_scale=0.25)] * 2)
    have = run(device, graph, {x: data, steps: table, state: state_words(0)}, y)
    np.testing.assert_allclose(have, np.concatenate([data * 0.25] * copies), rtol=1e-6)


@pytest.mark.parametrize("masks", [1, 2])
def test_what_lies_outside_a_mask_goes_back(device: Device, masks: int) -> None:
    shape = Shape(2, 3, 4, 4)
    graph, x, steps, state = loop(shape)
    init, noise = (graph.value(n, TensorDesc(shape), Role.INPUT) for n in ("init", "noise"))
    mask = graph.value("mask", TensorDesc(Shape(masks, 3, 4, 1)), Role.INPUT)
    graph.add("inpaint_blend", [x, init, noise, mask, steps, state], outputs=[])
    rng = np.random.default_rng(2)
    arrays = {v: rng.normal(size=_size(v)).astype(np.float32) for v in (x, init, noise)}
    arrays[mask] = rng.integers(0, 2, _size(mask)).astype(np.float32)
    table = pack_steps([StepFactors(1.0, (1.0,), init_scale=0.5, noise_scale=2.0)] * 2)
    have = run(device, graph, {**arrays, steps: table, state: state_words(0)}, x)
    kept = 0.5 * arrays[init] + 2.0 * arrays[noise]
    np.testing.assert_allclose(have, np.where(arrays[mask] > 0, arrays[x], kept), atol=1e-5)


def test_a_step_that_keeps_too_much_is_refused() -> None:
    with pytest.raises(ValueError, match="keeps at most 3 sums of 7"):
        pack_steps([StepFactors(0.0, (1.0,), [(1.0,)] * 4)])
    graph, x, steps, state = loop(Shape(1, 2, 2, 4))
    model = graph.value("model", TensorDesc(Shape(1, 2, 2, 3)), Role.INPUT)
    with pytest.raises(GraphError, match="or two of them"):
        graph.add("scheduler_step", [x, model, steps, state], outputs=[])


def test_a_picture_becomes_bytes(device: Device) -> None:
    graph = Graph("test")
    x = graph.value("x", TensorDesc(Shape(2, 5, 3, 3)), Role.INPUT)
    rgba = graph.add("to_rgba", [x])
    data = np.random.default_rng(1).normal(0, 0.8, (2, 5, 3, 3)).astype(np.float32)
    data[1, 4, 2, 1], data[0, 0, 0, 0] = np.inf, np.nan
    have = preview.unpack_rgba(run(device, graph, {x: data}, rgba), 2, 5, 3)
    good = np.isfinite(data).all(axis=-1)
    want = np.round(np.clip(data[good].astype(np.float64) * 127.5 + 127.5, 0, 255))
    assert np.abs(have[good][:, :3].astype(int) - want).max() <= 1
    assert (have[..., 3] == np.where(good, 255, 0)).all()


@pytest.mark.parametrize("channels", [4, 6])
def test_latents_become_a_preview(device: Device, channels: int) -> None:
    graph = Graph("test")
    x = graph.value("x", TensorDesc(Shape(1, 5, 4, channels)), Role.INPUT)
    factors = graph.value("factors", vector(4 * channels + 4), Role.WEIGHT)
    rgba = graph.add("to_rgba", [x, factors])
    rng = np.random.default_rng(3)
    data = rng.normal(size=(1, 5, 4, channels)).astype(np.float32)
    matrix, offset = rng.normal(0, 0.3, (3, channels)), rng.normal(0, 0.1, 3)
    words = run(device, graph, {x: data, factors: preview.pack_factors(matrix, offset)}, rgba)
    have = preview.unpack_rgba(words, 1, 5, 4)
    want = np.clip((data @ matrix.T + offset) * 127.5 + 127.5, 0, 255)
    assert np.abs(have[..., :3] - want).max() <= 1


@pytest.mark.parametrize("rows", [1, 2])
def test_a_shift_is_added_to_every_pixel(device: Device, rows: int) -> None:
    graph = Graph("test")
    x = graph.value("x", TensorDesc(Shape(2, 3, 4, 6)), Role.INPUT)
    shift = graph.value("shift", TensorDesc(Shape(w=rows, c=6)), Role.INPUT)
    y = graph.add("add_shift", [x, shift])
    rng = np.random.default_rng(1)
    data, more = rng.normal(size=(2, 3, 4, 6)), rng.normal(size=(rows, 6))
    have = run(device, graph, {x: data, shift: more}, y)
    np.testing.assert_allclose(have, data + more[:, None, None], atol=1e-5)


def test_a_residual_block_means_the_same_fused(full: Device) -> None:
    graph = Graph("block")
    planes: dict[Value, tuple[np.ndarray, np.ndarray]] = {}
    inputs: dict[Value, np.ndarray] = {}
    rng = np.random.default_rng(8)

    def weight(name: str, rows: int, cols: int) -> Value:
        made = graph.value(name, weight_desc(Quant.F16, rows, cols), Role.WEIGHT)
        raw = quantise(rng.normal(0, 0.1, (rows, cols)).astype(np.float32), Quant.F16)
        packed = pack(raw, Quant.F16, cols)
        planes[made] = (packed.codes, packed.scales)
        return made

    def plain(name: str, desc: TensorDesc) -> Value:
        made = graph.value(name, desc, Role.INPUT)
        inputs[made] = rng.normal(size=_size(made)).astype(np.float32)
        return made

    def norm(x: Value, name: str) -> Value:
        parts = [plain(f"{name}.{p}", vector(x.tensor.shape.c)) for p in "gb"]
        return graph.add("group_norm", [x, *parts], groups=4, eps=1e-5, act="silu")

    x, skip = (plain(name, TensorDesc(Shape(2, 6, 5, 16))) for name in ("x", "skip"))
    both = graph.add("concat", [x, skip])
    inner = graph.add("conv2d", [norm(both, "n1"), weight("w1", 24, 288)], kernel=3, padding=1)
    inner = graph.add("add_shift", [inner, plain("t", TensorDesc(Shape(w=2, c=24)))])
    inner = graph.add("conv2d", [norm(inner, "n2"), weight("w2", 24, 216)], kernel=3, padding=1)
    short = graph.add("conv2d", [both, weight("ws", 24, 32)], kernel=1)
    y = graph.value("y", TensorDesc(Shape(2, 6, 5, 24)), Role.OUTPUT)
    graph.add("add", [short, inner], outputs=[y])
    results: list[np.ndarray] = []
    counts: list[int] = []
    for without in (frozenset[str](), frozenset({"fusion"})):
        lowered = lower_graph(graph, full.caps.switched(without))
        counts.append(len(lowered.dispatches))
        results += run_once(full, lowered.dispatches, inputs, planes, [y])
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-4)
    assert counts[0] < counts[1]
