"""The self-test of an adapter and driver: a kernel must prove itself before it may run.

The first time a device (and a weight kind) is seen, every kernel that would be used is run on a
small shape and compared with numpy. Where the chosen variant is wrong, all variants of its family
are tested, the wrong ones are excluded, remembered, and named by the doctor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.formats.packed import pack, packed_words
from engine.formats.quants import Quant, dequantise, quantise
from engine.gpu.device import Device
from engine.gpu.errors import GpuError, OutOfMemoryError, ShaderError
from engine.gpu.findings import Findings
from engine.graph.graph import Graph
from engine.graph.node import GraphError, Node, Role, Value
from engine.kernels import state as run_state
from engine.kernels.base import Dispatch
from engine.kernels.registry import lower, variants
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix, vector
from engine.tensor.weights import WeightDesc

log = logging.getLogger(__name__)

Planes = tuple[np.ndarray, np.ndarray]
ROWS, COLS, HEADS, KV_HEADS, HEAD_DIM, POSITIONS = 40, 256, 6, 2, 32, 48


@dataclass(frozen=True)
class Case:
    """One node with its inputs and the result that numpy expects, ``[tokens, channels]``.

    ``tolerance`` is a part of the largest expected number.
    """

    node: Node
    inputs: dict[Value, np.ndarray]
    weights: dict[Value, Planes]
    expected: np.ndarray
    tolerance: float


def check_device(
    device: Device,
    kinds: Iterable[Quant],
    findings: Findings,
    progress: Callable[[str, int, int], None],
) -> None:
    """Test what has not been tested on this device yet, and exclude what is wrong.

    Sets ``device.caps`` to capabilities that name the excluded variants.

    Raises:
        ShaderError: every variant of a kernel is wrong here.
    """
    known = findings.of(device.caps)
    tested = set(known.get("tested", []))
    device.caps = replace(device.caps, excluded=frozenset(known.get("excluded", [])))
    groups = {"ops": op_cases} | {
        kind.name: (lambda kind=kind: kind_cases(kind)) for kind in sorted(set(kinds), key=str)
    }
    open_groups = {name: make for name, make in groups.items() if name not in tested}
    for done, (name, make) in enumerate(open_groups.items()):
        progress("testing", done, len(open_groups))
        for case in make():
            _check(device, case)
        tested.add(name)
    if open_groups:
        findings.remember(device.caps, tested=sorted(tested), excluded=sorted(device.caps.excluded))


def _check(device: Device, case: Case) -> None:
    if _passes(device, case, lower(case.node, device.caps)):
        return
    family = case.node.op
    wrong = {
        f"{family}/{name}"
        for name, dispatches in variants(case.node, device.caps).items()
        if not _passes(device, case, dispatches)
    }
    log.warning("self-test: wrong on %s: %s", device.caps.device, ", ".join(sorted(wrong)))
    device.caps = replace(device.caps, excluded=device.caps.excluded | wrong)
    try:
        lower(case.node, device.caps)
    except GraphError as error:
        raise ShaderError(
            f"The driver of {device.caps.device} computes wrong results ({family}). "
            "Update the driver, or choose another device or backend in the settings."
        ) from error


def _passes(device: Device, case: Case, dispatches: Sequence[Dispatch]) -> bool:
    try:
        (have,) = run_once(device, dispatches, case.inputs, case.weights, [case.node.output])
    except OutOfMemoryError:
        raise
    except GpuError as error:
        log.warning("self-test: %s: %s", case.node.op, error)
        device.check()
        return False
    error = np.abs(have.reshape(case.expected.shape) - case.expected)
    if not np.isfinite(error).all():
        return False
    return float(error.max()) <= case.tolerance * float(np.abs(case.expected).max())


class _Maker:
    """Makes the values and the random numbers of one case."""

    def __init__(self) -> None:
        self.graph = Graph("selftest")
        self.inputs: dict[Value, np.ndarray] = {}
        self.weights: dict[Value, Planes] = {}
        self._rng = np.random.default_rng(len("driftwood"))

    def tensor(self, name: str, desc: TensorDesc, role: Role = Role.INPUT) -> Value:
        """A random tensor; caches are random too, so that old entries are told from new ones."""
        value = self.graph.value(name, desc, role)
        shape = desc.shape
        full = self._rng.standard_normal((shape.b, shape.h, shape.w, shape.c))
        self.inputs[value] = full.astype(np.float32)
        return value

    def words(self, name: str, words: np.ndarray, role: Role) -> Value:
        """A buffer of u32 words."""
        desc = TensorDesc(Shape(c=len(words)), DType.U32)
        value = self.graph.value(name, desc, role)
        self.inputs[value] = words
        return value

    def weight(self, kind: Quant, rows: int, cols: int) -> tuple[Value, np.ndarray]:
        """A random packed matrix and its exact values, float64 ``[rows, cols]``."""
        raw = quantise((0.3 * self._rng.standard_normal((rows, cols))).astype(np.float32), kind)
        code_words, scale_words = packed_words(kind, cols)
        desc = WeightDesc(rows, cols, kind.name.lower(), code_words, scale_words, (rows,))
        value = self.graph.value("weight", desc, Role.WEIGHT)
        packed = pack(raw, kind, cols)
        self.weights[value] = (packed.codes, packed.scales)
        return value, dequantise(raw, kind, cols).astype(np.float64)

    def array(self, value: Value) -> np.ndarray:
        """A tensor's numbers, float64 ``[rows, channels]``."""
        return self.inputs[value].astype(np.float64).reshape(-1, value.tensor.shape.c)

    def case(self, expected: np.ndarray, tolerance: float) -> Case:
        """The case of the last node added."""
        node = self.graph.nodes[-1]
        return Case(node, self.inputs, self.weights, expected, tolerance)


def kind_cases(kind: Quant) -> Iterator[Case]:
    """The embedding and the products of one weight kind, for one token and for a chunk."""
    make = _Maker()
    weight, exact = make.weight(kind, ROWS, COLS)
    ids = np.array([3, 39, 0, 17], np.uint32)
    tokens = make.words("tokens", ids, Role.INPUT)
    make.graph.add("embedding", [tokens, weight], matrix(4, COLS))
    yield make.case(exact[ids], 1e-5)
    for count, tolerance in ((1, 1e-4), (32, 2e-2)):
        make = _Maker()
        weight, exact = make.weight(kind, ROWS, COLS)
        x = make.tensor("x", matrix(count, COLS))
        make.graph.add("linear", [x, weight], matrix(count, ROWS))
        yield make.case(make.array(x) @ exact.T, tolerance)
    yield _fused_case(kind)


def _fused_case(kind: Quant) -> Case:
    """Norm and gate folded into the product of one token."""
    make = _Maker()
    weight, exact = make.weight(kind, ROWS, COLS)
    x, gain = make.tensor("x", matrix(1, COLS)), make.tensor("gain", vector(COLS), Role.WEIGHT)
    make.graph.add("linear", {"x": x, "weight": weight, "gain": gain}, norm_eps=1e-5, gated="silu")
    numbers = make.array(x)
    normed = numbers / np.sqrt((numbers**2).mean() + 1e-5) * make.array(gain)
    gate, up = np.split(normed @ exact.T, 2, axis=1)
    return make.case(gate / (1 + np.exp(-gate)) * up, 1e-4)


def op_cases() -> Iterator[Case]:
    """Everything that reads no weight."""
    make = _Maker()
    x, gain = make.tensor("x", matrix(3, COLS)), make.tensor("gain", vector(COLS), Role.WEIGHT)
    make.graph.add("rms_norm", [x, gain], eps=1e-5)
    numbers = make.array(x)
    mean = (numbers**2).mean(axis=1, keepdims=True)
    yield make.case(numbers / np.sqrt(mean + 1e-5) * make.array(gain), 1e-4)
    make = _Maker()
    x = make.tensor("x", matrix(3, 64))
    make.graph.add("gated", [x], act="silu")
    gate, up = np.split(make.array(x), 2, axis=1)
    yield make.case(gate / (1 + np.exp(-gate)) * up, 1e-4)
    for count in (1, 16):
        yield _attention_case(count)
        yield _rope_case(count)
    yield _rope_attention_case()


def _state(make: _Maker, position: int, count: int) -> Value:
    words = run_state.pack_state(position=position, count=count)
    return make.words("state", words, Role.STATE)


def _caches(make: _Maker) -> tuple[Value, Value]:
    desc = TensorDesc(Shape(h=KV_HEADS, w=POSITIONS, c=HEAD_DIM))
    return make.tensor("k", desc, Role.CACHE), make.tensor("v", desc, Role.CACHE)


def _attention_case(count: int) -> Case:
    make = _Maker()
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
    make = _Maker()
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
    make = _Maker()
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
