"""Make the golden pictures of tiny inpainting models with diffusers; run once, by hand.

    python tests/golden/make_inpainting.py           (writes tests/golden/image/inpainting.npz)

The models have denoisers of 9 channels: the latents, a mask, the latents of the masked picture. As
make_pictures.py, which see; "everything anew" fills a mask that is all white.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import diffusers
import numpy as np
import torch
from diffusers.pipelines.stable_diffusion_xl import pipeline_stable_diffusion_xl_inpaint as xl
from make_pictures import Draws, inpaint, mean, opened, parts
from make_schedulers import TWINS
from PIL import Image

from image.inpainting_cases import CASES, Filling, uneven_mask  # isort: skip
from image.picture_cases import NEGATIVE, PROMPT, SEED, start_picture  # isort: skip
from image.tiny_pipelines import HEIGHT, WIDTH  # isort: skip

OUT = Path(__file__).parent / "image" / "inpainting.npz"


def drawn(folder: Path, case: Filling) -> np.ndarray:
    """The picture of a case, uint8 [h, w, 3]; what the mask keeps is put back."""
    pipe = opened(folder, case.kind)
    twin, more = TWINS[case.sampler]
    pipe.scheduler = getattr(diffusers, twin).from_config(pipe.scheduler.config, **more)
    draws = Draws(SEED, (4, HEIGHT // pipe.vae_scale_factor, WIDTH // pipe.vae_scale_factor))
    draws.follow(pipe.scheduler)
    xl.randn_tensor, xl.retrieve_latents = draws.start, mean
    double = hasattr(pipe, "text_encoder_2")
    module = xl if double else inpaint
    kind = (
        module.StableDiffusionXLInpaintPipeline if double else module.StableDiffusionInpaintPipeline
    )
    again = kind(**parts(pipe, double))
    again.set_progress_bar_config(disable=True)
    white = np.full((HEIGHT, WIDTH), 255, np.uint8)
    mask = uneven_mask() if case.masked else white
    made = again(
        prompt=PROMPT,
        negative_prompt=NEGATIVE,
        image=Image.fromarray(start_picture()),
        mask_image=Image.fromarray(mask),
        height=HEIGHT,
        width=WIDTH,
        strength=case.strength,
        num_inference_steps=5,
        guidance_scale=5.0,
        output_type="np",
    ).images[0]
    part = mask[..., None] / 255
    made = made * part + start_picture() / 255 * (1 - part)
    return np.asarray(np.rint(np.clip(made, 0, 1) * 255), np.uint8)


def main() -> None:
    """Draw all cases."""
    warnings.simplefilter("ignore")
    diffusers.logging.set_verbosity_error()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        made = {name: drawn(Path(folder), case) for name, case in CASES.items()}
    for name, picture in made.items():
        print(f"{name}: {picture.shape}, spread {picture.std():.0f}")
    np.savez_compressed(OUT, **made)
    print(len(made), "pictures,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
