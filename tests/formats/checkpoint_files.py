"""Tiny checkpoints and folders for tests, made from the golden lists of tensors."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from engine.formats.safetensors import open_safetensors, write_safetensors

ROOT = Path(__file__).resolve().parents[2]
STARTER = ROOT / "assets" / "starter-image"
GOLDEN = ROOT / "tests" / "golden" / "checkpoints"
FAMILIES = ("sd1", "sd2", "sdxl")
VAE_WEIGHTS = "diffusion_pytorch_model.safetensors"


def golden(family: str) -> dict[str, Any]:
    return json.loads(gzip.decompress((GOLDEN / f"{family}.json.gz").read_bytes()))


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The numbers that the golden files' maker gives a tensor of this name."""
    seed = zlib.crc32(name.encode())
    scrambled = (np.arange(int(np.prod(shape)), dtype=np.uint64) * 2654435761 + seed) % 65536
    return (scrambled.astype(np.float32) / 32768 - 1).reshape(shape)


def checkpoint(path: Path, family: str, *, without=(), more=None, metadata=None) -> Path:
    """A checkpoint file of the golden tensors, without those whose names start with ``without``."""
    tensors = {
        name: numbers(name, tuple(shape))
        for name, shape in golden(family)["tensors"].items()
        if not name.startswith(tuple(without))
    }
    write_safetensors(path, tensors | (more or {}), metadata)
    return path


def shard(folder: Path) -> Path:
    """Cut the UNet's weights in two files with an index; the index's path."""
    whole = folder / "unet" / "diffusion_pytorch_model.safetensors"
    with open_safetensors(whole) as file:
        names = sorted(file.tensors)
        tensors = {name: file.array(name).astype(np.float16) for name in names}
    whole.unlink()
    table = {}
    for part, chosen in enumerate((names[::2], names[1::2]), 1):
        name = f"diffusion_pytorch_model-0000{part}-of-00002.safetensors"
        write_safetensors(folder / "unet" / name, {key: tensors[key] for key in chosen})
        table |= dict.fromkeys(chosen, name)
    index = folder / "unet" / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": table}))
    return index
