"""Sampling steps as linear combinations: one record of 32 numbers for each call of the denoiser.

The state of a run is four latents: ``x`` (the sample), ``prev1`` and ``prev2`` (what a solver
remembers) and ``saved`` (the sample a two-stage step started from). A call feeds the denoiser
``input_scale * x``, gets ``model``, and then

    denoised = clamp(k_x * x + k_m * model, -clip, clip)
    new[r]   = sum over c of rows[r, c] * (x, model, denoised, prev1, prev2, saved, noise)[c]

for r = x, prev1, prev2, saved. ``noise`` is fresh standard normal noise. Every sampler is a choice
of these numbers, so one kernel runs them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("x", "model", "denoised", "prev1", "prev2", "saved", "noise")
ROWS = ("x", "prev1", "prev2", "saved")
RECORD = 4 + len(ROWS) * len(COLUMNS)  # input_scale, k_x, k_m, clip, then the rows
NO_CLIP = 3.0e38

Row = NDArray[np.float64]  # [columns]


def row(**values: float) -> Row:
    """A row with these entries, by the names of its columns."""
    made = np.zeros(len(COLUMNS))
    for name, value in values.items():
        made[COLUMNS.index(name)] = value
    return made


KEEP = {name: row(**{name: 1.0}) for name in ("x", "denoised", "prev1", "saved", "noise")}


@dataclass(frozen=True)
class Call:
    """One call of the denoiser and what follows from it.

    ``level`` is (signal, noise) of the sample before the call: x = signal * clean + noise * noise.
    """

    timestep: float
    input_scale: float
    denoised: tuple[float, float]  # k_x, k_m
    x: Row
    level: tuple[float, float]
    prev1: Row = field(default_factory=lambda: row())
    prev2: Row = field(default_factory=lambda: row())
    saved: Row = field(default_factory=lambda: row())

    def record(self, clip: float) -> NDArray[np.float32]:
        """The 32 numbers of the call."""
        head = [self.input_scale, *self.denoised, clip]
        return np.concatenate([head, self.x, self.prev1, self.prev2, self.saved]).astype(np.float32)


def to_denoised(prediction: str, alpha: float, sigma: float) -> tuple[float, float]:
    """k_x and k_m of a sample alpha * clean + sigma * noise, by what the denoiser predicts."""
    if prediction == "sample":
        return 0.0, 1.0
    if prediction == "v_prediction":
        return alpha, -sigma
    return 1 / alpha, -sigma / alpha


def exploding(prediction: str, sigma: float) -> tuple[float, float]:
    """k_x and k_m of a sample clean + sigma * noise (its variance explodes with sigma)."""
    if prediction == "sample":
        return 0.0, 1.0
    if prediction == "v_prediction":
        return 1 / (sigma**2 + 1), -sigma / math.sqrt(sigma**2 + 1)
    return 1.0, -sigma


def alpha_sigma(sigma: float) -> tuple[float, float]:
    """Signal and noise of the sample of unit variance that has this noise over signal."""
    alpha = 1 / math.sqrt(sigma**2 + 1)
    return alpha, sigma * alpha


def log_snr(sigma: float) -> float:
    """log(signal / noise); infinite without noise."""
    return -math.log(sigma) if sigma > 0 else math.inf


def _toward(sigma: float, target: float, start: str = "x") -> Row:
    """Straight from the noise level ``sigma`` to ``target`` along the line to ``denoised``."""
    kept = target / sigma
    return row(**{start: kept, "denoised": 1 - kept})


def _ancestral(sigma: float, target: float) -> tuple[float, float]:
    """Down to where, and how much fresh noise up again, to arrive at ``target``."""
    up = min(target, math.sqrt(max(target**2 * (sigma**2 - target**2), 0.0)) / sigma)
    return math.sqrt(max(target**2 - up**2, 0.0)), up


def _exploding_call(prediction: str, timestep: float, sigma: float, x: Row) -> Call:
    scale = 1 / math.sqrt(sigma**2 + 1)
    return Call(timestep, scale, exploding(prediction, sigma), x, (1.0, sigma))


def euler(prediction: str, times: list[float], sigmas: list[float]) -> Iterator[Call]:
    """Euler's method (Karras et al. 2022, without churn)."""
    for time, sigma, target in zip(times, sigmas, sigmas[1:], strict=False):
        yield _exploding_call(prediction, time, sigma, _toward(sigma, target))


def euler_a(prediction: str, times: list[float], sigmas: list[float]) -> Iterator[Call]:
    """Euler's method with fresh noise after each step."""
    for time, sigma, target in zip(times, sigmas, sigmas[1:], strict=False):
        down, up = _ancestral(sigma, target)
        x = _toward(sigma, down) + row(noise=up)
        yield _exploding_call(prediction, time, sigma, x)


def heun(prediction: str, times: list[float], sigmas: list[float]) -> Iterator[Call]:
    """Heun's method: a step of Euler, then the same step with the mean of both slopes."""
    slots = zip(times, sigmas, sigmas[1:], [*times[1:], 0.0], strict=False)
    for time, sigma, target, next_time in slots:
        first = _exploding_call(prediction, time, sigma, _toward(sigma, target))
        if target == 0:
            yield first
            continue
        slope, step = row(x=1 / sigma, denoised=-1 / sigma), target - sigma
        yield replace(first, prev1=slope, saved=KEEP["x"])
        half = step / 2
        x = row(saved=1.0, prev1=half, x=half / target, denoised=-half / target)
        yield _exploding_call(prediction, next_time, target, x)


def dpmpp_sde(
    prediction: str, times: list[float], sigmas: list[float], middles: list[float]
) -> Iterator[Call]:
    """DPM-Solver++ (SDE): to the middle of the step and on, with noise of one Brownian path.

    The noise over the whole step holds the first half's noise, which ``prev1`` remembers.
    """
    slots = zip(times, sigmas, sigmas[1:], [*middles, 0.0], strict=False)
    for time, sigma, target, middle_time in slots:
        if target == 0:
            yield _exploding_call(prediction, time, sigma, _toward(sigma, target))
            continue
        middle = math.sqrt(sigma * target)
        down, up = _ancestral(sigma, middle)
        first = _exploding_call(prediction, time, sigma, _toward(sigma, down) + row(noise=up))
        yield replace(first, prev1=KEEP["noise"], saved=KEEP["x"])
        down, up = _ancestral(sigma, target)
        before = math.sqrt((sigma - middle) / (sigma - target))
        after = math.sqrt((middle - target) / (sigma - target))
        noise = row(prev1=up * before, noise=up * after)
        x = _toward(sigma, down, "saved") + noise
        yield _exploding_call(prediction, middle_time, middle, x)


def _preserving_call(prediction: str, timestep: float, sigma: float, x: Row) -> Call:
    alpha, noise = alpha_sigma(sigma)
    denoised = to_denoised(prediction, alpha, noise)
    return Call(timestep, 1.0, denoised, x, (alpha, noise), prev1=KEEP["denoised"])


def dpmpp_2m(
    prediction: str,
    times: list[float],
    sigmas: list[float],
    start: int,
    *,
    midpoint: bool,
    first_order_last: bool,
) -> Iterator[Call]:
    """DPM-Solver++ of second order, multistep (arXiv 2211.01095), from step ``start`` on."""
    for i in range(start, len(times)):
        (alpha, noise), (_, noise_now) = alpha_sigma(sigmas[i + 1]), alpha_sigma(sigmas[i])
        h = log_snr(sigmas[i + 1]) - log_snr(sigmas[i])
        phi = math.expm1(-h)
        x = row(x=noise / noise_now, denoised=-alpha * phi)
        last = i == len(times) - 1 and first_order_last
        if i > start and not last and math.isfinite(h):
            ratio = (log_snr(sigmas[i]) - log_snr(sigmas[i - 1])) / h
            factor = -0.5 * alpha * phi if midpoint else alpha * (phi / h + 1)
            x = x + row(denoised=factor / ratio, prev1=-factor / ratio)
        yield _preserving_call(prediction, times[i], sigmas[i], x)


def unipc(
    prediction: str,
    times: list[float],
    sigmas: list[float],
    start: int,
    *,
    order: int,
    bh1: bool,
    lower_order_last: bool,
) -> Iterator[Call]:
    """UniPC of order 1 or 2 (arXiv 2302.04867): each call corrects the step that led to it.

    ``saved`` is the corrected sample before, ``prev1`` and ``prev2`` the denoised ones before.
    """
    before = 0  # the order of the step that led here
    for i in range(start, len(times)):
        corrected = KEEP["x"]
        if i > start:
            corrected = _corrector(sigmas, i, before, bh1=bh1)
        left = len(times) - i if lower_order_last or sigmas[-1] == 0 else order
        now = min(order, left, i - start + 1)
        x = _predictor(sigmas, i, now, corrected, bh1=bh1)
        call = _preserving_call(prediction, times[i], sigmas[i], x)
        yield replace(call, prev2=KEEP["prev1"], saved=corrected)
        before = now


def _unipc_base(sigma: float, target: float, *, bh1: bool) -> tuple[float, float, float, float]:
    """alpha, the kept share of the sample, e^-h - 1, and B(h), of a step between noise levels."""
    (alpha, noise), (_, noise_now) = alpha_sigma(target), alpha_sigma(sigma)
    h = log_snr(target) - log_snr(sigma)
    phi = math.expm1(-h)
    return alpha, noise / noise_now, phi, (-h if bh1 and math.isfinite(h) else phi)


def _predictor(sigmas: list[float], i: int, order: int, start: Row, *, bh1: bool) -> Row:
    alpha, kept, phi, b = _unipc_base(sigmas[i], sigmas[i + 1], bh1=bh1)
    x = kept * start + row(denoised=-alpha * phi)
    if order == 2:
        h = log_snr(sigmas[i + 1]) - log_snr(sigmas[i])
        ratio = (log_snr(sigmas[i - 1]) - log_snr(sigmas[i])) / h
        factor = -alpha * b * 0.5 / ratio
        x = x + row(prev1=factor, denoised=-factor)
    return x


def _corrector(sigmas: list[float], i: int, order: int, *, bh1: bool) -> Row:
    """The sample at ``i``, solved again from ``saved`` now that its denoised one is known."""
    alpha, kept, phi, b = _unipc_base(sigmas[i - 1], sigmas[i], bh1=bh1)
    x = row(saved=kept, prev1=-alpha * phi)
    if order == 1:
        return x + row(denoised=-alpha * b * 0.5, prev1=alpha * b * 0.5)
    h = log_snr(sigmas[i]) - log_snr(sigmas[i - 1])
    ratio = (log_snr(sigmas[i - 2]) - log_snr(sigmas[i - 1])) / h
    phi_2 = phi / -h - 1
    phi_3 = phi_2 / -h - 0.5
    older, newer = np.linalg.solve([[1.0, 1.0], [ratio, 1.0]], [phi_2 / b, phi_3 * 2 / b])
    factor = -alpha * b
    return x + row(
        prev2=factor * older / ratio,
        prev1=-factor * (older / ratio + newer),
        denoised=factor * newer,
    )


def ddim(prediction: str, times: list[float], bars: list[tuple[float, float]]) -> Iterator[Call]:
    """DDIM without added noise; ``bars`` holds alpha bar at each step and after it."""
    for time, (now, after) in zip(times, bars, strict=True):
        alpha, noise = math.sqrt(now), math.sqrt(1 - now)
        if prediction == "epsilon":
            direction = row(model=1.0)
        elif prediction == "v_prediction":
            direction = row(model=alpha, x=noise)
        else:
            direction = row(x=1 / noise, model=-alpha / noise)
        x = row(denoised=math.sqrt(after)) + math.sqrt(1 - after) * direction
        yield Call(time, 1.0, to_denoised(prediction, alpha, noise), x, (alpha, noise))


def lcm(
    prediction: str,
    times: list[float],
    bars: list[tuple[float, float]],
    timestep_scaling: float,
    last: int,
) -> Iterator[Call]:
    """Latent consistency sampling; the call number ``last`` adds no noise."""
    for index, (time, (now, after)) in enumerate(zip(times, bars, strict=True)):
        alpha, noise = math.sqrt(now), math.sqrt(1 - now)
        scaled = time * timestep_scaling
        skip, out = 0.25 / (scaled**2 + 0.25), scaled / math.sqrt(scaled**2 + 0.25)
        clean = row(x=skip, denoised=out)
        noisy = math.sqrt(after) * clean + row(noise=math.sqrt(1 - after))
        x = clean if index == last else noisy
        yield Call(time, 1.0, to_denoised(prediction, alpha, noise), x, (alpha, noise))
