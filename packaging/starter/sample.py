"""A sheet of pictures of the fixed prompts and seeds, one or more models side by side.

Drawn by Driftwood's own engine, as `driftwood image` draws, or by diffusers, which is quicker
where there is no GPU. The same way of drawing gives all models the same noise.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from .prompts import prompts

STEPS, GUIDANCE, SAMPLER = 20, 4.5, "dpmpp_2m"
SIZE, MARGIN, LABEL = 128, 4, 14  # pixels
COLUMNS = 8
BATCH = 8  # prompts that diffusers draws at once

Draw = Callable[[Path, Sequence[str], Sequence[int]], list[Image.Image]]


def sheet(path: Path, models: Sequence[Path], way: str, count: int) -> None:
    """Draw the first `count` prompts with every model and write the sheet."""
    texts = prompts()[:count]
    seeds = [1000 + number for number in range(len(texts))]
    draw = {"engine": draw_with_engine, "diffusers": draw_with_diffusers}[way]
    arranged(texts, [draw(model, texts, seeds) for model in models]).save(path)


def arranged(texts: Sequence[str], pictures: Sequence[Sequence[Image.Image]]) -> Image.Image:
    """Pictures [model][prompt] as a sheet: for each prompt the models side by side."""
    columns = max(1, COLUMNS // len(pictures))
    width, height = len(pictures) * SIZE + MARGIN, SIZE + LABEL
    lines = -(-len(texts) // columns)
    page = Image.new("RGB", (columns * width, lines * height), "white")
    pen = ImageDraw.Draw(page)
    for number, text in enumerate(texts):
        left, top = number % columns * width, number // columns * height
        for place, model in enumerate(pictures):
            page.paste(model[number], (left + place * SIZE, top))
        pen.text((left + MARGIN, top + SIZE), text, fill="black")
    return page


def draw_with_engine(model: Path, texts: Sequence[str], seeds: Sequence[int]) -> list[Image.Image]:
    """Pictures by our engine, on the best device there is."""
    from engine.gpu.device import open_device
    from engine.image.engine import ImageEngine
    from engine.image.settings import ImageSettings

    engine = ImageEngine(open_device())
    engine.load(model.absolute())
    drawn: list[Image.Image] = []
    for text, seed in zip(texts, seeds, strict=True):
        wanted = ImageSettings(
            text,
            seed=seed,
            steps=STEPS,
            guidance=GUIDANCE,
            sampler=SAMPLER,
            width=SIZE,
            height=SIZE,
        )
        pictures, _ = engine.generate(wanted)
        drawn.append(Image.fromarray(np.asarray(pictures[0])))
        print(f"{len(drawn)} of {len(texts)}: {text}", flush=True)
    return drawn


def draw_with_diffusers(
    model: Path, texts: Sequence[str], seeds: Sequence[int]
) -> list[Image.Image]:
    """Pictures by diffusers, in float32."""
    import torch
    from diffusers import DPMSolverMultistepScheduler, StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(model, torch_dtype=torch.float32)
    pipeline.scheduler = DPMSolverMultistepScheduler.from_config(pipeline.scheduler.config)
    pipeline.set_progress_bar_config(disable=True)
    drawn: list[Image.Image] = []
    for at in range(0, len(texts), BATCH):
        noises = [torch.Generator().manual_seed(seed) for seed in seeds[at : at + BATCH]]
        drawn += pipeline(
            list(texts[at : at + BATCH]),
            height=SIZE,
            width=SIZE,
            num_inference_steps=STEPS,
            guidance_scale=GUIDANCE,
            generator=noises,
        ).images
    return drawn
