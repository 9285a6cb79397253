"""Whole tiny picture models of every kind, as diffusers folders; their numbers follow from names.

The golden pictures' maker (tests/golden/make_pictures.py) and the tests write the same folders, so
that no weights need be kept. Numbers are exact in 16 bits unless another type is asked for.
"""

from __future__ import annotations

import json
import string
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.formats.diffusers_configs import (
    read_text_config,
    read_tiny_vae_config,
    read_unet_config,
    read_vae_config,
)
from engine.formats.diffusers_names import (
    text_tensors,
    tiny_vae_tensors,
    unet_tensors,
    vae_tensors,
)
from engine.formats.safetensors import write_safetensors

Numbers = Callable[[str, tuple[int, ...]], np.ndarray]
CLIP_MERGES = Path(__file__).parents[2] / "assets" / "clip-tokenizer" / "merges.txt"
WEIGHTS = "diffusion_pytorch_model.safetensors"
WIDTH, HEIGHT = 64, 80  # pixels of the pictures; latents are a quarter
MERGES = ("r e", "re d</w>", "a p", "ap p", "app l", "appl e</w>", "s k", "sk y</w>")

#: Factors that keep pictures from clipping, and make them depend on the prompt.
LOUDNESS = {
    "vae.decoder.conv_out": 0.8,
    "vae.decoder.layers": 0.7,
    "attn2.to_out": 3.0,
    "time_emb_proj": 2.0,
}

_TEXT = {
    "model_type": "clip_text_model",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "max_position_embeddings": 77,
    "hidden_act": "quick_gelu",
}
_OPEN_TEXT = {**_TEXT, "hidden_act": "gelu", "projection_dim": 16}
_UNET = {
    "sample_size": 16,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": [16, 16],
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    "layers_per_block": 1,
    "norm_num_groups": 8,
    "cross_attention_dim": 32,
    "attention_head_dim": 2,
}
_SDXL_UNET = {
    **_UNET,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "cross_attention_dim": 64,
    "attention_head_dim": [1, 2],
    "transformer_layers_per_block": [1, 2],
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 16 + 6 * 8,
}
_VAE = {
    "_class_name": "AutoencoderKL",
    "block_out_channels": [8, 8, 8],
    "down_block_types": ["DownEncoderBlock2D"] * 3,
    "up_block_types": ["UpDecoderBlock2D"] * 3,
    "layers_per_block": 1,
    "latent_channels": 4,
    "norm_num_groups": 4,
    "sample_size": 64,
    "scaling_factor": 0.7,
}
TINY_VAE = {
    "_class_name": "AutoencoderTiny",
    "encoder_block_out_channels": [8, 8, 8],
    "decoder_block_out_channels": [8, 8, 8],
    "num_encoder_blocks": [1, 1, 1],
    "num_decoder_blocks": [1, 1, 1],
    "latent_channels": 4,
}
# What a checkpoint's tensors tell is like this: heads and groups follow the family. One level each.
_FILE_UNET = {
    "sample_size": 64,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": [64],
    "down_block_types": ["CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D"],
    "layers_per_block": 1,
    "cross_attention_dim": 32,
    "attention_head_dim": 8,
}
_FILE_XL_UNET = {
    **_FILE_UNET,
    "cross_attention_dim": 64,
    "attention_head_dim": 1,
    "transformer_layers_per_block": 2,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 16 + 6 * 8,
}
_FILE_VAE = {
    "_class_name": "AutoencoderKL",
    "block_out_channels": [32, 32],
    "down_block_types": ["DownEncoderBlock2D"] * 2,
    "up_block_types": ["UpDecoderBlock2D"] * 2,
    "layers_per_block": 1,
    "latent_channels": 4,
    "scaling_factor": 0.18215,
}
_SMALL_UNET = {
    **_UNET,
    "block_out_channels": [16],
    "down_block_types": ["CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D"],
}
_FILE_TEXT = {**_TEXT, "num_attention_heads": 1}
_FILE_OPEN_TEXT = {**_OPEN_TEXT, "num_attention_heads": 1}
STABLE = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "clip_sample": False,
    "set_alpha_to_one": False,
    "steps_offset": 1,
    "timestep_spacing": "leading",
}


@dataclass(frozen=True)
class Kind:
    """One kind of model: the JSON of its parts, and the scheduler's class and JSON."""

    unet: Mapping[str, Any]
    texts: tuple[Mapping[str, Any], ...]
    scheduler: str
    schedule: Mapping[str, Any]
    vae: Mapping[str, Any] = field(default_factory=lambda: _VAE)
    zeros: bool = True  # for an empty negative prompt
    whole_vocabulary: bool = False  # CLIP's own words, as a checkpoint's tokenizer has them


_LINEAR_UNET = {**_UNET, "attention_head_dim": [2, 2], "use_linear_projection": True}
_V = {**STABLE, "prediction_type": "v_prediction"}
_TURBO = {**STABLE, "timestep_spacing": "trailing", "steps_offset": 0}

KINDS: dict[str, Kind] = {
    "sd1": Kind(_UNET, (_TEXT,), "DDIMScheduler", STABLE),
    "sd2": Kind(_LINEAR_UNET, (_OPEN_TEXT,), "DDIMScheduler", _V),
    "zero-snr": Kind(
        _LINEAR_UNET,
        (_OPEN_TEXT,),
        "DDIMScheduler",
        {**_V, "rescale_betas_zero_snr": True, "timestep_spacing": "trailing"},
    ),
    "sdxl": Kind(_SDXL_UNET, (_TEXT, _OPEN_TEXT), "EulerDiscreteScheduler", STABLE),
    "sdxl-words": Kind(
        _SDXL_UNET, (_TEXT, _OPEN_TEXT), "EulerDiscreteScheduler", STABLE, zeros=False
    ),
    "sd-turbo": Kind(_LINEAR_UNET, (_OPEN_TEXT,), "EulerDiscreteScheduler", _TURBO),
    "sdxl-turbo": Kind(_SDXL_UNET, (_TEXT, _OPEN_TEXT), "EulerAncestralDiscreteScheduler", _TURBO),
    "lcm": Kind(
        {**_UNET, "time_cond_proj_dim": 32},
        (_TEXT,),
        "LCMScheduler",
        {**STABLE, "original_inference_steps": 50},
    ),
    "taesd": Kind(_UNET, (_TEXT,), "DDIMScheduler", STABLE, TINY_VAE),
    "sd1-file": Kind(
        _FILE_UNET,
        (_FILE_TEXT,),
        "EulerDiscreteScheduler",
        STABLE,
        _FILE_VAE,
        whole_vocabulary=True,
    ),
    "sdxl-file": Kind(
        _FILE_XL_UNET,
        (_FILE_TEXT, _FILE_OPEN_TEXT),
        "EulerDiscreteScheduler",
        STABLE,
        _FILE_VAE,
        whole_vocabulary=True,
    ),
    # One level: for what is drawn with many kinds of kernels.
    "small": Kind(_SMALL_UNET, (_TEXT,), "DDIMScheduler", STABLE),
    "inpaint": Kind({**_UNET, "in_channels": 9}, (_TEXT,), "DDIMScheduler", STABLE),
    "instruct": Kind({**_UNET, "in_channels": 8}, (_TEXT,), "DDIMScheduler", STABLE),
    "inpaint-xl": Kind(
        {**_SDXL_UNET, "in_channels": 9}, (_TEXT, _OPEN_TEXT), "EulerDiscreteScheduler", STABLE
    ),
}


def raw_numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of a tensor that keep activations near 1: float32, evenly spread around 0 (or 1)."""
    generator = np.random.Philox(key=zlib.crc32(name.encode()))
    count = int(np.prod(shape))
    even = (generator.random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1
    if len(shape) > 1:
        made = even * (3 / np.prod(shape[1:])) ** 0.5
    elif name.endswith("bias"):
        made = even * 0.2
    else:
        made = 1 + even * 0.3
    return made.reshape(shape).astype(np.float32)


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The same, exact in 16 bits."""
    scale = next((scale for mark, scale in LOUDNESS.items() if mark in name), 1.0)
    shift = 0.75 if name.startswith("vae.decoder.layers.9.bias") else 0.0  # of TAESD, to grey
    return (raw_numbers(name, shape) * np.float32(scale) + np.float32(shift)).astype(np.float16)


def parts_of(kind: Kind) -> dict[str, tuple[Mapping[str, Any], Mapping[str, tuple[int, ...]]]]:
    """Each network's JSON and the shapes of its tensors under diffusers' names."""
    unet, vae = dict(kind.unet), dict(kind.vae)
    tiny = vae["_class_name"] == "AutoencoderTiny"
    shapes = tiny_vae_tensors(read_tiny_vae_config(vae)) if tiny else None
    parts: dict[str, Any] = {
        "unet": (unet, unet_tensors(read_unet_config(unet))),
        "vae": (vae, shapes or vae_tensors(read_vae_config(vae))),
    }
    for index, text in enumerate(kind.texts):
        config = {**text, **_ends(words_of(kind))}
        projected = index == 1
        shapes = text_tensors(read_text_config(config, projected=projected))
        parts["text_encoder_2" if index else "text_encoder"] = (config, shapes)
    return parts


def write_model(folder: Path, name: str, make: Numbers = numbers, seeds: str = "") -> Path:
    """The folder of a kind of model; ``seeds`` changes all numbers."""
    kind = KINDS[name]
    for part, (config, shapes) in parts_of(kind).items():
        stem = "model.safetensors" if part.startswith("text") else WEIGHTS
        (folder / part).mkdir(parents=True, exist_ok=True)
        _write(folder / part / "config.json", config)
        label = "vae" if part == "vae" else part
        tensors = {key: make(f"{label}.{key}{seeds}", shape) for key, shape in shapes.items()}
        write_safetensors(folder / part / stem, tensors)
    for index, text in enumerate(kind.texts):
        pad = "!" if text["hidden_act"] == "gelu" else "<|endoftext|>"
        write_tokenizer(folder / ("tokenizer_2" if index else "tokenizer"), pad, kind)
    _write(
        folder / "scheduler" / "scheduler_config.json",
        {"_class_name": kind.scheduler, **kind.schedule},
    )
    _write(folder / "model_index.json", _index(kind))
    return folder


def _index(kind: Kind) -> dict[str, Any]:
    double = len(kind.texts) == 2
    index: dict[str, Any] = {
        "_class_name": "StableDiffusionXLPipeline" if double else "StableDiffusionPipeline",
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", kind.vae["_class_name"]],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "scheduler": ["diffusers", kind.scheduler],
    }
    if double:
        index["text_encoder_2"] = ["transformers", "CLIPTextModelWithProjection"]
        index["tokenizer_2"] = ["transformers", "CLIPTokenizer"]
        index["force_zeros_for_empty_prompt"] = kind.zeros
    else:
        index |= {"safety_checker": [None, None], "feature_extractor": [None, None]}
        index["requires_safety_checker"] = False
    return index


def vocabulary() -> dict[str, int]:
    """Letters, letters at a word's end, a few words, and the ends."""
    letters = ["!", *string.ascii_lowercase]
    words = ["".join(pair.split(" ")) for pair in MERGES]
    ends = ["<|startoftext|>", "<|endoftext|>"]
    known = [*letters, *(f"{letter}</w>" for letter in letters), *words, *ends]
    return {word: number for number, word in enumerate(known)}


def words_of(kind: Kind) -> dict[str, int]:
    """The vocabulary of a kind."""
    if not kind.whole_vocabulary:
        return vocabulary()
    merges = CLIP_MERGES.read_text(encoding="utf-8").splitlines()[1:]
    letters = list(bytes_to_letters())
    words = [*letters, *(f"{letter}</w>" for letter in letters)]
    words += [line.replace(" ", "") for line in merges if line]
    ends = ["<|startoftext|>", "<|endoftext|>"]
    return {word: number for number, word in enumerate([*words, *ends])}


def bytes_to_letters() -> list[str]:
    """The letters that stand for bytes, in CLIP's order: printable ones first."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + place) for place in range(len(others))]


def _ends(words: Mapping[str, int]) -> dict[str, int]:
    return {
        "vocab_size": len(words),
        "bos_token_id": words["<|startoftext|>"],
        "eos_token_id": words["<|endoftext|>"],
    }


def write_tokenizer(folder: Path, pad: str, kind: Kind) -> None:
    """vocab.json, merges.txt and the file that names the padding."""
    _write(folder / "vocab.json", words_of(kind))
    merges = "\n".join(["#version: 0.2", *MERGES, ""])
    if kind.whole_vocabulary:
        merges = CLIP_MERGES.read_text(encoding="utf-8")
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    ends = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
    more = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "pad_token": pad}
    _write(folder / "tokenizer_config.json", {**ends, "unk_token": "<|endoftext|>", **more})


def write_vae(folder: Path) -> Path:
    """Another autoencoder for the model sd1: its own numbers and scale, in a folder."""
    config, shapes = parts_of(KINDS["sd1"])["vae"]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", {**config, "scaling_factor": 0.4})
    tensors = {key: numbers(f"vae.{key} other", shape) for key, shape in shapes.items()}
    write_safetensors(folder / WEIGHTS, tensors)
    return folder


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1))
