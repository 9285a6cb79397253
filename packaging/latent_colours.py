"""Fit the live preview's colours of a model and keep them beside its autoencoder; run by hand.

    python packaging/latent_colours.py [FOLDER]       (default: assets/starter-image)

Draws the model's example prompts in few steps and fits, over all of them, the linear map from
latents to the colours of the finished pictures. It belongs to the autoencoder: a denoiser that is
trained again for the same latents keeps it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from engine.gpu.device import open_device  # noqa: E402
from engine.image.engine import ImageEngine  # noqa: E402
from engine.image.latent_colours import FILE, Colours, Learned  # noqa: E402
from engine.image.settings import ImageSettings  # noqa: E402

STEPS, HELD_BACK = 10, 4  # of a picture; pictures that the fit is measured on


def pairs(folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Latents and pictures of the model's example prompts."""
    prompts = json.loads((folder / "about.json").read_text("utf-8"))["example_prompts"]
    made: list[tuple[np.ndarray, np.ndarray]] = []
    device = open_device()
    engine = ImageEngine(device)
    engine.load(folder)
    vae = engine.pipeline.stages.vae
    decode = vae.decode

    def watched(latents: np.ndarray, *rest: Any) -> Any:
        answer = decode(latents, *rest)
        if answer is not None:
            made.append((latents, answer[0]))
        return answer

    with mock.patch.object(vae, "decode", watched):
        for seed, prompt in enumerate(prompts):
            engine.generate(ImageSettings(prompt, steps=STEPS, seed=seed))
    engine.close()
    device.close()
    return made


def off_by(colours: Colours, latents: np.ndarray, picture: np.ndarray) -> float:
    """Mean difference of a preview and its picture, of 255."""
    height, width = latents.shape[:2]
    blocks = picture.reshape(height, picture.shape[0] // height, width, -1, 3).mean((1, 3))
    shown = np.clip(latents @ colours.matrix.T + colours.offset, -1, 1)
    return float(np.abs(shown - np.clip(blocks, -1, 1)).mean() * 127.5)


def fitted(known: list[tuple[np.ndarray, np.ndarray]]) -> Colours:
    learned = Learned(known[0][0].shape[2])
    for latents, picture in known:
        learned.add(latents, np.clip(picture, -1, 1))
    colours = learned.colours()
    assert colours is not None
    return colours


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "assets" / "starter-image"
    made = pairs(folder)
    tried = fitted(made[HELD_BACK:])
    worst = [off_by(tried, *pair) for pair in made[:HELD_BACK]]
    print("off by, on pictures held back:", ", ".join(f"{value:.1f}" for value in worst), "of 255")
    out = folder / "vae" / FILE
    out.write_text(json.dumps(fitted(made).as_json(), indent=1) + "\n", "utf-8")
    print(out)


if __name__ == "__main__":
    main()
