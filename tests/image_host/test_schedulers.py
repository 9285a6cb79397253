"""Every sampler follows its diffusers twin step by step, over hundreds of configurations.

The denoiser's outputs and the fresh noise are given numbers, the same on both sides, so a step is
held to 1e-5 of the largest number of its sample, by itself and with all that went before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.image import schedulers_rows as rows
from engine.image.errors import SettingError
from engine.image.schedulers import (
    SAMPLERS,
    TITLES,
    Schedule,
    State,
    default_sampler,
    make_schedule,
    step,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "schedulers"
CASES: list[dict[str, Any]] = json.loads((GOLDEN / "cases.json").read_text())
STEPS = np.load(GOLDEN / "steps.npz")
STABLE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


def wave(call: int, phase: float) -> np.ndarray:
    """The numbers that the golden files' maker uses for call ``call``."""
    return np.sin(1.7 * call + 2.3 * np.arange(4) + phase).astype(np.float32)


def schedule_of(case: dict[str, Any]) -> Schedule:
    return make_schedule(case["sampler"], case["config"], case["steps"], strength=case["strength"])


def samples(schedule: Schedule) -> np.ndarray:
    """The sample after each call, float32 [calls, 4]."""
    state = State.start((wave(0, 0.4) * np.float32(schedule.init_noise_scale)).astype(np.float32))
    made = []
    for call in range(schedule.calls):
        state, _ = step(schedule, call, state, wave(call, 0.1), wave(call, 0.9))
        made.append(state.x)
    return np.stack(made)


def label(number: int) -> str:
    case = CASES[number]
    known = {"num_train_timesteps", "steps_offset", "clip_sample", *STABLE}
    more = [str(value) for key, value in case["config"].items() if key not in known]
    return "-".join([case["sampler"], str(case["steps"]), f"{case['strength']:g}", *more])


@pytest.mark.parametrize("number", range(len(CASES)), ids=label)
def test_steps_equal_diffusers(number):
    case = CASES[number]
    schedule = schedule_of(case)
    golden = {key: STEPS[f"{number}_{key}"] for key in ("t", "scale", "start", "x")}
    np.testing.assert_allclose(schedule.timesteps, golden["t"], rtol=0, atol=2e-3)
    np.testing.assert_allclose(schedule.table[:, 0], golden["scale"], rtol=1e-5)
    if case["strength"] == 1:  # a run that starts later starts from a picture, not from noise
        np.testing.assert_allclose(schedule.init_noise_scale, golden["start"][0], rtol=1e-5)
    else:
        schedule = Schedule(**{**vars(schedule), "init_noise_scale": float(golden["start"][0])})
    made = samples(schedule)
    sizes = np.abs(golden["x"]).max(axis=1)
    # A sample that was in the thousands (zero SNR) has lost that much of float32's digits in both.
    lost = np.finfo(np.float32).eps * np.maximum.accumulate([4 * schedule.init_noise_scale, *sizes])
    allowed = 1e-5 * np.maximum(sizes, 1) + lost[:-1]
    np.testing.assert_array_less(np.abs(made - golden["x"]).max(axis=1), allowed)


def test_every_sampler_is_held_against_its_twin():
    counts = {name: sum(case["sampler"] == name for case in CASES) for name in SAMPLERS}
    assert min(counts.values()) >= 15
    assert set(TITLES) == set(SAMPLERS)
    assert len(CASES) >= 300


# ---- Shape of a schedule


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_schedule_says_all_that_a_run_needs(name):
    schedule = make_schedule(name, STABLE, 10)
    calls = 19 if name in ("heun", "dpmpp_sde") else 10
    assert (schedule.calls, schedule.steps) == (calls, 10)
    assert schedule.timesteps.shape == (calls,)
    assert schedule.table.shape == (calls, rows.RECORD) == (calls, 32)
    assert schedule.levels.shape == (calls + 1, 2)
    assert schedule.table.dtype == schedule.levels.dtype == np.float32
    assert np.isfinite(schedule.table).all()
    assert tuple(schedule.levels[-1]) == (1, 0)
    assert list(schedule.step_of) == sorted(schedule.step_of)


@pytest.mark.parametrize("name", SAMPLERS)
def test_only_samplers_that_add_noise_ask_for_it(name):
    schedule = make_schedule(name, STABLE, 6)
    asks = [schedule.takes_noise(call) for call in range(schedule.calls)]
    fresh = {"euler_a", "dpmpp_sde", "lcm"}
    assert asks == [name in fresh] * (schedule.calls - 1) + [False]


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("kind", ["epsilon", "v_prediction", "sample"])
def test_a_perfect_denoiser_ends_at_the_clean_picture(name, kind):
    """With the true noise or velocity for every sample, each sampler must arrive."""
    config = {**STABLE, "prediction_type": kind, "timestep_spacing": "trailing"}
    schedule = make_schedule(name, config, 8)
    clean = np.array([0.3, -1.2, 0.8], np.float32)
    state = State.start(schedule.noised(clean, np.array([1.0, -0.5, 0.2], np.float32)))
    for call in range(schedule.calls):
        signal, amount = (float(value) for value in schedule.levels[call])
        k_x, k_m = (float(value) for value in schedule.table[call, 1:3])
        model = (clean - k_x * state.x) / k_m
        if kind == "epsilon":
            np.testing.assert_allclose(model, (state.x - signal * clean) / amount, atol=1e-4)
        noise = np.full(3, 0.1, np.float32)
        state, denoised = step(schedule, call, state, model.astype(np.float32), noise)
        np.testing.assert_allclose(denoised, clean, atol=1e-4)
    # LCM keeps a little of the sample: its last skip weight is not quite 0
    np.testing.assert_allclose(state.x, clean, atol=2e-3)


def test_strength_leaves_the_first_steps_out():
    whole, half = (
        make_schedule("euler", STABLE, 20),
        make_schedule("euler", STABLE, 20, strength=0.5),
    )
    np.testing.assert_array_equal(half.timesteps, whole.timesteps[10:])
    np.testing.assert_array_equal(half.levels, whole.levels[10:])
    assert half.steps == 10


def test_a_clean_latent_is_noised_to_the_level_of_a_call():
    schedule = make_schedule("ddim", STABLE, 10, strength=0.5)
    clean, noise = np.ones(3, np.float32), np.full(3, 2.0, np.float32)
    signal, amount = schedule.levels[2]
    np.testing.assert_allclose(schedule.noised(clean, noise, 2), signal + 2 * amount, rtol=1e-6)
    assert signal**2 + amount**2 == pytest.approx(1)


# ---- What a configuration asks for


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"_class_name": "DDIMScheduler"}, "ddim"),
        ({"_class_name": "PNDMScheduler"}, "dpmpp_2m"),
        ({"_class_name": "EulerDiscreteScheduler"}, "euler"),
        ({"_class_name": "EulerAncestralDiscreteScheduler"}, "euler_a"),
        ({"_class_name": "LCMScheduler"}, "lcm"),
        (
            {"_class_name": "DPMSolverMultistepScheduler", "use_karras_sigmas": True},
            "dpmpp_2m_karras",
        ),
        ({}, "dpmpp_2m"),
    ],
)
def test_a_models_scheduler_names_its_sampler(config, name):
    assert default_sampler(config) == name


# ---- What is refused, and how


@pytest.mark.parametrize(
    ("name", "config", "steps", "strength", "message"),
    [
        ("plms", {}, 20, 1.0, "no sampler named 'plms'.*ddim, euler"),
        ("euler", {}, 0, 1.0, "steps is 0; choose from 1 to 1,000"),
        ("euler", {}, 1001, 1.0, "from 1 to 1,000"),
        ("euler", {}, 2.5, 1.0, "steps is 2.5"),
        ("euler", {"num_train_timesteps": 10}, 20, 1.0, "from 1 to 10"),
        ("euler", {}, 20, 0.0, "strength is 0"),
        ("euler", {}, 20, 1.5, "strength is 1.5"),
        ("euler", {}, 20, float("nan"), "strength is nan"),
        ("euler", {}, 20, 0.01, "no step would run.*at least 0.05"),
        ("euler", {"prediction_type": "flow_prediction"}, 20, 1.0, "flow_prediction"),
        ("euler", {"timestep_spacing": "random"}, 20, 1.0, "spacing 'random'"),
        ("euler", {"beta_schedule": "sigmoid"}, 20, 1.0, "'sigmoid'"),
        ("euler", {"beta_start": -1}, 20, 1.0, "beta_start = -1"),
        ("euler", {"num_train_timesteps": 1.5}, 20, 1.0, "num_train_timesteps"),
        ("euler", {"steps_offset": "x", "timestep_spacing": "leading"}, 20, 1.0, "steps_offset"),
        ("euler", {"trained_betas": [[1]]}, 20, 1.0, "trained_betas"),
        ("ddim", {"thresholding": True}, 20, 1.0, "dynamic thresholding.*Choose the sampler euler"),
        ("unipc", {"thresholding": True}, 20, 1.0, "not run with UniPC"),
        ("ddim", {"clip_sample": True, "clip_sample_range": "x"}, 20, 1.0, "range = x; a number"),
        ("ddim", {"clip_sample": True, "clip_sample_range": 0}, 20, 1.0, "range = 0; a number"),
        ("dpmpp_2m", {"use_flow_sigmas": True}, 20, 1.0, "use_flow_sigmas"),
        ("lcm", {}, 51, 1.0, "at most 50 steps"),
        ("lcm", {"original_inference_steps": 0.5}, 4, 1.0, "original_inference_steps"),
        (
            "ddim",
            {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"},
            4,
            1.0,
            "without any signal",
        ),
    ],
)
def test_impossible_wishes_are_refused_in_words(name, config, steps, strength, message):
    with pytest.raises(SettingError, match=message):
        make_schedule(name, config, steps, strength=strength)


def test_a_sampler_whose_twin_knows_no_thresholding_ignores_it():
    plain = make_schedule("euler", STABLE, 5)
    asked = make_schedule("euler", {**STABLE, "thresholding": True}, 5)
    np.testing.assert_array_equal(asked.table, plain.table)


def test_other_kinds_of_schedulers_are_refused():
    with pytest.raises(SettingError, match="FlowMatchEulerDiscreteScheduler"):
        default_sampler({"_class_name": "FlowMatchEulerDiscreteScheduler"})


def test_any_number_of_steps_makes_a_sound_schedule():
    for name in SAMPLERS:
        for steps in (1, 2, 3, 7, 33, 49):
            for spacing in ("leading", "trailing", "linspace"):
                schedule = make_schedule(name, {**STABLE, "timestep_spacing": spacing}, steps)
                assert schedule.steps == steps
                assert np.isfinite(schedule.table).all()
                assert 0 <= schedule.timesteps.min() <= schedule.timesteps.max() < 1000
