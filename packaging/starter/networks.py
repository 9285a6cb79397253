"""The three networks of the model: their shapes, and their weights in a diffusers folder."""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

LATENT_CHANNELS = 8
LATENT_SIZE = 16  # a side, of pictures of 128
TEXT_WIDTH = 256
STEPS = 1000  # of the noise schedule
BETAS = (0.00085, 0.02)  # the square roots lie evenly between
PART_BYTES = 14 * 2**20  # of the files that hold the UNet after training
TEXT_PREFIX = "text_model."

VAE: dict[str, Any] = {
    "in_channels": 3,
    "out_channels": 3,
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "block_out_channels": [32, 64, 96, 128],
    "layers_per_block": 1,
    "latent_channels": LATENT_CHANNELS,
    "norm_num_groups": 16,
    "sample_size": 128,
    "act_fn": "silu",
}
UNET: dict[str, Any] = {
    "sample_size": LATENT_SIZE,
    "in_channels": LATENT_CHANNELS,
    "out_channels": LATENT_CHANNELS,
    "block_out_channels": [128, 192],
    "layers_per_block": 2,
    "down_block_types": ["CrossAttnDownBlock2D"] * 2,
    "up_block_types": ["CrossAttnUpBlock2D"] * 2,
    "cross_attention_dim": TEXT_WIDTH,
    "attention_head_dim": 4,
    "norm_num_groups": 32,
}
TEXT: dict[str, Any] = {
    "hidden_size": TEXT_WIDTH,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "hidden_act": "quick_gelu",
    "projection_dim": 256,
    "attention_dropout": 0.0,
    "initializer_factor": 1.0,
    "layer_norm_eps": 1e-5,
}


class WeightsError(Exception):
    """Weights do not fit the network; the sentence names some."""


@dataclass(frozen=True)
class Networks:
    """The model in training, on one device."""

    vae: nn.Module
    unet: nn.Module
    text: nn.Module
    scaling: float  # latents times this have a deviation of about 1


def text_shape(vocabulary: int, start: int, end: int, length: int) -> dict[str, Any]:
    """The text encoder's configuration for a tokenizer."""
    marks = {"bos_token_id": start, "eos_token_id": end, "pad_token_id": end}
    return TEXT | marks | {"vocab_size": vocabulary, "max_position_embeddings": length}


def new_networks(text: dict[str, Any], device: str) -> Networks:
    """Fresh networks; the scaling is only known when the VAE is trained."""
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    return Networks(
        vae=AutoencoderKL(**VAE).to(device),
        unet=UNet2DConditionModel(**UNET).to(device),
        text=CLIPTextModel(CLIPTextConfig(**text)).to(device),
        scaling=1.0,
    )


def load_networks(
    folder: Path, text: dict[str, Any], device: str, fresh_unet: bool = False
) -> Networks:
    """Networks with the weights of a diffusers folder, as float32. Raises WeightsError."""
    networks = new_networks(text, device)
    weights = "diffusion_pytorch_model.safetensors"
    fill(networks.vae, load_file(folder / "vae" / weights))
    if not fresh_unet:
        fill(networks.unet, load_file(folder / "unet" / weights))
    fill(networks.text, load_file(folder / "text_encoder" / "model.safetensors"))
    config = json.loads((folder / "vae" / "config.json").read_text("utf-8"))
    return Networks(networks.vae, networks.unet, networks.text, float(config["scaling_factor"]))


def fill(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy all weights into a network. Raises WeightsError."""
    given = {name.removeprefix(TEXT_PREFIX): value for name, value in weights.items()}
    wanted = {name.removeprefix(TEXT_PREFIX): value for name, value in network.named_parameters()}
    differing = sorted(given.keys() ^ wanted.keys())
    if differing:
        raise WeightsError(f"These weights are on one side only: {', '.join(differing[:5])}.")
    with torch.no_grad():
        for name, parameter in wanted.items():
            if parameter.shape != given[name].shape:
                raise WeightsError(f"The shape of {name} is {tuple(given[name].shape)}.")
            parameter.copy_(given[name])


def halves(names: Iterable[str], values: Iterable[Tensor]) -> dict[str, Tensor]:
    """Weights as float16 on the CPU, ready to be saved."""
    pairs = zip(names, values, strict=True)
    return {name: value.detach().half().contiguous().cpu() for name, value in pairs}


def save_unet(folder: Path, weights: dict[str, Tensor]) -> list[Path]:
    """The UNet in files of at most about PART_BYTES."""
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for name in sorted(weights):
        length = weights[name].numel() * weights[name].element_size()
        if parts[-1] and size + length > PART_BYTES:
            parts.append({})
            size = 0
        parts[-1][name] = weights[name]
        size += length
    paths = [folder / f"unet_{number}.safetensors" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        save_file(part, path)
    return paths


def save_text(folder: Path, weights: dict[str, Tensor]) -> Path:
    """The text encoder, with the names that all readers know."""
    path = folder / "text.safetensors"
    named = {TEXT_PREFIX + name.removeprefix(TEXT_PREFIX): w for name, w in weights.items()}
    save_file(named, path)
    return path


def signal_shares(device: str) -> Tensor:
    """How much of the picture is left at each step of the noise schedule [STEPS]."""
    roots = torch.linspace(BETAS[0] ** 0.5, BETAS[1] ** 0.5, STEPS, dtype=torch.float64)
    return torch.cumprod(1 - roots**2, 0).float().to(device)
