"""The step kernel follows a whole schedule as its numpy reference does, clipping included."""

from __future__ import annotations

import numpy as np
import pytest
from image.goldens import close

from engine.gpu.device import Device
from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.graph.ops_image import HISTORY, STEP_WORDS
from engine.image.runner_graph import MAX_CALLS, step_table
from engine.image.schedulers import Schedule, State, make_schedule, step
from engine.image.unet import latent_desc
from engine.kernels.registry import lower
from engine.kernels.run import run_once
from engine.kernels.scheduler_step import STATE_WORDS
from engine.tensor.descriptor import DType, Shape, TensorDesc, vector

CLIPPED = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "clip_sample": True,
    "clip_sample_range": 0.8,
}
SHAPE = (1, 3, 2, 4)


def waves(call: int, phase: float) -> np.ndarray:
    """Numbers that stand for what is unknown before a run."""
    return np.sin(1.7 * call + 2.3 * np.arange(24) + phase).reshape(SHAPE).astype(np.float32)


def followed(device: Device, schedule: Schedule) -> np.ndarray:
    """The sample after all calls, on the GPU; the model's outputs and the noise are waves."""
    graph = Graph("steps")

    def latents(name: str, role: Role, count: int = 1) -> Value:
        return graph.value(name, latent_desc(count, *SHAPE[1:]), role)

    x, history = latents("x", Role.CACHE), latents("history", Role.CACHE, HISTORY)
    model, noise = latents("model", Role.INPUT), latents("noise", Role.INPUT)
    steps = graph.value("steps", vector(MAX_CALLS * STEP_WORDS), Role.INPUT)
    words = TensorDesc(Shape(c=STATE_WORDS), DType.U32)
    state = graph.value("state", words, Role.STATE)
    inputs = {"x": x, "model": model, "steps": steps, "state": state}
    graph.add("scheduler_step", {**inputs, "history": history, "noise": noise}, outputs=[])
    graph.add("advance_step", [state], outputs=[])
    dispatches = [dispatch for node in graph.nodes for dispatch in lower(node, device.caps)]
    kept = [x, history, state]
    held = [
        waves(0, 0.4) * np.float32(schedule.init_noise_scale),
        np.zeros((HISTORY, *SHAPE[1:]), np.float32),
        np.zeros(STATE_WORDS, np.uint32),
    ]
    table = step_table(schedule, 1.0)
    for call in range(schedule.calls):
        given = {steps: table, model: waves(call, 0.1), noise: waves(call, 0.9)}
        given |= dict(zip(kept, held, strict=True))
        held = run_once(device, dispatches, given, {}, kept)
    return held[0]


@pytest.mark.parametrize("name", ["ddim", "heun", "lcm", "unipc", "dpmpp_sde"])
@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_all_calls_of_a_schedule(device: Device, name: str, prediction: str) -> None:
    schedule = make_schedule(name, {**CLIPPED, "prediction_type": prediction}, 5)
    state = State.start((waves(0, 0.4) * np.float32(schedule.init_noise_scale)).astype(np.float32))
    for call in range(schedule.calls):
        state, denoised = step(schedule, call, state, waves(call, 0.1), waves(call, 0.9))
        if name in ("ddim", "heun", "lcm"):
            assert np.abs(denoised).max() <= np.float32(0.8)
    close(followed(device, schedule), state.x, 1e-5)
