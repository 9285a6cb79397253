"""Decode attention on subgroups, alone and with the rotation in it, against numpy in float64."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from kernels.kernel_nodes import PLACES, close, make_node, rows_of, run, value

from engine.gpu.capabilities import Capabilities
from engine.gpu.device import Device
from engine.graph.node import GraphError, Node, Role, Value
from engine.kernels import attention_decode_rope, attention_decode_subgroups, rope
from engine.kernels.state import WORDS, pack_state
from engine.tensor.descriptor import DType, Shape, Storage, TensorDesc

from .tint import AMD, INTEL, NVIDIA, PLAIN, compile_with_tint


@dataclass(frozen=True)
class Case:
    """Sizes of one rope_attention node, and the state that it runs in."""

    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    rope_dim: int | None = None
    mode: str = "normal"
    position: int = 40
    count: int = 1
    positions: int = 64
    window: int | None = None
    softcap: float | None = None
    normed: bool = False
    magnitude: float = 1.0
    cache: DType = DType.F32
    dtype: DType = DType.F32
    storage: Storage = Storage.BUFFER
    spread: float = 1.0


@dataclass
class Problem:
    """The node, its inputs, and what it should give."""

    node: Node
    inputs: dict[Value, np.ndarray]
    output: np.ndarray
    caches: tuple[np.ndarray, np.ndarray]
    values: dict[str, Value] = field(default_factory=dict[str, Value])


def rotate(x: np.ndarray, case: Case, freqs: np.ndarray) -> np.ndarray:
    """Heads ``[heads, head_dim]`` after the rotation, float64."""
    rotated = case.head_dim if case.rope_dim is None else case.rope_dim
    angle = case.position * freqs.astype(np.float64)
    cos, sin = np.cos(angle) * case.magnitude, np.sin(angle) * case.magnitude
    if case.mode == "normal":
        first, second = slice(0, rotated, 2), slice(1, rotated, 2)
    else:
        first, second = slice(0, rotated // 2), slice(rotated // 2, rotated)
    out = x.copy()
    out[:, first] = x[:, first] * cos - x[:, second] * sin
    out[:, second] = x[:, first] * sin + x[:, second] * cos
    return out


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, case: Case) -> np.ndarray:
    """``[heads, head_dim]`` of rotated queries over whole caches, float64."""
    shared = case.heads // case.kv_heads
    scores = np.einsum("hd,hpd->hp", q, np.repeat(k, shared, 0)) * case.head_dim**-0.5
    if case.softcap:
        scores = case.softcap * np.tanh(scores / case.softcap)
    rows = np.arange(case.positions)
    seen = rows <= case.position
    if case.window:
        seen &= rows > case.position - case.window
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hp,hpd->hd", weights, np.repeat(v, shared, 0))


def build(case: Case) -> Problem:
    """The node and numbers of a case."""
    rng = np.random.default_rng(7)
    h, k, d = case.heads, case.kv_heads, case.head_dim
    rope_dim = d if case.rope_dim is None else case.rope_dim
    cache = TensorDesc(Shape(h=k, w=case.positions, c=d), case.cache)
    inverse, _ = rope.rope_frequencies(rope_dim=rope_dim, base=100.0)
    named = {
        "qkv": value("qkv", rows_of(1, (h + 2 * k) * d, case.dtype).with_storage(case.storage)),
        "k_cache": value("k", cache, Role.CACHE),
        "v_cache": value("v", cache, Role.CACHE),
        "rope_freqs": value("freqs", TensorDesc(Shape(c=max(rope_dim // 2, 1)))),
        "state": value("state", TensorDesc(Shape(c=WORDS), DType.U32), Role.STATE),
    }
    x = rng.normal(0, case.spread, (h + 2 * k, d)).astype(
        np.float16 if case.dtype is DType.F16 else np.float32
    )
    stored = np.float16 if case.cache is DType.F16 else np.float32
    caches = rng.normal(size=(2, k, case.positions, d)).astype(stored)
    # What lies past the sequence is left over from an earlier one, and must not matter.
    caches[:, :, case.position :] = 1000.0
    data = {
        named["qkv"]: x[None],
        named["k_cache"]: caches[0],
        named["v_cache"]: caches[1],
        named["state"]: pack_state(position=case.position, count=case.count),
    }
    if rope_dim:
        data[named["rope_freqs"]] = inverse
    gains = rng.normal(1, 0.1, (2, d)).astype(np.float32)
    if case.normed:
        for name, gain in zip(("q_gain", "k_gain"), gains, strict=True):
            named[name] = value(name, TensorDesc(Shape(c=d)))
            data[named[name]] = gain
    o = value("o", rows_of(1, h * d, case.dtype).with_storage(case.storage))
    node = make_node(
        "rope_attention",
        named,
        [o],
        heads=h,
        kv_heads=k,
        head_dim=d,
        rope_dim=rope_dim,
        mode=case.mode,
        magnitude=case.magnitude,
        norm_eps=1e-3,
        scale=d**-0.5,
        sequence_max=case.positions,
        window=case.window,
        softcap=case.softcap,
    )
    wide = x.astype(np.float64)
    queries, keys = wide[:h], wide[h : h + k]
    if case.normed:
        queries, keys = (
            part / np.sqrt((part**2).mean(-1, keepdims=True) + 1e-3) * gain
            for part, gain in zip((queries, keys), gains, strict=True)
        )
    want = caches.astype(np.float64)
    if case.count and case.position < case.positions:
        want[0, :, case.position] = rotate(keys, case, inverse)
        want[1, :, case.position] = wide[h + k :]
    output = attend(rotate(queries, case, inverse), want[0], want[1], case)
    return Problem(node, data, output, (want[0], want[1]), named)


def pretended(device: Device) -> Capabilities:
    """The device as if it were a card of its own kind: then its subgroups are used."""
    return replace(device.caps, kind="discrete")


def check(device: Device, case: Case, loose: float = 4.0, most: int = 1) -> None:
    """The best variants against numpy: what comes out, and what is in the caches afterwards."""
    problem = build(case)
    outputs = [problem.node.output, problem.values["k_cache"], problem.values["v_cache"]]
    precise = DType.F16 if DType.F16 in (case.dtype, case.cache) else DType.F32
    found = attention_decode_rope.variants(problem.node, pretended(device))
    for name, dispatches in list(found.items())[:most]:
        have, *caches = run(device, dispatches, problem.inputs, outputs)
        try:
            close(have.reshape(problem.output.shape), problem.output, precise, loose)
            for stored, want in zip(caches, problem.caches, strict=True):
                part = stored.reshape(want.shape)
                rows = [row for row in range(case.positions) if row != case.position]
                np.testing.assert_array_equal(part[:, rows], want[:, rows])
                close(part[:, : case.position + 1], want[:, : case.position + 1], precise, 4)
        except AssertionError as error:
            raise AssertionError(f"variant {name}: {error}") from error


@pytest.mark.parametrize(
    ("heads", "kv_heads"), [(6, 2), (1, 1), (5, 1), (8, 2), (12, 1), (22, 2), (9, 3)]
)
def test_heads_share_kv_heads(full: Device, heads: int, kv_heads: int) -> None:
    check(full, Case(heads=heads, kv_heads=kv_heads))


@pytest.mark.parametrize("cache", [DType.F32, DType.F16])
@pytest.mark.parametrize("head_dim", [4, 12, 32, 72, 80, 128, 256])
def test_head_sizes(full: Device, head_dim: int, cache: DType) -> None:
    check(full, Case(head_dim=head_dim, cache=cache))


@pytest.mark.parametrize("position", [0, 1, 7, 8, 9, 31, 32, 63, 64, 255, 298, 299])
def test_lengths(full: Device, position: int) -> None:
    check(full, Case(position=position, positions=300, cache=DType.F16))


@pytest.mark.parametrize("mode", ["normal", "neox"])
@pytest.mark.parametrize("rope_dim", [32, 24, 12, 6, 0])
def test_modes_and_partial_rotation(full: Device, mode: str, rope_dim: int) -> None:
    check(full, Case(mode=mode, rope_dim=rope_dim, magnitude=1.2))


@pytest.mark.parametrize("mode", ["normal", "neox"])
def test_normalised_heads(full: Device, mode: str) -> None:
    check(full, Case(mode=mode, normed=True, head_dim=64, cache=DType.F16))


@pytest.mark.parametrize("window", [1, 2, 7, 1000])
def test_window(full: Device, window: int) -> None:
    check(full, Case(window=window, position=150, positions=200))


def test_softcap(full: Device) -> None:
    check(full, Case(softcap=3.0, spread=3.0))


def test_large_scores(full: Device) -> None:
    check(full, Case(spread=12.0), loose=400)


@pytest.mark.parametrize("position", [64, 70])
def test_a_full_cache_stays_as_it_is(full: Device, position: int) -> None:
    check(full, Case(position=position))


def test_no_valid_token_writes_nothing(full: Device) -> None:
    problem = build(Case(count=0))
    caches = [problem.values["k_cache"], problem.values["v_cache"]]
    found = attention_decode_rope.lower(problem.node, pretended(full))
    for part, have in zip(caches, run(full, found, problem.inputs, caches), strict=True):
        np.testing.assert_array_equal(have.ravel(), problem.inputs[part].ravel())


@pytest.mark.parametrize(("storage", "dtype"), PLACES)
def test_storages(full: Device, storage: Storage, dtype: DType) -> None:
    check(full, Case(storage=storage, dtype=dtype, cache=DType.F16))


def test_the_best_variants(device: Device) -> None:
    cache = DType.F16 if device.caps.f16 else DType.F32
    case = Case(heads=2, kv_heads=1, head_dim=32, position=99, positions=128, cache=cache)
    check(device, case, most=3)


def test_software_devices_keep_the_two_ops_apart(full: Device) -> None:
    found = attention_decode_rope.variants(build(Case()).node, full.caps)
    assert all(name.startswith("apart-") for name in found)


@pytest.mark.parametrize("caps", [INTEL, PLAIN], ids=["intel", "plain"])
def test_without_one_subgroup_size_the_two_ops_run_apart(caps: Capabilities) -> None:
    found = attention_decode_rope.variants(build(Case()).node, caps)
    assert all(name.startswith("apart-split") for name in found)


def test_a_variant_that_is_not_there_is_named(full: Device) -> None:
    with pytest.raises(GraphError, match="no variant fast here; there are apart-lanes"):
        attention_decode_rope.lower(build(Case()).node, full.caps, "fast")


SHAPES = [
    Case(heads=24, kv_heads=8, head_dim=128, cache=DType.F16, positions=4096),
    Case(heads=32, kv_heads=4, head_dim=256, cache=DType.F16, positions=4096, mode="neox"),
    Case(heads=40, kv_heads=2, head_dim=80, rope_dim=30, mode="neox", normed=True, softcap=5.0),
    Case(heads=8, kv_heads=8, head_dim=12, cache=DType.F16, window=7, rope_dim=0),
]


@pytest.mark.parametrize("caps", [NVIDIA, AMD], ids=["nvidia", "amd"])
@pytest.mark.parametrize("case", SHAPES, ids=["llama", "wide", "odd", "narrow"])
def test_tint_takes_every_variant(caps: Capabilities, case: Case) -> None:
    node = build(case).node
    for dispatches in attention_decode_rope.variants(node, caps).values():
        for dispatch in dispatches:
            compile_with_tint(dispatch, caps)


@pytest.mark.parametrize("caps", [NVIDIA, AMD], ids=["nvidia", "amd"])
@pytest.mark.parametrize("case", SHAPES, ids=["llama", "wide", "odd", "narrow"])
def test_workgroup_memory_and_buffers_are_enough_everywhere(caps: Capabilities, case: Case) -> None:
    node = build(case).node
    small = replace(caps, limits=type(caps.limits)())
    for variant in attention_decode_subgroups.choices(node, small, fused=True):
        split, _ = attention_decode_subgroups.lower(node, small, variant)
        params = split.params
        vectors = params["slices"] * (params["group"] + 2 + params["subs"] * params["group"])
        assert 16 * vectors + 8 * params["subs"] * params["group"] <= 16384
        assert len(split.binds) <= 8
        assert params["lanes"] * params["subs"] <= 256
