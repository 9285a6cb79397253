"""A model folder with random weights: where training from scratch begins."""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from . import dataset, tokenizer
from .assemble import WEIGHTS
from .meaning import load_targets
from .networks import BETAS, STEPS, TEXT_PREFIX, UNET, VAE, halves, new_networks, text_shape

VERSION = "0.30.0"  # of diffusers, from which on the files are read
PARTS: dict[str, Any] = {
    "scheduler": ["diffusers", "DDIMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
    "feature_extractor": [None, None],
    "image_encoder": [None, None],
    "safety_checker": [None, None],
    "requires_safety_checker": False,
}


def make_fresh(data: Path, folder: Path, seed: int = 0) -> None:
    """Write a model with a tokenizer trained on the data set's words and untrained networks."""
    words, _ = load_targets(data)
    tokenizer.train(dataset.load_items(data), words, folder / "tokenizer")
    encoder = tokenizer.Encoder(folder / "tokenizer")
    text = text_shape(encoder.size, encoder.start, encoder.end, tokenizer.LENGTH)
    torch.manual_seed(seed)
    model = new_networks(text, "cpu")
    for name, network in (("unet", model.unet), ("text", model.text), ("vae", model.vae)):
        _save(folder / WEIGHTS[name], network, TEXT_PREFIX if name == "text" else "")
    for name, config in configs(text).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config, indent=2), "utf-8")


def configs(text: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The configuration files of a diffusers folder, by path."""
    plain = {"act_fn": "silu", "center_input_sample": False, "downsample_padding": 1}
    times = {"flip_sin_to_cos": True, "freq_shift": 0, "mid_block_scale_factor": 1}
    return {
        "model_index.json": _of("StableDiffusionPipeline", PARTS),
        "unet/config.json": _of("UNet2DConditionModel", plain | times | {"norm_eps": 1e-5} | UNET),
        "vae/config.json": _of("AutoencoderKL", VAE | {"scaling_factor": 1.0}),
        "text_encoder/config.json": {
            "architectures": ["CLIPTextModel"],
            "model_type": "clip_text_model",
            "dtype": "float16",
            **text,
        },
        "scheduler/scheduler_config.json": _of("DDIMScheduler", _scheduler()),
    }


def _scheduler() -> dict[str, Any]:
    """Noise schedule: velocity is predicted, and sampling begins at the last step."""
    return {
        "num_train_timesteps": STEPS,
        "beta_start": BETAS[0],
        "beta_end": BETAS[1],
        "beta_schedule": "scaled_linear",
        "prediction_type": "v_prediction",
        "clip_sample": False,
        "set_alpha_to_one": True,
        "steps_offset": 1,
        "timestep_spacing": "trailing",
    }


def _of(name: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"_class_name": name, "_diffusers_version": VERSION, **config}


def _save(path: Path, network: nn.Module, prefix: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    named = dict(network.named_parameters())
    names = [prefix + name.removeprefix(prefix) for name in named]
    save_file(halves(names, named.values()), path, metadata={"format": "pt"})
