"""Tiny autoencoders (TAESD) by themselves, in any of the layouts that they come in.

* diffusers' AutoencoderTiny: a folder with config.json, or its weights alone (decoder.layers.1...);
* TAESD's own: ``taesd_encoder.safetensors`` and ``taesd_decoder.safetensors``, whose tensors are
  numbered through, the decoder's one later than diffusers' because it begins with a clamp.

A live preview needs the decoder only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.formats.diffusers_configs import TinyVaeConfig, read_tiny_vae_config
from engine.formats.diffusers_folder import open_vae_folder
from engine.formats.diffusers_names import tiny_vae_tensors
from engine.formats.diffusers_types import VaeFiles
from engine.formats.diffusers_weights import Weight, WeightSource, check_weights
from engine.formats.errors import FormatError, UnsupportedFile
from engine.formats.safetensors import SafetensorsFile, open_safetensors

SIDES = ("encoder", "decoder")
_NUMBERED = re.compile(r"(\d{1,3})\.((?:conv\.\d\.)?(?:weight|bias))")
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d{1,3})\.(.+)")
_NAMES = {"sdxl": "taesdxl"}  # of the files for a family; else "taesd"

Stored = dict[str, tuple[SafetensorsFile, str]]


def is_preview(path: Path) -> bool:
    """Whether a file beside models is by its name a tiny autoencoder for previews, and no model."""
    return path.name.lower().startswith("taesd")


def side_of(file: SafetensorsFile) -> str | None:
    """Which half of TAESD's own layout a file is, or None where it is none."""
    if not file.tensors or not all(_NUMBERED.fullmatch(name) for name in file.tensors):
        return None
    # Each begins with a convolution of what it reads; the decoder's has the number 1.
    return "encoder" if "0.weight" in file.tensors else "decoder"


def is_tiny(file: SafetensorsFile) -> bool:
    """Whether a file holds a tiny autoencoder, or half of one."""
    return "decoder.layers.0.weight" in file.tensors or side_of(file) is not None


def open_tiny_file(file: SafetensorsFile, *, decoder_only: bool = False) -> VaeFiles:
    """The tiny autoencoder in an open file, with the other half beside it.

    The result closes the file; when something goes wrong the caller does.

    Raises:
        UnsupportedFile: there is only half of it and more is wanted.
        FormatError: it is not whole.
    """
    files = [file]
    try:
        stored = _stored(file, files, decoder_only)
        shapes = {name: place.tensors[own].shape for name, (place, own) in stored.items()}
        config = read_tiny_vae_config(_inferred(shapes), file.path.name)
        return VaeFiles(config, _source(stored, config, decoder_only), tuple(files), True)
    except FormatError:
        for other in files[1:]:
            other.close()
        raise


def open_preview(path: Path, channels: int) -> VaeFiles:
    """The decoder of a tiny autoencoder for latents of so many channels: a file or a folder.

    Raises FormatError where it is none.
    """
    if path.is_dir():
        made = open_vae_folder(path)
    else:
        file = open_safetensors(path)
        try:
            if not is_tiny(file):
                raise UnsupportedFile(f"{path.name} holds no tiny autoencoder (TAESD).")
            made = open_tiny_file(file, decoder_only=True)
        except FormatError:
            file.close()
            raise
    if not isinstance(made.config, TinyVaeConfig) or made.config.latent_channels != channels:
        for file in made.files:
            file.close()
        raise UnsupportedFile(
            f"{path.name} is no tiny autoencoder (TAESD) for latents of {channels} channels."
        )
    return made


def find_preview(model: Path, family: str) -> Path | None:
    """A tiny autoencoder in a model's folder, or beside the model, under its usual names."""
    name = _NAMES.get(family, "taesd")
    places = [model, model.parent] if model.is_dir() else [model.parent]
    for place in places:
        for candidate in (f"{name}_decoder.safetensors", f"{name}.safetensors"):
            if (place / candidate).is_file() and place / candidate != model:
                return place / candidate
        if (place / name / "config.json").is_file():
            return place / name
    return None


def _stored(file: SafetensorsFile, files: list[SafetensorsFile], decoder_only: bool) -> Stored:
    """Where the tensors lie, by diffusers' names; what is opened besides is added to ``files``."""
    side = side_of(file)
    if side is None:
        return {name: (file, name) for name in file.tensors if _LAYER.fullmatch(name)}
    stored = dict(_renamed(file, side))
    if decoder_only and side == "decoder":
        return stored
    wanted = SIDES[1 - SIDES.index(side)]
    beside = file.path.with_name(file.path.name.replace(side, wanted))
    if beside == file.path or not beside.is_file():
        name = beside.name if beside != file.path else f"taesd_{wanted}.safetensors"
        raise UnsupportedFile(
            f"{file.path.name} is only the {side} of a tiny autoencoder. Put {name} beside it."
        )
    files.append(open_safetensors(beside))
    if side_of(files[-1]) != wanted:
        raise UnsupportedFile(f"{beside.name} is not the {wanted} of a tiny autoencoder.")
    return stored | dict(_renamed(files[-1], wanted))


def _renamed(file: SafetensorsFile, side: str) -> Iterator[tuple[str, tuple[SafetensorsFile, str]]]:
    for name in file.tensors:
        number, _, rest = name.partition(".")
        layer = int(number) - (side == "decoder")
        yield f"{side}.layers.{layer}.{rest}", (file, name)


def _inferred(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The AutoencoderTiny JSON of tensors under diffusers' names."""
    made: dict[str, Any] = {}
    for side in SIDES:
        blocks = _blocks(side, shapes)
        first = shapes.get(f"{side}.layers.0.weight")
        if first is None or len(first) != 4 or not blocks:
            continue
        made[f"num_{side}_blocks"] = blocks
        made[f"{side}_block_out_channels"] = [first[0]] * len(blocks)
        if side == "decoder":
            made["latent_channels"] = first[1]
    if "num_encoder_blocks" not in made and "num_decoder_blocks" in made:  # half of it is enough
        made["num_encoder_blocks"] = made["num_decoder_blocks"][::-1]
        made["encoder_block_out_channels"] = made["decoder_block_out_channels"]
    return made


def _blocks(side: str, names: Iterable[str]) -> list[int]:
    """How many blocks follow each convolution but the last."""
    layers: dict[int, bool] = {}
    for match in filter(None, map(_LAYER.fullmatch, names)):
        if match[1] == side:
            layers[int(match[2])] = match[3].startswith("conv.")
    counts: list[int] = []
    for _, is_block in sorted(layers.items()):
        if not is_block:
            counts.append(0)
        elif counts:
            counts[-1] += 1
    return counts[:-1]


def _source(stored: Stored, config: TinyVaeConfig, decoder_only: bool) -> WeightSource:
    expected = {
        name: shape
        for name, shape in tiny_vae_tensors(config).items()
        if name.startswith("decoder.") or not decoder_only
    }
    found = {
        name: Weight(file, own, file.tensors[own].shape)
        for name, (file, own) in stored.items()
        if name.startswith("decoder.") or not decoder_only
    }
    return check_weights("The tiny autoencoder", found, expected)
