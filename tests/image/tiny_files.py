"""The tiny models as checkpoints under LDM names, and in other types of numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from image.tiny_pipelines import KINDS, numbers, parts_of

from engine.formats.diffusers_configs import read_unet_config
from engine.formats.diffusers_ldm import open_clip_name, unet_namer, vae_namer

UNET, VAE = "model.diffusion_model.", "first_stage_model."
CLIP = {"sd1-file": "cond_stage_model.transformer.", "sdxl-file": "conditioner.embedders.0."}
OPEN_CLIP = "conditioner.embedders.1.model."
TYPES = {"F32": np.float32, "F16": np.float16}


def write_checkpoint(
    path: Path, name: str, *, dtype: str = "F16", vae: bool = True, metadata: bool = False
) -> Path:
    """One file with the numbers of a kind's folder, named as its first trainers named them."""
    kind = KINDS[name]
    parts = parts_of(kind)
    namer = unet_namer(read_unet_config(kind.unet))
    tensors = {UNET + namer(key): value for key, value in _numbers("unet", parts).items()}
    if vae:
        tensors |= vae_tensors(name, VAE)
    double = "text_encoder_2" in parts
    clip = f"{CLIP[name]}transformer." if double else CLIP[name]
    tensors |= {clip + key: value for key, value in _numbers("text_encoder", parts).items()}
    if double:
        tensors |= _open_clip(_numbers("text_encoder_2", parts))
    tensors["alphas_cumprod"] = np.zeros(1000, np.float32)
    write_tensors(path, tensors, dtype)
    return path


def vae_tensors(name: str, prefix: str = "", *, ldm: bool = True) -> dict[str, np.ndarray]:
    """The autoencoder of a kind, under a checkpoint's names or diffusers'."""
    parts = parts_of(KINDS[name])
    namer = vae_namer(len(parts["vae"][0]["block_out_channels"]))
    made: dict[str, np.ndarray] = {}
    for key, value in _numbers("vae", parts).items():
        square = ldm and ".attentions." in key and value.ndim == 2
        # checkpoints keep the attention's matrices as 1 x 1 convolutions
        made[prefix + (namer(key) if ldm else key)] = value[..., None, None] if square else value
    return made


def _numbers(
    part: str, parts: Mapping[str, tuple[object, Mapping[str, tuple[int, ...]]]]
) -> dict[str, np.ndarray]:
    return {key: numbers(f"{part}.{key}", shape) for key, shape in parts[part][1].items()}


def _open_clip(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """OpenCLIP's names: query, key and value in one matrix, the projection turned round."""
    made: dict[str, list[np.ndarray]] = {}
    for key, value in weights.items():  # query, key, value come in this order once sorted
        stored, third, turned = open_clip_name(key)
        rows = made.setdefault(OPEN_CLIP + stored, [value] * (1 if third is None else 3))
        rows[third or 0] = value.T if turned else value
    return {key: np.ascontiguousarray(np.concatenate(rows)) for key, rows in made.items()}


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray], dtype: str) -> Path:
    """A safetensors file of F32, F16 or BF16 numbers (rounded to nearest)."""
    header: dict[str, object] = {}
    blobs: list[bytes] = []
    place = 0
    for name, value in tensors.items():
        blob = bfloat(value).tobytes() if dtype == "BF16" else value.astype(TYPES[dtype]).tobytes()
        offsets = [place, place + len(blob)]
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": offsets}
        blobs.append(blob)
        place += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))
    return path


def bfloat(values: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers, uint16, rounded to the nearest."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def as_bfloat(values: np.ndarray) -> np.ndarray:
    """Numbers as BF16 keeps them, float32."""
    return (bfloat(values).astype(np.uint32) << 16).view(np.float32)


def retype(folder: Path, dtype: str) -> Path:
    """Write all weights of a model's folder again in another type."""
    from engine.formats.safetensors import open_safetensors

    for path in folder.rglob("*.safetensors"):
        with open_safetensors(path) as file:
            tensors = {name: np.array(file.array(name)) for name in file.tensors}
        write_tensors(path, tensors, dtype)
    return folder
