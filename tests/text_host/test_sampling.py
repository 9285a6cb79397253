"""The sampler does what its settings say, and its random numbers are fixed for good."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine.text.sampling import (
    HISTORY_WINDOW,
    Sampling,
    SettingError,
    count_history,
    gumbel,
    kept_tokens,
    random_u32,
    sample_reference,
)

ALL = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
HALVES = np.log(np.asarray([0.5, 0.25, 0.125, 0.0625, 0.0625], np.float32))


def pcg3d(x: int, y: int, z: int) -> int:
    """The published hash, one number at a time."""
    x, y, z = ((part * 1664525 + 1013904223) % 2**32 for part in (x, y, z))
    for _ in range(2):
        x = (x + y * z) % 2**32
        y = (y + z * x) % 2**32
        z = (z + x * y) % 2**32
        first, x, y, z = x, x ^ x >> 16, y ^ y >> 16, z ^ z >> 16
    return first


def draws(count: int, logits: Any = HALVES, **settings: Any) -> np.ndarray:
    """Shares of each token among ``count`` draws."""
    sampling = Sampling(**({"temperature": 1.0, "seed": 5} | ALL | settings))
    tokens = [sample_reference(logits, None, sampling, counter) for counter in range(count)]
    return np.bincount(tokens, minlength=len(logits)) / count


def kept(logits: Any = HALVES, **settings: Any) -> list[int]:
    return kept_tokens(logits, Sampling(**(ALL | settings))).tolist()


def greedy(logits: list[float], counts: list[int], **penalties: float) -> int:
    return sample_reference(logits, counts, Sampling(temperature=0, **penalties), 0)


@pytest.mark.parametrize(
    ("seed", "counter", "token"), [(0, 0, 0), (1, 2, 3), (2**32 - 1, 7, 151_000), (12345, 9999, 1)]
)
def test_the_hash_is_the_published_one(seed: int, counter: int, token: int) -> None:
    assert int(random_u32(seed, counter, token)) == pcg3d(seed, counter, token)


def test_the_hash_is_fixed_for_good() -> None:
    assert random_u32(42, 7, np.arange(4)).tolist() == [
        201137412,
        2216239411,
        3360188840,
        629200443,
    ]
    assert random_u32(42, np.arange(3), 5).shape == (3,)


def test_the_hash_is_uniform_in_every_argument() -> None:
    line = np.arange(1 << 16)
    for bits in (random_u32(line, 1, 2), random_u32(1, line, 2), random_u32(1, 2, line)):
        counts = np.bincount(bits >> np.uint32(24), minlength=256)
        chi_squared = float(((counts - 256) ** 2 / 256).sum())
        assert 170 < chi_squared < 350  # 255 degrees of freedom


def test_gumbel_noise_is_gumbel_noise() -> None:
    noise = gumbel(random_u32(3, 1, np.arange(200_000)))
    assert noise.dtype == np.float32
    assert abs(noise.mean() - 0.5772) < 0.01
    assert abs(noise.std() - math.pi / math.sqrt(6)) < 0.01
    ends = gumbel(np.asarray([0, 2**32 - 1], np.uint32))
    assert np.isfinite(ends).all()
    bits = np.arange(0, 2**32, 65_521, dtype=np.uint64).astype(np.uint32)
    exact = -np.log(-np.log1p(-((bits >> np.uint32(9)).astype(np.float64) + 0.5) / 2**23))
    assert np.abs(gumbel(bits) - exact).max() < 4e-6


def test_draws_follow_the_softmax() -> None:
    assert draws(6_000) == pytest.approx(np.exp(HALVES), abs=0.02)


def test_temperature_sharpens_and_flattens() -> None:
    cold = np.exp(HALVES * 2) / np.exp(HALVES * 2).sum()
    assert draws(3_000, temperature=0.5) == pytest.approx(cold, abs=0.03)
    assert draws(500, temperature=1e-3).tolist() == [1, 0, 0, 0, 0]
    assert draws(3_000, temperature=50.0) == pytest.approx(np.full(5, 0.2), abs=0.03)


def test_a_seed_repeats_and_another_differs() -> None:
    def answer(seed: int) -> list[int]:
        sampling = Sampling(seed=seed, temperature=1, **ALL)
        return [sample_reference(np.zeros(1000), None, sampling, step) for step in range(20)]

    assert answer(1) == answer(1)
    assert answer(1) != answer(2)
    assert len(set(answer(1))) > 15


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"top_k": 1}, [0]),
        ({"top_k": 3}, [0, 1, 2]),
        ({"top_k": 4}, [0, 1, 2, 3, 4]),  # equals stay together
        ({"top_k": 99}, [0, 1, 2, 3, 4]),
        ({"top_p": 0.4}, [0]),
        ({"top_p": 0.6}, [0, 1]),
        ({"top_p": 0.76}, [0, 1, 2]),
        ({"top_p": 0.9}, [0, 1, 2, 3, 4]),
        ({"top_p": 1e-6}, [0]),
        ({"min_p": 0.3}, [0, 1]),
        ({"min_p": 1.0}, [0]),
        ({"top_k": 2, "top_p": 0.7}, [0, 1]),  # top-p counts within what top-k left
        ({"top_k": 2, "top_p": 0.66}, [0]),
        ({"top_k": 3, "min_p": 0.4}, [0, 1]),
    ],
)
def test_filters(settings: dict[str, Any], ids: list[int]) -> None:
    assert kept(**settings) == ids


def test_filters_look_at_the_distribution_before_temperature() -> None:
    shares = draws(300, temperature=100.0, top_p=0.6)
    assert set(np.flatnonzero(shares)) == {0, 1}


def test_penalties() -> None:
    assert greedy([2.0, 1.5], [1, 0], repetition_penalty=1.5) == 1
    assert greedy([2.0, 1.0], [1, 0], repetition_penalty=1.5) == 0
    assert greedy([-1.0, -1.5], [1, 0], repetition_penalty=2.0) == 1
    assert greedy([2.0, 1.5], [3, 0], frequency_penalty=0.2) == 1
    assert greedy([2.0, 1.5], [2, 0], frequency_penalty=0.2) == 0
    assert greedy([2.0, 1.5], [1, 0], presence_penalty=0.6) == 1
    assert greedy([2.0, 1.5], [0, 0], presence_penalty=0.6, repetition_penalty=9) == 0


def test_temperature_zero_takes_the_lowest_of_equals() -> None:
    assert greedy([1.0, 3.0, 3.0], [0, 0, 0]) == 1


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_odd_logits_lose(value: float) -> None:
    logits = np.full(50, value, np.float32)
    logits[7] = -3.0
    for temperature in (0.0, 0.8):
        assert sample_reference(logits, None, Sampling(temperature=temperature, seed=1), 0) == 7


def test_an_infinite_logit_wins() -> None:
    logits = np.zeros(50, np.float32)
    logits[9] = np.inf
    assert sample_reference(logits, None, Sampling(seed=1), 0) == 9


def test_history_looks_back_so_far() -> None:
    counts = count_history([9] + [1, 2] * (HISTORY_WINDOW // 2), 10)
    assert counts.tolist() == [0, HISTORY_WINDOW // 2, HISTORY_WINDOW // 2, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"temperature": -0.1}, "temperature must be from 0 to 100, not -0.1"),
        ({"temperature": float("nan")}, "not nan"),
        ({"temperature": "hot"}, "a number from 0 to 100, not 'hot'"),
        ({"temperature": True}, "not True"),
        ({"top_k": -1}, "top_k must be 0 or more, not -1"),
        ({"top_k": 1.5}, "whole number"),
        ({"top_p": 0.0}, "above 0 and at most 1, not 0.0"),
        ({"top_p": 1.1}, "not 1.1"),
        ({"min_p": 2}, "min_p must be from 0 to 1, not 2"),
        ({"repetition_penalty": 0}, "above 0"),
        ({"seed": 2**32}, "seed must be from 0 to 4294967295"),
        ({"max_tokens": 0}, "max_tokens must be 1 or more"),
        ({"stop": ("",)}, "texts that are not empty"),
        ({"stop": "END"}, "list of texts"),
        ({"temprature": 1}, "no sampling setting named 'temprature'"),
    ],
)
def test_settings_are_checked(setting: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Sampling.from_mapping(setting)


def test_settings_from_json() -> None:
    assert Sampling.from_mapping({"stop": ["END"], "seed": 3}) == Sampling(stop=("END",), seed=3)
    assert Sampling.from_mapping({}) == Sampling()
    assert Sampling(seed=3).with_seed().seed == 3
    assert Sampling().with_seed().seed is not None
