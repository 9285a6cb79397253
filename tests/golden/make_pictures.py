"""Make the golden pictures of the tiny models with diffusers; run once, by hand.

    python tests/golden/make_pictures.py             (writes tests/golden/image/pictures.npz)

Each case of tests/image/picture_cases.py is drawn by diffusers' own pipeline, in 32-bit floats,
with the model that tests/image/tiny_pipelines.py writes. Noise is the engine's: what the pipeline
and its scheduler draw at random is taken from engine.image.noise by the number of the denoiser's
call.

Needs torch, diffusers, peft and transformers 4, which the tests themselves do not. (With the fifth
version of transformers, diffusers 0.42 leaves LoRA weights of text encoders out.)
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from diffusers import AutoencoderKL, DiffusionPipeline
from diffusers.pipelines.stable_diffusion import pipeline_stable_diffusion_img2img as img2img
from diffusers.pipelines.stable_diffusion import pipeline_stable_diffusion_inpaint as inpaint
from diffusers.pipelines.stable_diffusion_xl import pipeline_stable_diffusion_xl_img2img as xl
from diffusers.schedulers import scheduling_euler_ancestral_discrete, scheduling_lcm
from make_schedulers import TWINS
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from image.picture_cases import CASES, Case, Words, mask_picture, start_picture  # noqa: E402
from image.tiny_loras import write_lora  # noqa: E402
from image.tiny_pipelines import KINDS, parts_of, write_model, write_vae  # noqa: E402

from engine.image.noise import noise, step_noise  # noqa: E402

OUT = Path(__file__).parent / "image" / "pictures.npz"


class Draws:
    """Stands in for all random numbers of a run."""

    def __init__(self, seed: int, shape: tuple[int, ...]) -> None:
        self.seed, self.shape, self.call = seed, shape, 0
        self._first: tuple[float, float, np.ndarray] | None = None

    def start(self, *_: Any, **__: Any) -> torch.Tensor:
        return torch.from_numpy(noise(self.seed, 1, self.shape))

    def fresh(self, *_: Any, **__: Any) -> torch.Tensor:
        """The noise of the call in progress."""
        return torch.from_numpy(step_noise(self.seed, 1, self.shape, self.call))

    def brownian(self, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        """Increments of one path: the second stage's holds the first stage's."""
        made, width = self.fresh().numpy(), float(start - end)
        if self._first is not None and abs(self._first[0] - float(start)) < 1e-4 * float(start):
            before, first = self._first[1:]
            made = (before**0.5 * first + (width - before) ** 0.5 * made) / width**0.5
            self._first = None
        else:
            self._first = (float(start), width, made)
        return torch.from_numpy(made.astype(np.float32))

    def follow(self, scheduler: Any) -> None:
        """Count the scheduler's steps, and give it our noise."""
        step = scheduler.step

        def counted(*arguments: Any, **options: Any) -> Any:
            made = step(*arguments, **options)
            self.call += 1
            return made

        scheduler.step = counted
        if hasattr(scheduler, "noise_sampler"):
            scheduler.noise_sampler = self.brownian
            reset = scheduler.set_timesteps

            def again(*arguments: Any, **options: Any) -> None:
                reset(*arguments, **options)
                scheduler.noise_sampler = self.brownian

            scheduler.set_timesteps = again
        for module in (scheduling_euler_ancestral_discrete, scheduling_lcm):
            module.randn_tensor = self.fresh
        for module in (img2img, inpaint, xl):
            module.randn_tensor = self.start
            module.retrieve_latents = mean


def mean(output: Any, *_: Any, **__: Any) -> torch.Tensor:
    """The encoder's mean, where the pipeline would draw around it."""
    return output.latents if hasattr(output, "latents") else output.latent_dist.mean


def opened(folder: Path, kind: str) -> Any:
    """The pipeline of a kind of model; checks that every number arrived."""
    path = folder / kind
    if not path.exists():
        write_model(path, kind)
    pipe = DiffusionPipeline.from_pretrained(path, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    if kind == "taesd":  # which diffusers takes for an autoencoder of one block
        pipe.vae_scale_factor = 4
    for part, (_, shapes) in parts_of(KINDS[kind]).items():
        count = sum(int(np.prod(shape)) for shape in shapes.values())
        state = getattr(pipe, part).state_dict()
        assert count == sum(value.numel() for value in state.values()), part
    return pipe


def encoded(pipe: Any, words: Words, clip_skip: int | None) -> tuple[torch.Tensor, Any]:
    """Hidden states of all chunks end to end, weighed, and the first one's pooled text (SDXL).

    Written from the rules, not from the engine. A1111's rule: multiply the rows of weighed tokens,
    then bring back the mean of all numbers.
    """
    double = hasattr(pipe, "text_encoder_2")
    options = {"clip_skip": clip_skip, "do_classifier_free_guidance": False}
    made = [
        pipe.encode_prompt(text, device="cpu", num_images_per_prompt=1, **options)
        for text in words.chunks
    ]
    hidden = torch.cat([each[0] for each in made]).clone()
    before = hidden.mean()
    for position, weight in words.weights.items():
        hidden[0, position] *= weight
    if words.weights:
        hidden *= before / hidden.mean()
    return hidden.reshape(1, -1, hidden.shape[-1]), made[0][2] if double else None


def drawn(folder: Path, case: Case) -> np.ndarray:
    """The picture of a case, uint8 [h, w, 3]."""
    pipe, settings = opened(folder, case.kind), dict(case.settings)
    width, height = settings["width"], settings["height"]
    twin, more = TWINS[settings["sampler"]]
    pipe.scheduler = getattr(diffusers, twin).from_config(pipe.scheduler.config, **more)
    factor = pipe.vae_scale_factor
    draws = Draws(settings["seed"], (4, height // factor, width // factor))
    draws.follow(pipe.scheduler)
    if case.other_vae:
        pipe.vae = AutoencoderKL.from_pretrained(write_vae(folder / "other-vae"))
    for name, _ in case.loras:
        pipe.load_lora_weights(write_lora(folder / f"{name}.safetensors", name), adapter_name=name)
    if case.loras:
        names, weights = zip(*case.loras, strict=True)
        pipe.set_adapters(list(names), adapter_weights=list(weights))
    clip_skip = settings.get("clip_skip", 1) - 1 or None
    options: dict[str, Any] = {
        "num_inference_steps": settings["steps"],
        "guidance_scale": settings["guidance"],
        "output_type": "np",
        "clip_skip": clip_skip,
    }
    if case.words is not None and case.unwanted is not None:
        for side, words in (("", case.words), ("negative_", case.unwanted)):
            options[f"{side}prompt_embeds"], pooled = encoded(pipe, words, clip_skip)
            if pooled is not None:
                options[f"{side}pooled_prompt_embeds"] = pooled
    else:
        options["prompt"] = settings["prompt"]
        options["negative_prompt"] = settings["negative"] or None
    if not case.init:
        picture = pipe(latents=draws.start(), height=height, width=width, **options).images[0]
    else:
        picture = from_picture(pipe, case, options)
    assert draws.call == len(pipe.scheduler.timesteps) or case.init
    return np.asarray(np.rint(np.clip(picture, 0, 1) * 255), np.uint8)


def from_picture(pipe: Any, case: Case, options: dict[str, Any]) -> np.ndarray:
    """Image to image, or inpainting; what the mask keeps is put back, as our engine does."""
    double = hasattr(pipe, "text_encoder_2")
    kept = start_picture().astype(np.float32) / 255
    options |= {"image": Image.fromarray(start_picture()), "strength": case.settings["strength"]}
    if not case.mask:
        kind = (
            xl.StableDiffusionXLImg2ImgPipeline
            if double
            else img2img.StableDiffusionImg2ImgPipeline
        )
        again = kind(**parts(pipe, double))
        again.set_progress_bar_config(disable=True)
        return again(**options).images[0]
    again = inpaint.StableDiffusionInpaintPipeline(**parts(pipe, double))
    again.set_progress_bar_config(disable=True)
    options |= {name: case.settings[name] for name in ("height", "width")}
    made = again(mask_image=Image.fromarray(mask_picture()), **options).images[0]
    part = mask_picture()[..., None] / 255
    return made * part + kept * (1 - part)


def parts(pipe: Any, double: bool) -> dict[str, Any]:
    return dict(pipe.components) | ({} if double else {"requires_safety_checker": False})


def main() -> None:
    """Draw all cases, or again those whose names hold the first argument."""
    warnings.simplefilter("ignore")
    diffusers.logging.set_verbosity_error()
    diffusers.logging.disable_progress_bar()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(2)
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    made = dict(np.load(OUT)) if chosen else {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        made |= {name: drawn(Path(folder), case) for name, case in CASES.items() if chosen in name}
    made = {name: made[name] for name in CASES}
    for name, picture in made.items():
        clipped = float(np.mean((picture == 0) | (picture == 255)))
        print(f"{name}: {picture.shape}, spread {picture.std():.0f}, clipped {clipped:.1%}")
    np.savez_compressed(OUT, **made)
    print(len(made), "pictures,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
