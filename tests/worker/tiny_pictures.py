"""A whole picture model of random weights, put together from the golden networks."""

from __future__ import annotations

import json
import shutil
import string
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "image"
NETWORKS = {
    "unet": ("unet-sd1", "diffusion_pytorch_model.safetensors"),
    "vae": ("vae-kl", "diffusion_pytorch_model.safetensors"),
    "text_encoder": ("text-vitl", "model.safetensors"),
}
INDEX = {
    "_class_name": "StableDiffusionPipeline",
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "scheduler": ["diffusers", "DDIMScheduler"],
}
SCHEDULER = {"_class_name": "DDIMScheduler", "beta_schedule": "scaled_linear", "steps_offset": 1}


def make_pictures(folder: Path, steps: int = 2) -> Path:
    """A diffusers folder whose own choice is ``steps`` steps of 64 x 64."""
    for name, (golden, file) in NETWORKS.items():
        (folder / name).mkdir(parents=True)
        shutil.copy(GOLDEN / golden / "config.json", folder / name / "config.json")
        shutil.copy(GOLDEN / golden / "model.safetensors", folder / name / file)
    letters = [*string.ascii_lowercase, *(letter + "</w>" for letter in string.ascii_lowercase)]
    words = [*letters, "<|startoftext|>", "<|endoftext|>"]
    _write(folder / "tokenizer" / "vocab.json", {word: i for i, word in enumerate(words)})
    (folder / "tokenizer" / "merges.txt").write_text("#version: 0.2\n")
    _write(folder / "scheduler" / "scheduler_config.json", SCHEDULER)
    _write(folder / "model_index.json", INDEX)
    about = {"title": "Tiny", "licence": "CC0-1.0", "defaults": {"steps": steps, "guidance": 3.0}}
    _write(folder / "about.json", {**about, "good_at": ["noise"], "example_prompts": ["abc"]})
    return folder


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
