"""Rotary positions against their formulas, and what reaches the KV cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from kernels.kernel_nodes import PLACES, close, make_node, rows_of, run, value

from engine.gpu.device import Device
from engine.graph.node import GraphError, Role
from engine.kernels import rope
from engine.kernels.state import WORDS, pack_state
from engine.tensor.descriptor import DType, Shape, Storage, TensorDesc


@dataclass(frozen=True)
class Case:
    """Sizes of one rope_cache node, and the state that it runs in."""

    tokens: int = 3
    heads: int = 3
    kv_heads: int = 1
    head_dim: int = 16
    rope_dim: int = 16
    mode: str = "normal"
    position: int = 2
    count: int = 3
    positions: int = 8
    magnitude: float = 1.0
    normed: bool = False
    dtype: DType = DType.F32
    cache: DType = DType.F32
    storage: Storage = Storage.BUFFER


def rotate(x: np.ndarray, case: Case, freqs: np.ndarray) -> np.ndarray:
    """Rotated heads, f64 ``[tokens, heads, head_dim]``."""
    angle = (case.position + np.arange(case.tokens))[:, None, None] * freqs.astype(np.float64)
    cos, sin = np.cos(angle) * case.magnitude, np.sin(angle) * case.magnitude
    first = slice(0, case.rope_dim, 2) if case.mode == "normal" else slice(0, case.rope_dim // 2)
    second = (
        slice(1, case.rope_dim, 2)
        if case.mode == "normal"
        else slice(case.rope_dim // 2, case.rope_dim)
    )
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def norm(x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
    """RMS norm of each head."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * gain


def check(device: Device, case: Case) -> None:
    """Queries, keys and values of every variant against numpy; other cache rows stay zero."""
    h, k, d = case.heads, case.kv_heads, case.head_dim
    rng = np.random.default_rng(5)
    qkv = value("qkv", rows_of(case.tokens, (h + 2 * k) * d, case.dtype).with_storage(case.storage))
    cache = TensorDesc(Shape(h=k, w=case.positions, c=d), case.cache)
    k_cache, v_cache = value("k", cache, Role.CACHE), value("v", cache, Role.CACHE)
    freqs = value("freqs", TensorDesc(Shape(c=max(case.rope_dim // 2, 1))))
    state = value("state", TensorDesc(Shape(c=WORDS), DType.U32), Role.STATE)
    q = value("q", rows_of(case.tokens, h * d, case.dtype).with_storage(case.storage))
    inputs = {"qkv": qkv, "k_cache": k_cache, "v_cache": v_cache, "rope_freqs": freqs}
    inputs["state"] = state
    inverse, _ = rope.rope_frequencies(rope_dim=case.rope_dim, base=100.0)
    x = rng.normal(size=(case.tokens, h + 2 * k, d)).astype(
        np.float16 if case.dtype is DType.F16 else np.float32
    )
    data = {qkv: x, state: pack_state(position=case.position, count=case.count)}
    if case.rope_dim:
        data[freqs] = inverse
    gains = rng.normal(1, 0.1, (2, d)).astype(np.float32)
    if case.normed:
        for name, gain in zip(("q_gain", "k_gain"), gains, strict=True):
            inputs[name] = value(name, TensorDesc(Shape(c=d)))
            data[inputs[name]] = gain
    node = make_node(
        "rope_cache",
        inputs,
        [q],
        heads=h,
        kv_heads=k,
        head_dim=d,
        rope_dim=case.rope_dim,
        mode=case.mode,
        magnitude=case.magnitude,
        norm_eps=1e-3,
    )
    wide = x.astype(np.float64)
    want_q, want_k = wide[:, :h], wide[:, h : h + k]
    if case.normed:
        want_q, want_k = norm(want_q, gains[0], 1e-3), norm(want_k, gains[1], 1e-3)
    want_q, want_k = rotate(want_q, case, inverse), rotate(want_k, case, inverse)
    caches = np.zeros((2, k, case.positions, d))
    kept = max(0, min(case.count, case.positions - case.position))
    where = slice(case.position, case.position + kept)
    caches[0, :, where] = want_k[:kept].transpose(1, 0, 2)
    caches[1, :, where] = wide[:kept, h + k :].transpose(1, 0, 2)
    precise = DType.F16 if DType.F16 in (case.dtype, case.cache) else DType.F32
    for dispatches in rope.variants(node, device.caps).values():
        have_q, have_k, have_v = run(device, dispatches, data, [q, k_cache, v_cache])
        close(have_q.reshape(want_q.shape), want_q, case.dtype, 4)
        close(have_k.reshape(caches[0].shape), caches[0], precise, 4)
        close(have_v.reshape(caches[1].shape), caches[1], precise)


@pytest.mark.parametrize("mode", ["normal", "neox"])
@pytest.mark.parametrize("rope_dim", [16, 12, 6, 0])
def test_modes_and_partial_rotation(full: Device, mode: str, rope_dim: int) -> None:
    check(full, Case(mode=mode, rope_dim=rope_dim))


def test_devices(device: Device) -> None:
    check(device, Case(mode="neox", head_dim=64, rope_dim=64, heads=9, kv_heads=3, normed=True))


def test_normed_heads(full: Device) -> None:
    check(full, Case(normed=True, rope_dim=12))


def test_decode_of_one_token(full: Device) -> None:
    check(full, Case(tokens=1, count=1, position=7, heads=8, kv_heads=2, head_dim=32, rope_dim=32))


@pytest.mark.parametrize(("position", "count"), [(0, 1), (5, 2), (6, 3), (8, 3), (0, 0)])
def test_only_valid_rows_inside_the_cache_are_written(
    full: Device, position: int, count: int
) -> None:
    check(full, Case(position=position, count=count))


def test_far_positions_keep_their_precision(full: Device) -> None:
    check(full, Case(position=1000, positions=1004, head_dim=4, rope_dim=4))


def test_magnitude_scales_rotated_channels_only(full: Device) -> None:
    check(full, Case(rope_dim=8, magnitude=1.25))


@pytest.mark.parametrize(("storage", "dtype"), PLACES)
def test_storages(full: Device, storage: Storage, dtype: DType) -> None:
    check(full, Case(storage=storage, dtype=dtype, cache=DType.F16))


def test_heads_of_odd_width_are_refused(full: Device) -> None:
    with pytest.raises(GraphError, match="multiple of 4"):
        check(full, Case(head_dim=18, rope_dim=16))


def frequencies(**settings: object) -> np.ndarray:
    """Float64 frequencies, for comparisons."""
    return rope.rope_frequencies(**settings)[0].astype(np.float64)  # type: ignore[arg-type]


def test_plain_frequencies() -> None:
    want = [10000 ** (-2 * i / 8) for i in range(4)]
    np.testing.assert_allclose(frequencies(rope_dim=8, base=10000.0), want, rtol=1e-7)


def test_linear_scaling_divides() -> None:
    plain = frequencies(rope_dim=8, base=500.0)
    scaled = frequencies(rope_dim=8, base=500.0, kind="linear", factor=4.0)
    np.testing.assert_allclose(scaled, plain / 4, rtol=1e-7)


def test_factors_divide() -> None:
    plain = frequencies(rope_dim=8, base=500.0)
    divisors = np.array([1.0, 2.0, 4.0, 32.0])
    have = frequencies(rope_dim=8, base=500.0, factors=divisors)
    np.testing.assert_allclose(have, plain / divisors, rtol=1e-7)


def test_llama3_factors_follow_the_published_loop() -> None:
    """Frequency by frequency, as the model's own code states it."""
    base, dim, factor, low, high, original = 500000.0, 128, 32.0, 1.0, 4.0, 8192
    have = rope.llama3_factors(
        rope_dim=dim, base=base, factor=factor, low=low, high=high, original_context=original
    )
    for i in range(dim // 2):
        freq = base ** (-2 * i / dim)
        wavelength = 2 * math.pi / freq
        if wavelength < original / high:
            want = freq
        elif wavelength > original / low:
            want = freq / factor
        else:
            smooth = (original / wavelength - low) / (high - low)
            want = (1 - smooth) * freq / factor + smooth * freq
        assert freq / have[i] == pytest.approx(want, rel=1e-12)


def test_yarn_keeps_fast_pairs_stretches_slow_ones_and_grows() -> None:
    dim, base, original, factor = 64, 10000.0, 2048, 8.0
    plain = frequencies(rope_dim=dim, base=base)
    have, magnitude = rope.rope_frequencies(
        rope_dim=dim, base=base, kind="yarn", factor=factor, original_context=original
    )
    turns = original * plain / (2 * math.pi)
    fast, slow = turns > 40, turns < 0.8
    np.testing.assert_allclose(have[fast], plain[fast], rtol=1e-6)
    np.testing.assert_allclose(have[slow], plain[slow] / factor, rtol=1e-6)
    assert np.all(np.diff(have) < 0)
    assert magnitude == pytest.approx(1 + 0.1 * math.log(factor))


def test_yarn_at_one_pair_by_hand() -> None:
    """dim 8, base 10000, 512 tokens: bounds 0.4 -> 0 and 1.9 -> 2, so pair 1 is half kept."""
    have = frequencies(rope_dim=8, base=10000.0, kind="yarn", factor=4.0, original_context=512)
    assert have[1] == pytest.approx(0.1 * (0.5 + 0.5 / 4), rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "su"}, "no rope scaling"),
        ({"rope_dim": 7}, "must be even"),
        ({"factors": np.ones(3)}, "3 rope factors"),
    ],
)
def test_wrong_settings_say_so(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        frequencies(**{"rope_dim": 8, "base": 10000.0, **settings})
