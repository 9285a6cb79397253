"""How the next token is chosen: the settings, and a numpy reference of the whole sampler.

The GPU sampler computes the same thing in the same order, from 32-bit arithmetic that is defined
here. In short, for logits l and a history of recent tokens:

1. Penalties. A token that occurs c > 0 times in the history: l = l / r if l > 0, else l * r (r is
   the repetition penalty); then l -= c * frequency_penalty + presence_penalty.
2. Temperature 0: the answer is the largest logit, the lowest id of equals. Done.
3. Filters, each a threshold on the logit, so that equal logits stay or go together:
   top-k keeps logits >= the k-th largest (0: all). top-p takes the softmax of those, adds it up
   from the largest down, and keeps logits >= the one that reaches p (1: all). min-p keeps
   logits >= largest + ln(min_p) (0: all). The largest always stays.
4. Selection: the largest (l - largest) / temperature + gumbel(seed, counter, id), the lowest id of
   equals. That draws from the softmax at that temperature without adding anything up.

``counter`` is the number of tokens generated so far, so a seed gives the same answer however the
work is split.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

HISTORY_WINDOW = 64  # tokens back, prompt included, that the penalties look at
SEED_MAX = 2**32 - 1
_HUGE = float(np.finfo(np.float32).max)


class SettingError(ValueError):
    """A sampling setting is out of range; the text names it, the range and the value."""


@dataclass(frozen=True)
class Sampling:
    """Sampling settings.

    Attributes:
        temperature: 0 always takes the likeliest token; higher is more varied.
        top_k: keep so many of the likeliest tokens (0: all).
        top_p: keep the likeliest tokens that together have this probability (1: all).
        min_p: keep tokens at least this fraction as likely as the likeliest (0: all).
        repetition_penalty: divides the logits of recent tokens (1: off).
        presence_penalty: taken off the logit of every recent token.
        frequency_penalty: taken off once per occurrence.
        seed: 0 to 2^32 - 1, or None for a new one each time.
        max_tokens: end the answer there at the latest.
        stop: texts that end the answer.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 0, 100)
        _check_whole("top_k", self.top_k, 0, None)
        _check_number("top_p", self.top_p, 0, 1, above=True)
        _check_number("min_p", self.min_p, 0, 1)
        _check_number("repetition_penalty", self.repetition_penalty, 0, 100, above=True)
        _check_number("presence_penalty", self.presence_penalty, -100, 100)
        _check_number("frequency_penalty", self.frequency_penalty, -100, 100)
        if self.seed is not None:
            _check_whole("seed", self.seed, 0, SEED_MAX)
        if self.max_tokens is not None:
            _check_whole("max_tokens", self.max_tokens, 1, None)
        object.__setattr__(self, "stop", _stops(self.stop))

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Sampling:
        """Settings from JSON; absent ones keep their default, unknown names are an error."""
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise SettingError(
                f"There is no sampling setting named {unknown[0]!r}. Settings are: "
                + ", ".join(names)
                + "."
            )
        return cls(**cast("dict[str, Any]", dict(values)))

    def with_seed(self) -> Sampling:
        """The same settings with a seed: a fresh one if there was none."""
        if self.seed is not None:
            return self
        return replace(self, seed=secrets.randbits(32))


def random_u32(seed: ArrayLike, counter: ArrayLike, token: ArrayLike) -> NDArray[np.uint32]:
    """A hash of three u32, elementwise: pcg3d of Jarzynski and Olano (2020), first component.

    All arithmetic wraps at 32 bits, so WGSL computes the same with ``vec3<u32>``::

        v = v * 1664525u + 1013904223u;                       // v = (seed, counter, token)
        v.x += v.y * v.z;  v.y += v.z * v.x;  v.z += v.x * v.y;
        v ^= v >> vec3(16u);
        v.x += v.y * v.z;  v.y += v.z * v.x;  v.z += v.x * v.y;
        return v.x;                                           // the last two sums are not needed
    """
    shape = np.broadcast_shapes(np.shape(seed), np.shape(counter), np.shape(token))
    x, y, z = (
        np.broadcast_to(np.asarray(part, np.uint32), shape).reshape(-1) * np.uint32(1664525)
        + np.uint32(1013904223)
        for part in (seed, counter, token)
    )
    x = x + y * z
    y = y + z * x
    z = z + x * y
    x, y, z = (part ^ (part >> np.uint32(16)) for part in (x, y, z))
    return (x + y * z).reshape(shape)


def gumbel(bits: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Standard Gumbel noise from random bits, in f32 steps that a GPU's coarse ``log`` survives.

    v = (f32(bits >> 9) + 0.5) * 2^-23 lies in (0, 1), exact in f32. The noise is -ln(-ln(1 - v)).
    Small v make large noise, and there ln(1 - v) is all rounding (WGSL allows an error of 2^-21);
    below 1/8 its series is used instead: v (1 + v (1/2 + v (1/3 + v (1/4 + v (1/5 + v / 6))))).
    """
    one = np.float32(1)
    v = ((bits >> np.uint32(9)).astype(np.float32) + np.float32(0.5)) * np.float32(2**-23)
    series = np.zeros_like(v)
    for order in range(6, 0, -1):
        series = v * series + one / np.float32(order)
    inner = np.where(v < np.float32(0.125), v * series, -np.log(one - v))
    return -np.log(inner)


def count_history(tokens: Iterable[int], vocab_size: int) -> NDArray[np.int32]:
    """Occurrences [vocab_size] of each token among the last :data:`HISTORY_WINDOW`."""
    recent = np.asarray(list(tokens)[-HISTORY_WINDOW:], np.int64)
    return np.bincount(recent, minlength=vocab_size).astype(np.int32)


def sample_reference(
    logits: ArrayLike, history_counts: ArrayLike | None, sampling: Sampling, counter: int
) -> int:
    """The token that ``sampling`` chooses from ``logits`` [vocabulary].

    ``history_counts`` [vocabulary] says how often each token occurred lately (None: never).
    ``counter`` numbers the tokens of the answer from 0. A logit that is NaN counts as the lowest.
    """
    values = _penalised(np.asarray(logits, np.float32), history_counts, sampling)
    if sampling.temperature == 0:
        return int(np.argmax(values))
    top = values.max()
    keep = values >= _threshold(values, sampling)
    ids = np.flatnonzero(keep)
    seed = 0 if sampling.seed is None else sampling.seed
    noise = gumbel(random_u32(seed, counter, ids))
    score = (values[ids] - top) / np.float32(sampling.temperature) + noise
    return int(ids[np.argmax(score)])


def kept_tokens(logits: ArrayLike, sampling: Sampling) -> NDArray[np.int64]:
    """Ids that pass the filters, ascending (no penalties; for tests of the GPU sampler)."""
    values = _penalised(np.asarray(logits, np.float32), None, sampling)
    return np.flatnonzero(values >= _threshold(values, sampling))


def _penalised(
    logits: NDArray[np.float32], history_counts: ArrayLike | None, sampling: Sampling
) -> NDArray[np.float32]:
    """Step 1; finite afterwards."""
    values: NDArray[np.float32] = np.nan_to_num(logits, nan=-_HUGE, posinf=_HUGE, neginf=-_HUGE)
    if history_counts is None:
        return values
    counts: NDArray[np.float32] = np.asarray(history_counts, np.float32)
    factor = np.float32(sampling.repetition_penalty)
    with np.errstate(over="ignore"):
        punished = np.where(values > 0, values / factor, values * factor)
        punished = punished - counts * np.float32(sampling.frequency_penalty)
        punished = punished - np.float32(sampling.presence_penalty)
    return np.clip(np.where(counts > 0, punished, values), -_HUGE, _HUGE).astype(np.float32)


def _threshold(values: NDArray[np.float32], sampling: Sampling) -> np.float32:
    """The lowest logit that passes top-k, top-p and min-p."""
    ranked: NDArray[np.float32] = np.sort(values)[::-1]
    top = ranked[0]
    threshold = ranked[-1]
    if 0 < sampling.top_k < len(ranked):
        threshold = ranked[sampling.top_k - 1]
        ranked = ranked[ranked >= threshold]
    if sampling.top_p < 1:
        mass = np.cumsum(np.exp((ranked - top).astype(np.float64)))
        place = int(np.count_nonzero(mass < sampling.top_p * mass[-1]))
        threshold = ranked[min(place, len(ranked) - 1)]
    if sampling.min_p > 0:
        least = top + np.float32(math.log(sampling.min_p))
        threshold = least if least > threshold else threshold
    return threshold


def _check_number(
    name: str, value: object, low: float, high: float, *, above: bool = False
) -> None:
    expected = f"{'above' if above else 'from'} {low} {'and at most' if above else 'to'} {high}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingError(f"{name} must be a number {expected}, not {value!r}.")
    if not low <= value <= high or (above and value == low):  # NaN fails the comparison too
        raise SettingError(f"{name} must be {expected}, not {value!r}.")


def _check_whole(name: str, value: object, low: int, high: int | None) -> None:
    expected = f"{low} or more" if high is None else f"from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingError(f"{name} must be a whole number, {expected}, not {value!r}.")
    if value < low or (high is not None and value > high):
        raise SettingError(f"{name} must be {expected}, not {value!r}.")


def _stops(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        stops = cast("list[object] | tuple[object, ...]", value)
        if all(isinstance(stop, str) and stop for stop in stops):
            return tuple(cast("list[str]", list(stops)))
    raise SettingError(f"stop must be a list of texts that are not empty, not {value!r}.")
