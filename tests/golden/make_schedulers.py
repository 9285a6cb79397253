"""Make the golden files of the samplers with diffusers; run once, by hand.

    python tests/golden/make_schedulers.py           (writes tests/golden/schedulers/*)

cases.json lists the cases; steps.npz holds, for each, the timesteps, the input scales, the first
noise scale and the sample after each call. The denoiser's outputs and the fresh noise are the
numbers of a formula (see ``wave``), which the test repeats, so that every step stands by itself.

Needs torch and diffusers, which the tests themselves do not.
"""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from diffusers.schedulers import scheduling_euler_ancestral_discrete, scheduling_lcm

FOLDER = Path(__file__).parent / "schedulers"
SIZE = 4
STABLE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
COMMON = {**STABLE, "num_train_timesteps": 1000, "steps_offset": 1, "clip_sample": False}
STARTER = {**COMMON, "beta_end": 0.02, "prediction_type": "v_prediction"}

TWINS: dict[str, tuple[str, dict[str, Any]]] = {
    "ddim": ("DDIMScheduler", {}),
    "euler": ("EulerDiscreteScheduler", {}),
    "euler_a": ("EulerAncestralDiscreteScheduler", {}),
    "heun": ("HeunDiscreteScheduler", {}),
    "dpmpp_2m": ("DPMSolverMultistepScheduler", {}),
    "dpmpp_2m_karras": ("DPMSolverMultistepScheduler", {"use_karras_sigmas": True}),
    "dpmpp_sde": ("DPMSolverSDEScheduler", {}),
    "unipc": ("UniPCMultistepScheduler", {}),
    "lcm": ("LCMScheduler", {}),
}


def wave(call: int, phase: float) -> np.ndarray:
    """The numbers of call ``call``, float32 [SIZE]."""
    return np.sin(1.7 * call + 2.3 * np.arange(SIZE) + phase).astype(np.float32)


def cases() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def add(name: str, steps: int, strength: float = 1.0, **config: Any) -> None:
        case = {"sampler": name, "steps": steps, "strength": strength, "config": config}
        if case not in made:
            made.append(case)

    kinds = ("epsilon", "v_prediction", "sample")
    spacings = ("leading", "trailing", "linspace")
    for name, kind, spacing, steps in itertools.product(TWINS, kinds, spacings, (4, 20, 50)):
        if kind == "sample" and name in ("euler_a", "dpmpp_sde"):
            continue  # these twins have no sample prediction
        if name == "lcm" and spacing != "leading":
            continue  # this twin has spacing of its own
        add(name, steps, **COMMON, prediction_type=kind, timestep_spacing=spacing)
    for name in TWINS:
        for steps, strength in ((20, 0.6), (7, 0.3), (20, 0.051), (10, 1.0)):
            add(name, steps, strength, **COMMON, timestep_spacing="leading")
        add(name, 1, **STARTER, timestep_spacing="trailing")
        add(name, 20, **STARTER, timestep_spacing="trailing")
        add(name, 20, 0.7, **STARTER, timestep_spacing="trailing")
        for steps in (4, 20):
            zero = {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
            add(name, steps, **COMMON, prediction_type="v_prediction", **zero)
        add(name, 12, **{**COMMON, "beta_schedule": "linear"})
        if name != "heun":  # its step from sigma 20,000 to 60 amplifies float32's rounding
            add(name, 12, num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")
        add(name, 12)
    for name in ("euler", "heun", "dpmpp_2m", "dpmpp_sde", "unipc"):
        for key in ("use_karras_sigmas", "use_exponential_sigmas"):
            add(name, 20, **COMMON, **{key: True})
            add(name, 8, 0.5, **STARTER, timestep_spacing="trailing", **{key: True})
    for name in ("euler", "dpmpp_2m", "unipc"):
        add(name, 20, **COMMON, final_sigmas_type="sigma_min")
    for steps in (8, 20):
        add("dpmpp_2m", steps, **COMMON, solver_type="heun")
        add("dpmpp_2m", steps, **COMMON, euler_at_final=True, final_sigmas_type="sigma_min")
        add("dpmpp_2m", steps, **COMMON, lower_order_final=False)
        add("unipc", steps, **COMMON, solver_type="bh1", final_sigmas_type="sigma_min")
        add("unipc", steps, **COMMON, solver_order=1)
        add(
            "unipc",
            steps,
            **COMMON,
            lower_order_final=False,
            final_sigmas_type="sigma_min",
        )
    add("ddim", 20, **COMMON, set_alpha_to_one=False, timestep_spacing="leading")
    for kind in kinds:
        add("ddim", 9, **{**COMMON, "clip_sample": True}, prediction_type=kind)
        add("heun", 9, **{**COMMON, "clip_sample": True}, prediction_type=kind)
    add("lcm", 8, **COMMON, original_inference_steps=100, timestep_scaling=5.0)
    for name, kind, size in itertools.product(("ddim", "heun", "lcm"), kinds, (0.4, 1.7)):
        clipped = {**COMMON, "clip_sample": True, "clip_sample_range": size}
        add(name, 9, **clipped, prediction_type=kind)
        add(name, 10, 0.5, **clipped, prediction_type=kind, timestep_spacing="trailing")
    return made


class Noise:
    """Stands in for diffusers' random numbers: the fresh noise of the call in progress."""

    call = 0
    first: tuple[float, float, np.ndarray] | None = None

    @classmethod
    def tensor(cls, shape: Any, **_: Any) -> torch.Tensor:
        return torch.from_numpy(wave(cls.call, 0.9)).reshape(shape)

    @classmethod
    def brownian(cls, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        """Increments of one path: the second stage's holds the first stage's."""
        fresh, width = wave(cls.call, 0.9), float(start - end)
        if cls.first is not None and abs(cls.first[0] - float(start)) < 1e-4 * float(start):
            before, noise = cls.first[1], cls.first[2]
            fresh = (before**0.5 * noise + (width - before) ** 0.5 * fresh) / width**0.5
            cls.first = None
        else:
            cls.first = (float(start), width, fresh)
        return torch.from_numpy(fresh.astype(np.float32)).reshape(1, 1, 2, SIZE // 2)


def run(case: dict[str, Any]) -> dict[str, np.ndarray]:
    twin, more = TWINS[case["sampler"]]
    config = {"_class_name": "X", **case["config"], **more}
    if case["sampler"] in ("ddim", "lcm"):
        config.setdefault("clip_sample", False)
    scheduler = getattr(diffusers, twin).from_config(config)
    scheduler.set_timesteps(case["steps"])
    skipped = case["steps"] - min(int(case["steps"] * case["strength"]), case["steps"])
    begin = skipped * scheduler.order
    times = scheduler.timesteps[begin:]
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(begin)
    if case["sampler"] == "dpmpp_sde":
        scheduler.noise_sampler = Noise.brownian
    Noise.first = None
    x = torch.from_numpy(wave(0, 0.4)).reshape(1, 1, 2, SIZE // 2) * scheduler.init_noise_sigma
    start = float(scheduler.init_noise_sigma)
    samples, scales = [], []
    for call, time in enumerate(times):
        Noise.call = call
        scaled = scheduler.scale_model_input(torch.ones_like(x), time)
        scales.append(float(scaled.flatten()[0]))
        model = torch.from_numpy(wave(call, 0.1)).reshape(x.shape)
        x = scheduler.step(model, time, x, return_dict=False)[0].float()
        samples.append(x.flatten().numpy().copy())
    return {
        "t": times.numpy().astype(np.float32),
        "scale": np.array(scales, np.float32),
        "start": np.array([start], np.float32),
        "x": np.stack(samples),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    scheduling_euler_ancestral_discrete.randn_tensor = Noise.tensor
    scheduling_lcm.randn_tensor = Noise.tensor
    FOLDER.mkdir(exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    kept = []
    for case in cases():
        made = run(case)
        if not np.isfinite(made["x"]).all():
            print("not finite, left out:", case)
            continue
        arrays |= {f"{len(kept)}_{key}": value for key, value in made.items()}
        kept.append(case)
    (FOLDER / "cases.json").write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")
    np.savez_compressed(FOLDER / "steps.npz", **arrays)
    print(len(kept), "cases", (FOLDER / "steps.npz").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
