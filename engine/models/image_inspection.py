"""What a picture model is: a diffusers folder or a .safetensors checkpoint; no weights are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.formats.diffusers import PipelineFiles, open_pipeline
from engine.formats.diffusers_configs import TinyVaeConfig
from engine.formats.diffusers_json import read_json
from engine.formats.errors import FormatError

INDEX: Final = "model_index.json"
ABOUT: Final = "about.json"  # what a model says of itself to Driftwood
SUFFIX: Final = ".safetensors"
TITLES: Final = {
    "sd1": "Stable Diffusion 1",
    "sd2": "Stable Diffusion 2",
    "sdxl": "Stable Diffusion XL",
}
_HALF: Final = 2  # bytes of a 16-bit number
# Feature maps that live at once, as measured over the planned arenas of every family.
_UNET_MAPS: Final = 25
_VAE_MAPS: Final = 2.5


@dataclass(frozen=True)
class ImageFacts:
    """What the list of models tells of a picture model; bytes as on the GPU in 16 bits."""

    family: str
    quant: str
    parameters: int
    nbytes: int  # of the weights as stored
    weight_bytes: int
    activation_bytes: int  # at the size the model was made for
    licence: str
    title: str


def is_image_path(path: Path) -> bool:
    """Whether a path looks like a picture model: a folder with an index, or a checkpoint."""
    if path.suffix.lower() == SUFFIX:
        return path.is_file()
    return path.name == INDEX or (path / INDEX).is_file()


def image_facts(path: Path) -> ImageFacts:
    """Read what a picture model is. Raises FormatError, OSError."""
    with open_pipeline(path) as files:
        about = about_model(files)
        title = about.get("title")
        licence = about.get("licence")
        return ImageFacts(
            family=files.family,
            quant=_number_type(files),
            parameters=files.parameters,
            nbytes=files.nbytes,
            weight_bytes=_HALF * files.parameters,
            activation_bytes=activation_bytes(files),
            licence=licence if isinstance(licence, str) else "",
            title=title if isinstance(title, str) else "",
        )


def image_details(path: Path) -> dict[str, object]:
    """Everything worth telling about a picture model. Raises FormatError, OSError."""
    with open_pipeline(path) as files:
        side = files.unet.sample_size * files.vae.factor
        return {
            "architecture": TITLES.get(files.family, files.family),
            "form": "diffusers folder" if files.kind == "folder" else "checkpoint",
            "size": [side, side],
            "networks": {name: source.parameters for name, source in files.weights.items()},
            "tensors": sum(len(source.names()) for source in files.weights.values()),
            "tensor_types": _types(files),
            "prediction": files.scheduler.get("prediction_type", "epsilon"),
            "token_limit": files.tokenizers[0].positions - 2,
            "latent_channels": files.vae.latent_channels,
            "notes": list(files.notes),
            "description": about_model(files).get("description"),
        }


def about_model(files: PipelineFiles) -> Mapping[str, Any]:
    """What a model's about.json says; nothing where it has none or it is damaged."""
    about = files.path / ABOUT
    if files.kind != "folder" or not about.is_file():
        return {}
    try:
        return read_json(about)
    except FormatError:
        return {}  # the model works without


def activation_bytes(
    files: PipelineFiles, width: int | None = None, height: int | None = None
) -> int:
    """About what a picture of this size takes besides the weights, in 16 bits."""
    side = files.unet.sample_size * files.vae.factor
    pixels = (width or side) * (height or side)
    vae = files.vae
    channels = vae.decoder_channels if isinstance(vae, TinyVaeConfig) else vae.block_out_channels
    wide = not isinstance(vae, TinyVaeConfig) and vae.force_upcast
    decoder = pixels * max(channels[:2]) * _VAE_MAPS * _HALF * (2 if wide else 1)
    latents = pixels // vae.factor**2
    denoiser = latents * files.unet.block_out_channels[0] * 2 * _UNET_MAPS * _HALF
    return int(max(decoder, denoiser))


def _number_type(files: PipelineFiles) -> str:
    """The type that most of the weights have."""
    return max(types, key=lambda name: types[name]) if (types := _types(files)) else ""


def _types(files: PipelineFiles) -> dict[str, int]:
    """Tensors by their type."""
    counts: dict[str, int] = {}
    for source in files.weights.values():
        for name in source.names():
            kind = source.dtype(name)
            counts[kind] = counts.get(kind, 0) + 1
    return counts
