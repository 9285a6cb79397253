"""From a model's scheduler configuration to the calls of a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.image import schedulers_rows as rows
from engine.image.errors import SettingError
from engine.image.schedulers_betas import (
    ZERO_SNR_ALPHA,
    Config,
    Singles,
    alphas_cumprod,
    exponential,
    karras,
    sigmas_at,
    spaced,
    times_of,
    train_sigmas,
    train_steps,
)

# What the diffusers twin assumes where a configuration says nothing.
_LINEAR = {"beta_start": 1e-4, "beta_end": 0.02, "beta_schedule": "linear"}
_STABLE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "linear"}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "ddim": {**_LINEAR, "timestep_spacing": "leading"},
    "heun": _STABLE,
    "dpmpp_sde": _STABLE,
    "lcm": {**_STABLE, "beta_schedule": "scaled_linear"},
}


def spacing_of(name: str, config: Config) -> str:
    default = _DEFAULTS.get(name, {}).get("timestep_spacing", "linspace")
    return config.get("timestep_spacing") or default


def _bars(name: str, config: Config) -> Singles:
    defaults = _DEFAULTS.get(name, _LINEAR)
    if name in ("heun", "dpmpp_sde"):
        config = {**config, "rescale_betas_zero_snr": False}
    bars = alphas_cumprod(config, defaults)
    if config.get("rescale_betas_zero_snr") and name not in ("ddim", "lcm"):
        bars[-1] = ZERO_SNR_ALPHA
    return bars


def by_sigmas(
    name: str, config: Config, prediction: str, steps: int, start: int
) -> list[rows.Call]:
    """The samplers that think in sigma, noise over signal."""
    sigmas = train_sigmas(_bars(name, config))
    multistep = name in ("dpmpp_2m", "dpmpp_2m_karras", "unipc")
    wanted = spaced(
        config, steps, spacing_of(name, config), whole=multistep, extra=1 if multistep else 0
    )
    at = sigmas_at(wanted, sigmas)
    ends = (float(sigmas[-1]), float(sigmas[0])) if multistep else (float(at[0]), float(at[-1]))
    logs = np.log(sigmas)
    if name == "dpmpp_2m_karras" or (config.get("use_karras_sigmas") and name != "euler_a"):
        at = karras(*ends, steps)
        wanted = times_of(at, logs)
        if multistep and (name == "unipc" or config.get("beta_schedule") != "squaredcos_cap_v2"):
            wanted = wanted.round()  # the twin cuts the cosine schedule's steps off instead
    elif config.get("use_exponential_sigmas") and name != "euler_a":
        at = exponential(*ends, steps)
        wanted = times_of(at, logs)
    if multistep:
        wanted = np.trunc(wanted)
    last = float(sigmas[0]) if _ends_above_zero(name, config) else 0.0
    path = [float(np.float32(sigma)) for sigma in (*at, last)]
    times = [float(time) for time in wanted]
    if name == "euler":
        return list(rows.euler(prediction, times[start:], path[start:]))
    if name == "euler_a":
        return list(rows.euler_a(prediction, times[start:], path[start:]))
    if name == "heun":
        return list(rows.heun(prediction, times[start:], path[start:]))
    if name == "dpmpp_sde":
        middles = times_of(np.sqrt(at[:-1] * at[1:]), logs)
        between = [float(time) for time in middles[start:]]
        return list(rows.dpmpp_sde(prediction, times[start:], path[start:], between))
    return _multistep(name, config, prediction, times, path, start)


def _ends_above_zero(name: str, config: Config) -> bool:
    """Whether the last step ends at the smallest training noise instead of at none."""
    kinds = ("euler", "dpmpp_2m", "dpmpp_2m_karras", "unipc")
    return name in kinds and config.get("final_sigmas_type") == "sigma_min"


def _multistep(
    name: str, config: Config, prediction: str, times: list[float], path: list[float], start: int
) -> list[rows.Call]:
    lower_last = config.get("lower_order_final") is not False
    if name == "unipc":
        order = 1 if config.get("solver_order") == 1 else 2
        bh1 = config.get("solver_type") == "bh1"
        made = rows.unipc(
            prediction, times, path, start, order=order, bh1=bh1, lower_order_last=lower_last
        )
        return list(made)
    first_order_last = (
        path[-1] == 0 or config.get("euler_at_final") is True or (lower_last and len(times) < 15)
    )
    made = rows.dpmpp_2m(
        prediction,
        times,
        path,
        start,
        midpoint=config.get("solver_type") != "heun",
        first_order_last=first_order_last,
    )
    return list(made)


def ddim_calls(config: Config, prediction: str, steps: int, start: int) -> list[rows.Call]:
    bars = _bars("ddim", config)
    times = spaced(config, steps, spacing_of("ddim", config), whole=True, extra=0).astype(int)
    stride = train_steps(config) // steps
    final = 1.0 if config.get("set_alpha_to_one") is not False else float(bars[0])
    pairs = [
        (float(bars[time]), float(bars[time - stride]) if time >= stride else final)
        for time in _within(times, len(bars))
    ]
    _check_signal(prediction, pairs[start:])
    return list(rows.ddim(prediction, [float(time) for time in times[start:]], pairs[start:]))


def _within(times: NDArray[np.int64], count: int) -> list[int]:
    """Training steps as list indexes; an offset must not lead past the last one."""
    if int(times.max()) >= count or int(times.min()) < 0:
        raise SettingError(
            f"The model's scheduler asks for training step {int(times.max())} of {count}. Choose "
            "fewer steps."
        )
    return [int(time) for time in times]


def _check_signal(prediction: str, pairs: list[tuple[float, float]]) -> None:
    if prediction == "epsilon" and any(now == 0 for now, _ in pairs):
        raise SettingError(
            "The model's schedule ends without any signal (zero terminal SNR), where a model that "
            "predicts epsilon says nothing. Choose another sampler, such as euler."
        )


def lcm_calls(config: Config, prediction: str, steps: int, start: int) -> list[rows.Call]:
    bars = _bars("lcm", config)
    count = train_steps(config)
    original = config.get("original_inference_steps") or 50
    if type(original) is not int or not 1 <= original <= count:
        raise SettingError(
            f"The model's scheduler says original_inference_steps = {str(original)[:40]}."
        )
    if steps > original:
        raise SettingError(f"The LCM sampler runs at most {original} steps here, not {steps}.")
    origin = (np.arange(1, original + 1) * (count // original) - 1)[::-1]
    places = np.floor(np.linspace(0, original, steps, endpoint=False)).astype(int)
    times = [int(time) for time in origin[places]]
    after = [*times[1:], times[-1]]
    pairs = [(float(bars[now]), float(bars[then])) for now, then in zip(times, after, strict=True)]
    _check_signal(prediction, pairs[start:])
    scaling = float(config.get("timestep_scaling") or 10.0)
    floats = [float(time) for time in times[start:]]
    return list(rows.lcm(prediction, floats, pairs[start:], scaling, steps - 1 - start))
