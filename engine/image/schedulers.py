"""Samplers: from a name, a model's scheduler configuration and a number of steps to a schedule.

| name | method | calls a step | fresh noise | sample | diffusers |
|---|---|---|---|---|---|
| ddim | DDIM, no added noise | 1 | no | unit variance | DDIMScheduler |
| euler | Euler | 1 | no | exploding | EulerDiscreteScheduler |
| euler_a | Euler, ancestral | 1 | each step | exploding | EulerAncestralDiscreteScheduler |
| heun | Heun | 2 (the last 1) | no | exploding | HeunDiscreteScheduler |
| dpmpp_2m | DPM-Solver++ 2M | 1 | no | unit variance | DPMSolverMultistepScheduler |
| dpmpp_2m_karras | the same, Karras sigmas | 1 | no | unit variance | use_karras_sigmas |
| dpmpp_sde | DPM-Solver++ SDE | 2 (the last 1) | each call | exploding | DPMSolverSDEScheduler |
| unipc | UniPC, order 2 | 1 | no | unit variance | UniPCMultistepScheduler |
| lcm | latent consistency | 1 | all but the last | unit variance | LCMScheduler |

What a call does is in schedulers_rows.py, and is the same formula for all: the GPU step kernel
reads one record of 32 float32 for each call:

| place | 0 | 1 | 2 | 3 | 4-10 | 11-17 | 18-24 | 25-31 |
|---|---|---|---|---|---|---|---|---|
| number | input_scale | k_x | k_m | clip | row x | row prev1 | row prev2 | row saved |

Each row weighs (x, model, denoised, prev1, prev2, saved, noise).

Every sampler takes epsilon, v and sample prediction, the three spacings, zero terminal SNR (but
heun and dpmpp_sde, which have none in diffusers either) and Karras or exponential sigmas where its
diffusers twin does. Configuration keys that a twin lacks are ignored, as ``from_config`` does.
One key is read otherwise: a missing ``clip_sample`` means false, for latents must not be clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.image import schedulers_rows as rows
from engine.image.errors import SettingError
from engine.image.schedulers_betas import Config, train_steps
from engine.image.schedulers_build import by_sigmas, ddim_calls, lcm_calls, spacing_of

Floats = NDArray[np.float32]

SAMPLERS = (
    "ddim",
    "euler",
    "euler_a",
    "heun",
    "dpmpp_2m",
    "dpmpp_2m_karras",
    "dpmpp_sde",
    "unipc",
    "lcm",
)
TITLES: Mapping[str, str] = {
    "ddim": "DDIM",
    "euler": "Euler",
    "euler_a": "Euler a",
    "heun": "Heun",
    "dpmpp_2m": "DPM++ 2M",
    "dpmpp_2m_karras": "DPM++ 2M Karras",
    "dpmpp_sde": "DPM++ SDE",
    "unipc": "UniPC",
    "lcm": "LCM",
}
MAX_STEPS = 1000

_BY_CLASS: Mapping[str, str] = {
    "DDIMScheduler": "ddim",
    "EulerDiscreteScheduler": "euler",
    "EulerAncestralDiscreteScheduler": "euler_a",
    "HeunDiscreteScheduler": "heun",
    "DPMSolverMultistepScheduler": "dpmpp_2m",
    "DPMSolverSDEScheduler": "dpmpp_sde",
    "DPMSolverSinglestepScheduler": "dpmpp_sde",
    "UniPCMultistepScheduler": "unipc",
    "LCMScheduler": "lcm",
}
# Samplers whose twin holds the clean latent to a range where the configuration says so ...
_CLIPPING = ("ddim", "heun", "lcm")
# ... or to a share of its own numbers, which is for models that draw pixels.
_THRESHOLDING = ("ddim", "dpmpp_2m", "dpmpp_2m_karras", "unipc", "lcm")
# Wishes of a configuration that would change the result and are not run.
_REFUSED: Mapping[str, tuple[Any, ...]] = {
    "use_beta_sigmas": (None, False),
    "use_flow_sigmas": (None, False),
    "use_lu_lambdas": (None, False),
    "interpolation_type": (None, "linear"),
    "timestep_type": (None, "discrete"),
    "variance_type": (None, "fixed_small", "fixed_large", "fixed_small_log"),
}


@dataclass(frozen=True)
class Schedule:
    """All that a run needs to know before it starts.

    ``timesteps`` float32 [calls] go to the denoiser; ``table`` float32 [calls, 32] drives the step
    kernel; ``levels`` float32 [calls + 1, 2] are (signal, noise) of the sample before each call and
    at the end; ``step_of`` [calls] counts the steps a person sees, from 0. A run from noise starts
    from ``init_noise_scale`` * noise; one from a picture's latents at ``levels[0]``.
    """

    name: str
    prediction: str
    timesteps: Floats
    table: Floats
    levels: Floats
    step_of: tuple[int, ...]
    init_noise_scale: float

    @property
    def calls(self) -> int:
        """Calls of the denoiser."""
        return len(self.step_of)

    @property
    def steps(self) -> int:
        """Steps as a person counts them."""
        return self.step_of[-1] + 1

    def input_scale(self, call: int) -> float:
        """What the sample is multiplied by before it enters the denoiser."""
        return float(self.table[call, 0])

    def takes_noise(self, call: int) -> bool:
        """Whether the call needs fresh noise."""
        noise = self.table[call, 4:].reshape(len(rows.ROWS), len(rows.COLUMNS))[:, -1]
        return bool(np.any(noise != 0))

    def noised(self, clean: Floats, noise: Floats, call: int = 0) -> Floats:
        """A clean latent at the noise level before ``call`` (for pictures to start from, masks)."""
        signal, amount = self.levels[call]
        return (signal * clean + amount * noise).astype(np.float32)


@dataclass(frozen=True)
class State:
    """The latents that a run carries from call to call, float32, all of one shape."""

    x: Floats
    prev1: Floats
    prev2: Floats
    saved: Floats

    @staticmethod
    def start(x: Floats) -> State:
        """The state before the first call."""
        zero = np.zeros_like(x)
        return State(x, zero, zero, zero)


def step(
    schedule: Schedule, call: int, state: State, model: Floats, noise: Floats | None = None
) -> tuple[State, Floats]:
    """The numpy reference of the step kernel: the state after a call, and the denoised latent."""
    record = schedule.table[call]
    _, k_x, k_m, clip = record[:4]
    denoised = np.clip(k_x * state.x + k_m * model, -clip, clip)
    fresh = np.zeros_like(state.x) if noise is None else noise
    columns = (state.x, model, denoised, state.prev1, state.prev2, state.saved, fresh)
    weights = record[4:].reshape(len(rows.ROWS), len(columns))
    made = [sum((w * c for w, c in zip(r, columns, strict=True)), np.float32(0)) for r in weights]
    return State(*(np.asarray(latent, np.float32) for latent in made)), denoised


def default_sampler(config: Config) -> str:
    """The sampler that a model's scheduler configuration asks for, or a good one."""
    kind = str(config.get("_class_name"))
    if kind.startswith(("EDM", "FlowMatch")):
        raise SettingError(
            f"The model asks for the scheduler {kind[:60]}, a kind of model that is not run."
        )
    name = _BY_CLASS.get(kind, "dpmpp_2m")
    karras_too = name == "dpmpp_2m" and config.get("use_karras_sigmas") is True
    return "dpmpp_2m_karras" if karras_too else name


def make_schedule(name: str, config: Config, steps: int, *, strength: float = 1.0) -> Schedule:
    """The schedule of a sampler; ``strength`` below 1 leaves the first steps out.

    Raises SettingError for an unknown sampler, impossible numbers, or a scheduler configuration
    that is not run.
    """
    if name not in SAMPLERS:
        raise SettingError(
            f"There is no sampler named {name[:40]!r}. Choose one of {', '.join(SAMPLERS)}."
        )
    if config.get("thresholding") and name in _THRESHOLDING:
        raise SettingError(
            "The model's scheduler asks for dynamic thresholding, which is for models that draw "
            f"pixels and is not run with {TITLES[name]}. Choose the sampler euler, which has none."
        )
    prediction = _check(config, steps)
    start = _start(steps, strength)
    if name == "lcm":
        calls = lcm_calls(config, prediction, steps, start)
    elif name == "ddim":
        calls = ddim_calls(config, prediction, steps, start)
    else:
        calls = by_sigmas(name, config, prediction, steps, start)
    return _finish(name, config, prediction, calls)


def _check(config: Config, steps: int) -> str:
    """Refuse what is not run; what the denoiser predicts."""
    for key, allowed in _REFUSED.items():
        if config.get(key) not in allowed:
            raise SettingError(
                f"The model's scheduler asks for {key} = {str(config.get(key))[:40]}, which is "
                "not run."
            )
    prediction = config.get("prediction_type") or "epsilon"
    if prediction not in ("epsilon", "v_prediction", "sample"):
        raise SettingError(
            f"The model predicts {str(prediction)[:40]!r}; epsilon, v_prediction and sample are "
            "run."
        )
    most = min(MAX_STEPS, train_steps(config))
    if type(steps) is not int or not 1 <= steps <= most:
        raise SettingError(f"The number of steps is {steps}; choose from 1 to {most:,}.")
    return prediction


def _start(steps: int, strength: float) -> int:
    """The first step of a run of this strength."""
    if not 0 < strength <= 1:
        raise SettingError(f"The strength is {strength}; choose more than 0 and at most 1.")
    run = min(int(steps * strength), steps)
    if run == 0:
        raise SettingError(
            f"With {steps} steps and strength {strength:g} no step would run. Choose a strength of "
            f"at least {math.ceil(100 / steps) / 100:g}, or more steps."
        )
    return steps - run


def _finish(name: str, config: Config, prediction: str, calls: list[rows.Call]) -> Schedule:
    clip = _clip(config) if name in _CLIPPING else rows.NO_CLIP
    times = np.array([call.timestep for call in calls], np.float32)
    levels = [call.level for call in calls]
    exploding = name in ("euler", "euler_a", "heun", "dpmpp_sde")
    top = levels[0][1]
    if exploding and spacing_of(name, config) == "leading":
        top = math.sqrt(top**2 + 1)
    return Schedule(
        name=name,
        prediction=prediction,
        timesteps=times,
        table=np.stack([call.record(clip) for call in calls]),
        levels=np.array([*levels, (1.0, 0.0)], np.float32),
        step_of=_steps_of(name, len(calls)),
        init_noise_scale=top if exploding else 1.0,
    )


def _clip(config: Config) -> float:
    """What the clean latent is held to, from -clip to clip."""
    if config.get("clip_sample") is not True:
        return rows.NO_CLIP
    size = config.get("clip_sample_range", 1.0)
    sound = isinstance(size, int | float) and not isinstance(size, bool) and 0 < size < math.inf
    if not sound:
        raise SettingError(
            f"The model's scheduler says clip_sample_range = {str(size)[:40]}; a number above 0 is "
            "needed."
        )
    return float(size)


def _steps_of(name: str, calls: int) -> tuple[int, ...]:
    if name in ("heun", "dpmpp_sde"):
        return tuple(call // 2 for call in range(calls))
    return tuple(range(calls))
