"""Noise schedules: how much noise a training step stands for, and which steps a run visits.

Everything follows diffusers to the rounding: alphas are kept in float32 as its schedulers keep
them, because 1 - alpha loses digits near the end and both sides must lose the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.image.errors import SettingError

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Config = Mapping[str, Any]

ZERO_SNR_ALPHA = 2.0**-24  # in place of 0 at the last training step, so that sigma stays finite
RHO = 7.0  # of Karras et al. 2022
MAX_TRAIN_STEPS = 100_000


def alphas_cumprod(config: Config, defaults: Config) -> Singles:
    """The share of signal (alpha bar) after each training step, float32 ``[train steps]``."""
    betas = _betas(config, defaults)
    if config.get("rescale_betas_zero_snr"):
        betas = _rescale_to_zero_snr(betas)
    alphas = (np.float32(1) - betas).astype(np.float32)
    return np.cumprod(alphas, dtype=np.float64).astype(np.float32)


def _betas(config: Config, defaults: Config) -> Singles:
    def number(key: str) -> float:
        value = config.get(key)
        value = defaults[key] if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise SettingError(f"The model's scheduler says {key} = {str(value)[:40]}, not 0 to 1.")
        return float(value)

    trained = config.get("trained_betas")
    if trained is not None:
        betas = np.asarray(trained, np.float32)
        if betas.ndim != 1 or not 2 <= betas.size <= MAX_TRAIN_STEPS:
            raise SettingError("The model's scheduler has trained_betas that are no list.")
        return betas
    count = train_steps(config)
    kind = config.get("beta_schedule") or defaults["beta_schedule"]
    if kind == "linear":
        return np.linspace(number("beta_start"), number("beta_end"), count).astype(np.float32)
    if kind == "scaled_linear":
        ends = math.sqrt(number("beta_start")), math.sqrt(number("beta_end"))
        return np.square(np.linspace(*ends, count).astype(np.float32))
    if kind == "squaredcos_cap_v2":
        edges = np.cos((np.arange(count + 1) / count + 0.008) / 1.008 * math.pi / 2) ** 2
        return np.minimum(1 - edges[1:] / edges[:-1], 0.999).astype(np.float32)
    raise SettingError(
        f"The model's scheduler has the noise schedule {str(kind)[:40]!r}; linear, scaled_linear "
        "and squaredcos_cap_v2 are run."
    )


def train_steps(config: Config) -> int:
    """How many steps the model was trained with."""
    count = config.get("num_train_timesteps", 1000)
    if type(count) is not int or not 2 <= count <= MAX_TRAIN_STEPS:
        raise SettingError(
            f"The model's scheduler says num_train_timesteps = {str(count)[:40]}; a whole number "
            f"from 2 to {MAX_TRAIN_STEPS:,} is needed."
        )
    return count


def _rescale_to_zero_snr(betas: Singles) -> Singles:
    """Shift and scale so that no signal is left after the last step (arXiv 2305.08891)."""
    alphas = (np.float32(1) - betas).astype(np.float32)
    roots = np.sqrt(np.cumprod(alphas, dtype=np.float64).astype(np.float32))
    first, last = roots[0], roots[-1]
    roots = ((roots - last) * (first / (first - last))).astype(np.float32)
    bars = roots**2
    alphas = np.concatenate([bars[:1], bars[1:] / bars[:-1]])
    return (np.float32(1) - alphas).astype(np.float32)


def train_sigmas(bars: Singles) -> Singles:
    """Noise over signal at each training step, float32 ``[train steps]``, growing."""
    return np.sqrt((np.float32(1) - bars) / bars, dtype=np.float32)


def spaced(config: Config, steps: int, spacing: str, *, whole: bool, extra: int) -> Doubles:
    """Training steps to visit, falling, float64 ``[steps]``.

    ``whole`` rounds those of "linspace"; multistep solvers space for ``extra`` = 1 more step and
    leave the last out.
    """
    count = train_steps(config)
    if spacing == "linspace":
        times = np.linspace(0, count - 1, steps + extra)
        # diffusers makes fractional ones in float32
        times = times.round() if whole else times.astype(np.float32).astype(np.float64)
        return times[::-1][:steps]
    if spacing == "leading":
        offset = _whole(config, "steps_offset")
        ratio = count // (steps + extra)
        return np.arange(steps + extra, dtype=np.float64)[::-1][:steps] * ratio + offset
    if spacing == "trailing":
        times: Doubles = np.arange(count, 0, -count / steps, dtype=np.float64)
        return np.round(times)[:steps] - 1
    raise SettingError(
        f"The model's scheduler has the spacing {str(spacing)[:40]!r}; leading, trailing and "
        "linspace are run."
    )


def _whole(config: Config, key: str) -> int:
    value = config.get(key) or 0
    if type(value) is not int or abs(value) > MAX_TRAIN_STEPS:
        raise SettingError(f"The model's scheduler says {key} = {str(value)[:40]}.")
    return value


def sigmas_at(times: Doubles, sigmas: Singles) -> Doubles:
    """Sigmas at training steps, between them by interpolation."""
    return np.interp(times, np.arange(len(sigmas)), sigmas)


def karras(first: float, last: float, steps: int) -> Doubles:
    """Sigmas from ``first`` down to ``last``, evenly spaced in their 7th root."""
    ramp: Doubles = np.linspace(0, 1, steps)
    high, low = first ** (1 / RHO), last ** (1 / RHO)
    return np.power(high + ramp * (low - high), RHO)


def exponential(first: float, last: float, steps: int) -> Doubles:
    """Sigmas from ``first`` down to ``last``, evenly spaced in their logarithm."""
    return np.exp(np.linspace(math.log(first), math.log(last), steps))


def times_of(sigmas: Doubles, log_sigmas: Doubles) -> Doubles:
    """The training steps (fractional) that have these sigmas."""
    logs = np.log(np.maximum(sigmas, 1e-10))
    low = np.clip(np.searchsorted(log_sigmas, logs, side="right") - 1, 0, len(log_sigmas) - 2)
    weight = (log_sigmas[low] - logs) / (log_sigmas[low] - log_sigmas[low + 1])
    weight = np.clip(weight, 0, 1)
    return (1 - weight) * low + weight * (low + 1)
