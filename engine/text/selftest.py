"""The cases of text for the self-test of an adapter and driver; see engine/kernels/selftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from engine.formats.quants import Quant
from engine.gpu.device import Device
from engine.gpu.findings import Findings
from engine.graph.node import Role, Value
from engine.kernels import selftest
from engine.kernels import state as run_state
from engine.kernels.selftest import Case, Maker
from engine.tensor.descriptor import Shape, TensorDesc, matrix, vector

ROWS, COLS, HEADS, KV_HEADS, HEAD_DIM, POSITIONS = 40, 256, 6, 2, 32, 48


def check_device(
    device: Device,
    kinds: Iterable[Quant],
    findings: Findings,
    progress: Callable[[str, int, int], None],
) -> None:
    """Test what a text model of these weight kinds needs; see the room below."""
    groups = {"ops": op_cases} | {
        kind.name: (lambda kind=kind: kind_cases(kind)) for kind in sorted(set(kinds), key=str)
    }
    selftest.check_device(device, groups, findings, progress)


def kind_cases(kind: Quant) -> Iterator[Case]:
    """The embedding and the products of one weight kind, for one token and for a chunk."""
    make = Maker()
    weight, exact = make.weight(kind, ROWS, COLS)
    ids = np.array([3, 39, 0, 17], np.uint32)
    tokens = make.words("tokens", ids, Role.INPUT)
    make.graph.add("embedding", [tokens, weight], matrix(4, COLS))
    yield make.case(exact[ids], 1e-5)
    for count, tolerance in ((1, 1e-4), (32, 2e-2)):
        make = Maker()
        weight, exact = make.weight(kind, ROWS, COLS)
        x = make.tensor("x", matrix(count, COLS))
        make.graph.add("linear", [x, weight], matrix(count, ROWS))
        yield make.case(make.array(x) @ exact.T, tolerance)
    yield _fused_case(kind)


def _fused_case(kind: Quant) -> Case:
    """Norm and gate folded into the product of one token."""
    make = Maker()
    weight, exact = make.weight(kind, ROWS, COLS)
    x, gain = make.tensor("x", matrix(1, COLS)), make.tensor("gain", vector(COLS), Role.WEIGHT)
    make.graph.add("linear", {"x": x, "weight": weight, "gain": gain}, norm_eps=1e-5, gated="silu")
    numbers = make.array(x)
    normed = numbers / np.sqrt((numbers**2).mean() + 1e-5) * make.array(gain)
    gate, up = np.split(normed @ exact.T, 2, axis=1)
    return make.case(gate / (1 + np.exp(-gate)) * up, 1e-4)


def op_cases() -> Iterator[Case]:
    """Everything that reads no weight."""
    make = Maker()
    x, gain = make.tensor("x", matrix(3, COLS)), make.tensor("gain", vector(COLS), Role.WEIGHT)
    make.graph.add("rms_norm", [x, gain], eps=1e-5)
    numbers = make.array(x)
    mean = (numbers**2).mean(axis=1, keepdims=True)
    yield make.case(numbers / np.sqrt(mean + 1e-5) * make.array(gain), 1e-4)
    make = Maker()
    x = make.tensor("x", matrix(3, 64))
    make.graph.add("gated", [x], act="silu")
    gate, up = np.split(make.array(x), 2, axis=1)
    yield make.case(gate / (1 + np.exp(-gate)) * up, 1e-4)
    for count in (1, 16):
        yield _attention_case(count)
        yield _rope_case(count)
    yield _rope_attention_case()


def _state(make: Maker, position: int, count: int) -> Value:
    words = run_state.pack_state(position=position, count=count)
    return make.words("state", words, Role.STATE)


def _caches(make: Maker) -> tuple[Value, Value]:
    desc = TensorDesc(Shape(h=KV_HEADS, w=POSITIONS, c=HEAD_DIM))
    return make.tensor("k", desc, Role.CACHE), make.tensor("v", desc, Role.CACHE)


def _attention_case(count: int) -> Case:
    make = Maker()
    q = make.tensor("q", matrix(count, HEADS * HEAD_DIM))
    k, v = _caches(make)
    state = _state(make, 20, count)
    make.graph.add(
        "attention", [q, k, v, state], heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM,
        scale=HEAD_DIM**-0.5, sequence_max=POSITIONS,
    )  # fmt: skip
    caches = (make.inputs[each][0].astype(np.float64) for each in (k, v))
    queries = make.array(q).reshape(count, HEADS, HEAD_DIM)
    return make.case(_mixed(queries, *caches).reshape(count, -1), 1e-3)


def _mixed(queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Attention of ``[tokens, heads, channels]`` from position 20 on over both caches."""
    count, shared = len(queries), HEADS // KV_HEADS
    scores = np.einsum("thd,hpd->htp", queries, keys.repeat(shared, 0)) * HEAD_DIM**-0.5
    seen = np.arange(POSITIONS)[None, :] <= 20 + np.arange(count)[:, None]
    scores = np.where(seen[None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("htp,hpd->thd", weights, values.repeat(shared, 0))


def _rope_case(count: int) -> Case:
    make = Maker()
    qkv = make.tensor("qkv", matrix(count, (HEADS + 2 * KV_HEADS) * HEAD_DIM))
    k, v = _caches(make)
    freqs = make.tensor("freqs", vector(HEAD_DIM // 2), Role.WEIGHT)
    make.inputs[freqs] = 100.0 ** -(np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    state = _state(make, 20, count)
    make.graph.add(
        "rope_cache", [qkv, k, v, freqs, state], matrix(count, HEADS * HEAD_DIM), heads=HEADS,
        kv_heads=KV_HEADS, head_dim=HEAD_DIM, rope_dim=HEAD_DIM, mode="normal",
    )  # fmt: skip
    rows = make.array(qkv).reshape(count, -1, HEAD_DIM)
    expected = _turned(rows[:, :HEADS], make.inputs[freqs]).reshape(count, -1)
    return make.case(expected, 1e-3)


def _turned(rows: np.ndarray, freqs: np.ndarray) -> np.ndarray:
    """Heads ``[tokens, heads, channels]`` rotated for the positions from 20 on."""
    pairs = rows.reshape(*rows.shape[:2], HEAD_DIM // 2, 2)
    angles = (20 + np.arange(len(rows)))[:, None, None] * freqs
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], -1).reshape(rows.shape)


def _rope_attention_case() -> Case:
    make = Maker()
    qkv = make.tensor("qkv", matrix(1, (HEADS + 2 * KV_HEADS) * HEAD_DIM))
    k, v = _caches(make)
    freqs = make.tensor("freqs", vector(HEAD_DIM // 2), Role.WEIGHT)
    make.inputs[freqs] = 100.0 ** -(np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    state = _state(make, 20, 1)
    make.graph.add(
        "rope_attention", [qkv, k, v, freqs, state], heads=HEADS, kv_heads=KV_HEADS,
        head_dim=HEAD_DIM, rope_dim=HEAD_DIM, mode="normal", scale=HEAD_DIM**-0.5,
        sequence_max=POSITIONS,
    )  # fmt: skip
    rows = make.array(qkv).reshape(1, -1, HEAD_DIM)
    turned = _turned(rows[:, : HEADS + KV_HEADS], make.inputs[freqs])
    keys, values = (make.inputs[each][0].astype(np.float64) for each in (k, v))
    keys[:, 20], values[:, 20] = turned[0, HEADS:], rows[0, HEADS + KV_HEADS :]
    return make.case(_mixed(turned[:, :HEADS], keys, values).reshape(1, -1), 1e-3)
