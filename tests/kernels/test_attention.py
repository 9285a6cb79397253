"""Attention over the KV cache against numpy in float64."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from kernels.kernel_nodes import PLACES, close, make_node, rows_of, run, value

from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.gpu.device import Device
from engine.graph.node import GraphError, Node, Role, Value
from engine.kernels import attention
from engine.kernels.attention_prefill import FlashVariant, MatrixVariant
from engine.kernels.base import Dispatch, Shader, generate
from engine.kernels.state import WORDS, pack_state
from engine.tensor.descriptor import DType, Shape, Storage, TensorDesc


@dataclass(frozen=True)
class Case:
    """Sizes of one attention node, and the state that it runs in."""

    tokens: int = 1
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    position: int = 40
    count: int = 1
    positions: int = 64
    window: int | None = None
    softcap: float | None = None
    cache: DType = DType.F32
    dtype: DType = DType.F32
    storage: Storage = Storage.BUFFER
    spread: float = 1.0


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, case: Case) -> np.ndarray:
    """``[count, heads, head_dim]`` of q ``[tokens, heads, head_dim]`` and caches, float64."""
    scores = np.einsum("thd,hpd->thp", q, np.repeat(k, case.heads // case.kv_heads, 0))
    scores *= case.head_dim**-0.5
    if case.softcap:
        scores = case.softcap * np.tanh(scores / case.softcap)
    own = case.position + np.arange(case.tokens)[:, None, None]
    rows = np.arange(case.positions)
    seen = rows <= own
    if case.window:
        seen &= rows > own - case.window
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = np.einsum("thp,hpd->thd", weights, np.repeat(v, case.heads // case.kv_heads, 0))
    return mixed[: case.count]


def build(case: Case) -> tuple[Node, dict[Value, np.ndarray], np.ndarray]:
    """The node, its inputs, and what it should give."""
    rng = np.random.default_rng(11)
    h, k, d = case.heads, case.kv_heads, case.head_dim
    q = value("q", rows_of(case.tokens, h * d, case.dtype).with_storage(case.storage))
    o = value("o", rows_of(case.tokens, h * d, case.dtype).with_storage(case.storage))
    cache = TensorDesc(Shape(h=k, w=case.positions, c=d), case.cache)
    caches = value("k", cache, Role.CACHE), value("v", cache, Role.CACHE)
    state = value("state", TensorDesc(Shape(c=WORDS), DType.U32), Role.STATE)
    node = make_node(
        "attention",
        {"q": q, "k_cache": caches[0], "v_cache": caches[1], "state": state},
        [o],
        heads=h,
        kv_heads=k,
        head_dim=d,
        scale=d**-0.5,
        sequence_max=case.positions,
        window=case.window,
        softcap=case.softcap,
    )
    stored = np.float16 if case.cache is DType.F16 else np.float32
    data_q = rng.normal(0, case.spread, (case.tokens, h, d))
    data_q = data_q.astype(np.float16 if case.dtype is DType.F16 else np.float32)
    data_k = rng.normal(0, case.spread, (k, case.positions, d)).astype(stored)
    data_v = rng.normal(size=(k, case.positions, d)).astype(stored)
    # What lies past the sequence is left over from an earlier one, and must not matter.
    data_v[:, case.position + case.count :] = 1000.0
    inputs = {q: data_q, caches[0]: data_k, caches[1]: data_v}
    inputs[state] = pack_state(position=case.position, count=case.count)
    wide = (part.astype(np.float64) for part in (data_q, data_k, data_v))
    return node, inputs, reference(*wide, case)


def check(
    device: Device, case: Case, loose: float = 4.0, kind: str | None = None, most: int = 1
) -> None:
    """The best variants against numpy; with ``kind``, those of another kind of device."""
    node, inputs, want = build(case)
    caps = replace(device.caps, kind=kind or device.caps.kind)
    half = DType.F16 in (case.dtype, case.cache) and case.tokens > 1
    precise = DType.F16 if half or case.dtype is DType.F16 else DType.F32
    for name, dispatches in list(attention.variants(node, caps).items())[:most]:
        (have,) = run(device, dispatches, inputs, [node.output])
        try:
            close(have[: case.count].reshape(want.shape), want, precise, loose)
        except AssertionError as error:
            raise AssertionError(f"variant {name}: {error}") from error


HEADS = [(6, 2), (1, 1), (5, 1), (8, 2), (12, 1)]


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_decode_shares_kv_heads(full: Device, heads: int, kv_heads: int) -> None:
    check(full, Case(heads=heads, kv_heads=kv_heads))


@pytest.mark.parametrize("head_dim", [4, 12, 80, 256])
def test_decode_head_sizes(full: Device, head_dim: int) -> None:
    check(full, Case(head_dim=head_dim))


@pytest.mark.parametrize("position", [0, 1, 31, 32, 63, 255, 299])
def test_decode_lengths(full: Device, position: int) -> None:
    check(full, Case(position=position, positions=300))


def test_decode_devices(device: Device) -> None:
    check(device, Case(heads=4, kv_heads=1, head_dim=64, position=99, positions=100), most=9)


@pytest.mark.parametrize("window", [1, 7, 1000])
def test_decode_window(full: Device, window: int) -> None:
    check(full, Case(window=window, position=150, positions=200))


def test_decode_softcap(full: Device) -> None:
    check(full, Case(softcap=3.0, spread=3.0))


def test_decode_of_large_scores(full: Device) -> None:
    check(full, Case(spread=12.0), loose=40)


@pytest.mark.parametrize(("storage", "dtype"), PLACES)
def test_decode_storages(full: Device, storage: Storage, dtype: DType) -> None:
    check(full, Case(storage=storage, dtype=dtype, cache=DType.F16))


PREFILL = Case(tokens=21, count=21, position=5)


def prefill(**changes: object) -> Case:
    """A case of several tokens."""
    return Case(**{**PREFILL.__dict__, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_prefill_shares_kv_heads(full: Device, heads: int, kv_heads: int) -> None:
    check(full, prefill(heads=heads, kv_heads=kv_heads))


@pytest.mark.parametrize("head_dim", [4, 12, 80, 128])
def test_prefill_head_sizes(full: Device, head_dim: int) -> None:
    check(full, prefill(head_dim=head_dim, tokens=9, count=9))


@pytest.mark.parametrize(("position", "tokens", "count"), [(0, 2, 2), (0, 70, 70), (30, 33, 1)])
def test_prefill_lengths(full: Device, position: int, tokens: int, count: int) -> None:
    check(full, prefill(position=position, tokens=tokens, count=count, positions=128))


def test_prefill_devices(device: Device) -> None:
    cache = DType.F16 if device.caps.f16 else DType.F32
    check(device, prefill(heads=3, kv_heads=1, head_dim=64, cache=cache), most=9)


@pytest.mark.parametrize("window", [1, 7])
def test_prefill_window(full: Device, window: int) -> None:
    check(full, prefill(window=window, position=40))


def test_prefill_softcap(full: Device) -> None:
    check(full, prefill(softcap=3.0, spread=3.0))


@pytest.mark.parametrize(("storage", "dtype"), PLACES)
def test_prefill_storages(full: Device, storage: Storage, dtype: DType) -> None:
    check(full, prefill(storage=storage, dtype=dtype, cache=DType.F16))


GPU_CASES = [
    Case(heads=6, kv_heads=2, head_dim=64, position=299, positions=300, cache=DType.F16),
    Case(heads=4, kv_heads=1, head_dim=80, position=130, positions=200, window=70, softcap=4.0),
    prefill(tokens=40, count=33, head_dim=64, cache=DType.F16, dtype=DType.F16),
    prefill(tokens=9, count=9, heads=5, kv_heads=1, head_dim=80, window=8, softcap=4.0),
    prefill(tokens=5, count=4, heads=1, kv_heads=1, head_dim=4, position=0),
]


@pytest.mark.parametrize("case", GPU_CASES, ids=["f16", "odd", "f16 rows", "odd rows", "tiny rows"])
def test_variants_for_real_gpus(full: Device, case: Case) -> None:
    check(full, case, kind="discrete", most=9 if case.cache is DType.F16 else 2)


@pytest.mark.parametrize("case", [GPU_CASES[0], GPU_CASES[3]], ids=["decode", "prefill"])
def test_variants_for_real_gpus_on_lesser_devices(device: Device, case: Case) -> None:
    check(device, replace(case, cache=DType.F32), kind="integrated")


# Small blocks compile fast on a software device: rows by shuffles, by memory, tiles taking turns.
FLASH = [
    FlashVariant(8, 16, 2, 4, run=16),
    FlashVariant(8, 32, 4, 4),
    FlashVariant(16, 32, 4, 8, shared_tile=True),
]
FLASH_CASES = {
    "plain": prefill(tokens=40, count=33, head_dim=64),
    "odd rows": prefill(tokens=9, count=9, heads=5, kv_heads=1, head_dim=80, window=8, softcap=4.0),
    "tiny": prefill(tokens=5, count=4, heads=1, kv_heads=1, head_dim=4, position=0),
    "long": prefill(tokens=6, count=6, position=90, positions=96, window=40, dtype=DType.F16),
    "large scores": prefill(tokens=12, count=12, spread=4.0),
}


@pytest.mark.parametrize("way", FLASH, ids=lambda way: way.name)
@pytest.mark.parametrize("case", FLASH_CASES.values(), ids=FLASH_CASES)
def test_products_in_f16(full: Device, case: Case, way: FlashVariant) -> None:
    node, inputs, want = build(replace(case, cache=DType.F16))
    (have,) = run(full, way.lower(node, full.caps), inputs, [node.output])
    loose = 4.0 if case.spread == 1.0 else 40.0
    close(have[: case.count].reshape(want.shape), want, DType.F16, loose)


#: Matrix units of 8x4x8 as plain code: every lane does the whole product and stores the same.
#: state[15] is 0; no compiler knows, so none unrolls the loops.
PRODUCT = """
fn load_right(at: u32, by_columns: bool, pitch: u32) -> Right {
    var r: Right;  // [k = 8][n = 4]
    for (var i = 0u; i < 32u + state[15]; i++) {
        let steps = select(vec2<u32>(pitch, 1u), vec2<u32>(1u, pitch), by_columns);
        r[i] = f32(tile[at + i / 4u * steps.x + i % 4u * steps.y]);
    }
    return r;
}
fn multiply(a: Left, b: Right, c: Sums) -> Sums {
    var x = a;
    var y = b;
    var r = c;  // [m = 8][n = 4]
    for (var i = 0u; i < 32u + state[15]; i++) {
        for (var j = 0u; j < 8u + state[15]; j++) {
            r[i] += x[i / 4u * 8u + j] * y[j * 4u + i % 4u];
        }
    }
    return r;
}
fn store(at: u32, value: Sums, pitch: u32) {
    var r = value;
    for (var i = 0u; i < 32u + state[15]; i++) { scores[at + i / 4u * pitch + i % 4u] = r[i]; }
}
"""
LOAD_LEFT = """
fn left_of_SOURCE(at: u32, pitch: u32) -> Left {
    var r: Left;  // [m = 8][k = 8]
    for (var i = 0u; i < 64u + state[15]; i++) { r[i] = f32(SOURCE[at + i / 8u * pitch + i % 8u]); }
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
    source = re.sub(r"subgroupMatrixStore\(&scores, (.*?), false, ", r"store(\1, ", source)
    return source + PRODUCT


@pytest.mark.skipif(
    "DRIFTWOOD_SLOW_TESTS" not in os.environ,
    reason="emulated matrix units compile for half a minute",
)
def test_matrix_units(full: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = MatrixShape(8, 4, 8, "f16", "f32")
    caps = replace(full.caps, kind="discrete", matrix=(unit,), subgroup_min=32, subgroup_max=32)
    case = prefill(tokens=35, count=35, head_dim=8, window=9, softcap=3.0, cache=DType.F16)
    node, inputs, want = build(case)

    def plain(dispatch: Dispatch, on: Capabilities) -> Shader:
        shader = generate(dispatch, on)
        return replace(shader, source=emulated(shader.source))

    monkeypatch.setattr("engine.kernels.run.generate", plain)
    (have,) = run(full, MatrixVariant(1, 8).lower(node, caps), inputs, [node.output])
    close(have.reshape(want.shape), want, DType.F16, 4)


def test_matrix_units_are_offered_where_they_are_and_flash_comes_first(full: Device) -> None:
    """On an H200 through Dawn a prefill is faster with flash: 65,600 tokens/s against 29,300."""
    unit = MatrixShape(16, 16, 16, "f16", "f32")
    caps = replace(full.caps, kind="discrete", matrix=(unit,), subgroup_min=32, subgroup_max=32)
    half, _, _ = build(prefill(cache=DType.F16, head_dim=64))
    names = list(attention.variants(half, caps))
    assert names[0].startswith("flash")
    assert any(name.startswith("matrix") for name in names)
    for case in (prefill(head_dim=64), prefill(cache=DType.F16, head_dim=12)):
        node, _, _ = build(case)
        assert not any(name.startswith("matrix") for name in attention.variants(node, caps))


def test_heads_of_odd_width_are_refused(full: Device) -> None:
    with pytest.raises(GraphError, match="multiple of 4"):
        check(full, Case(head_dim=18))


def test_an_unknown_variant_says_which_there_are(full: Device) -> None:
    node, _, _ = build(Case())
    with pytest.raises(GraphError, match="no variant fast here; there are lanes"):
        attention.lower(node, full.caps, "fast")
