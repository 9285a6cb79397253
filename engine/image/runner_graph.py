"""One denoising step as a graph: from noisy latents to less noisy ones, all on the GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.graph.ops_image import HISTORY, STEP_WORDS
from engine.image.layers import Layers
from engine.image.pipeline_model import ImageModel, added_value, condition_value
from engine.image.schedulers import MAX_STEPS, Schedule
from engine.image.schedulers_rows import COLUMNS, ROWS
from engine.image.unet import UNetSize, build_unet, latent_desc
from engine.kernels import scheduler_step as kernel
from engine.tensor.descriptor import DType, Shape, TensorDesc, vector

Floats = NDArray[np.float32]
MAX_CALLS = 2 * MAX_STEPS  # two-stage samplers call the denoiser twice a step


@dataclass(frozen=True)
class Job:
    """What the denoiser is compiled for.

    Attributes:
        count: pictures at once.
        copies: 2 with guidance, else 1.
        height, width: of the latents.
        tokens: of the text of one branch.
        inpaint: whether a mask keeps parts of a picture; what it keeps is put back after each step,
            but for models that read the mask themselves.
        dtype: of activations.
    """

    count: int
    copies: int
    height: int
    width: int
    tokens: int
    inpaint: bool
    dtype: DType

    @property
    def size(self) -> UNetSize:
        """What the networks are built for."""
        return UNetSize(self.count * self.copies, self.height, self.width, self.tokens)


@dataclass(frozen=True)
class StepGraph:
    """The graph of a step and its values; ``preview`` is RGBA, one word a latent pixel.

    ``shown`` are the clean latents as the step sees them; ``condition`` is what an inpainting model
    reads beside the latents.
    """

    graph: Graph
    x: Value
    steps: Value
    state: Value
    history: Value
    noise: Value
    added: Value | None
    factors: Value
    preview: Value
    shown: Value
    keys: dict[str, Value]
    init: Value | None
    init_noise: Value | None
    mask: Value | None
    condition: Value | None


def build_step(model: ImageModel, job: Job) -> StepGraph:
    """scheduler input -> denoiser -> scheduler step (-> blend with the kept part) -> next step."""
    config = model.unet_config
    layers = Layers(Graph("step"), model.unet, job.dtype)
    channels = model.vae_config.latent_channels

    def latents(name: str, role: Role, copies: int = 1) -> Value:
        desc = latent_desc(copies * job.count, job.height, job.width, channels)
        return Value(name, desc, role)

    x, noise = latents("x", Role.CACHE), latents("noise", Role.INPUT)
    history = latents("history", Role.CACHE, HISTORY)
    steps = Value("steps", vector(MAX_CALLS * STEP_WORDS), Role.INPUT)
    words = TensorDesc(Shape(c=kernel.STATE_WORDS), DType.U32)
    state = Value("state", words, Role.STATE)
    loop = {"x": x, "steps": steps, "state": state}
    entering = layers.add("scheduler_input", loop, copies=job.copies, dtype=DType.F32)
    added = added_value(config, job.size.batch)
    time = layers.add(
        "timestep_embedding",
        {"values": steps, "state": state},
        dtype=DType.F32,
        channels=config.block_out_channels[0],
        count=1 if added is None else job.size.batch,  # alone it is the same for all
        flip=config.flip_sin_to_cos,
        freq_shift=config.freq_shift,
    )
    condition = condition_value(model.files, job.size)
    predicted, keys = build_unet(
        layers, config, job.size, entering, time, added, condition=condition
    )
    shown = latents("shown", Role.CACHE)
    kept = {"history": history, "noise": noise, "shown": shown}
    layers.change("scheduler_step", {**loop, "model": predicted, **kept})
    init = init_noise = mask = None
    if job.inpaint and condition is None:
        init, init_noise = latents("init", Role.INPUT), latents("init_noise", Role.INPUT)
        mask = Value("mask", latent_desc(1, job.height, job.width, 1), Role.INPUT)
        layers.change("inpaint_blend", {**loop, "init": init, "noise": init_noise, "mask": mask})
    factors = Value("factors", vector(4 * channels + 4), Role.INPUT)
    pixels = job.count * job.height * job.width
    bytes_of = TensorDesc(Shape(w=-(-pixels // 4), c=4), DType.U32)
    preview = Value("preview", bytes_of, Role.OUTPUT)
    layers.add("to_rgba", {"x": shown, "factors": factors}, out=preview)
    layers.change("advance_step", {"state": state})
    return StepGraph(
        layers.graph,
        x,
        steps,
        state,
        history,
        noise,
        added,
        factors,
        preview,
        shown,
        keys,
        init,
        init_noise,
        mask,
        condition,
    )


def step_table(schedule: Schedule, guidance: float) -> Floats:
    """The step kernel's table, f32 ``[MAX_CALLS, STEP_WORDS]``, of a schedule."""
    packed = kernel.pack_steps(
        [_factors(schedule, call, guidance) for call in range(schedule.calls)]
    )
    table = np.zeros((MAX_CALLS, STEP_WORDS), np.float32)
    table[: len(packed)] = packed
    return table


def _factors(schedule: Schedule, call: int, guidance: float) -> kernel.StepFactors:
    in_scale, k_x, k_m, clip = schedule.table[call, :4].tolist()
    # The kernel's columns: x, model, what is kept, noise, denoised.
    x, model, denoised, *rest = schedule.table[call, 4:].reshape(len(ROWS), len(COLUMNS)).T
    factors = np.stack([x, model, *rest, denoised], axis=1)
    signal, noise = schedule.levels[call + 1]
    return kernel.StepFactors(
        timestep=float(schedule.timesteps[call]),
        x=factors[0].tolist(),
        kept=[row.tolist() for row in factors[1:]],
        guidance=guidance,
        in_scale=in_scale,
        init_scale=float(signal),
        noise_scale=float(noise),
        denoised=(k_x, k_m),
        clip=clip,
    )
