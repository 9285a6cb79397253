"""Open a diffusers folder: model_index.json and one sub-folder for each part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.formats.diffusers_configs import (
    TextConfig,
    TinyVaeConfig,
    UNetConfig,
    VaeConfig,
    read_text_config,
    read_tiny_vae_config,
    read_unet_config,
    read_vae_config,
)
from engine.formats.diffusers_json import read_json
from engine.formats.diffusers_ldm import old_vae_name
from engine.formats.diffusers_names import (
    text_tensors,
    tiny_vae_tensors,
    unet_tensors,
    vae_tensors,
)
from engine.formats.diffusers_types import (
    SCALE,
    SCALE_XL,
    PipelineFiles,
    TokenizerFiles,
    VaeFiles,
    check_parts,
    family_of,
)
from engine.formats.diffusers_weights import Weight, WeightSource, check_weights
from engine.formats.errors import CorruptFile, FormatError, NotAModelFile, UnsupportedFile
from engine.formats.safetensors import SafetensorsFile, open_safetensors

PIPELINES = re.compile(r"(StableDiffusion|LatentConsistencyModel|Latent|OnnxStable)\w*Pipeline")
MAX_SHARDS = 256
# Buffers that some files carry along; they say nothing.
_IGNORED = re.compile(r"(.*\.)?position_ids|logit_scale")

Stored = dict[str, tuple[SafetensorsFile, str]]


def open_folder(path: Path, other: VaeFiles | None) -> PipelineFiles:
    """Open the folder ``path``, with ``other`` in place of its autoencoder when given."""
    index = read_json(path / "model_index.json")
    _check_pipeline(index, path.name)
    files: list[SafetensorsFile] = [] if other is None else list(other.files)
    try:
        return _open(path, index, other, files)
    except FormatError:
        for file in files:
            file.close()
        raise


def _check_pipeline(index: Mapping[str, Any], label: str) -> None:
    kind = str(index.get("_class_name"))
    if "unet" not in index or not PIPELINES.fullmatch(kind) or "3" in kind:
        raise UnsupportedFile(
            f"{label} is a model of the kind {kind[:60]}. Driftwood runs Stable Diffusion 1, 2 and "
            "XL, their Turbo and LCM variants."
        )
    if "Upscale" in kind or "Depth" in kind or "image_encoder" in _present(index):
        raise UnsupportedFile(
            f"{label} is a model of the kind {kind[:60]}, which needs more than a prompt. "
            "Driftwood runs text-to-image models."
        )


def _present(index: Mapping[str, Any]) -> set[str]:
    """The parts that a model_index.json has, not those it lists as [null, null]."""
    return {
        name
        for name, entry in index.items()
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], str)  # pyright: ignore[reportUnknownArgumentType]
    }


def _open(
    path: Path, index: Mapping[str, Any], other: VaeFiles | None, files: list[SafetensorsFile]
) -> PipelineFiles:
    configs: dict[str, Mapping[str, Any]] = {"unet": read_json(path / "unet" / "config.json")}
    unet = read_unet_config(configs["unet"], "unet/config.json")
    weights = {"unet": _unet_weights(path / "unet", unet, files)}
    texts: list[TextConfig] = []
    tokenizers: list[TokenizerFiles] = []
    for suffix in ("", "_2"):
        name = f"text_encoder{suffix}"
        if name not in _present(index):
            continue
        configs[name] = read_json(path / name / "config.json")
        text, weights[name] = _text(path / name, configs[name], files)
        texts.append(text)
        tokenizers.append(_tokenizer(path / f"tokenizer{suffix}", text.positions))
    if not texts:
        raise NotAModelFile(f"{path.name} has no text encoder.")
    if other is None:
        configs["vae"] = read_json(path / "vae" / "config.json")
        vae, weights["vae"] = _vae(path / "vae", configs["vae"], files)
    else:
        scale = SCALE_XL if family_of(unet, len(texts)) == "sdxl" else SCALE
        vae, weights["vae"] = other.scaled(scale, _own_vae(path)), other.weights
    check_parts(path.name, unet, vae, tuple(texts))
    return PipelineFiles(
        path=path,
        name=path.name,
        kind="folder",
        family=family_of(unet, len(texts)),
        configs=MappingProxyType(configs),
        unet=unet,
        vae=vae,
        texts=tuple(texts),
        weights=MappingProxyType(weights),
        tokenizers=tuple(tokenizers),
        scheduler=MappingProxyType(read_json(path / "scheduler" / "scheduler_config.json")),
        notes=(),
        files=tuple(files),
    )


def open_vae_folder(path: Path) -> VaeFiles:
    """An autoencoder's folder, or a model's folder with one in its "vae" sub-folder."""
    if not (path / "config.json").is_file() and (path / "vae").is_dir():
        path = path / "vae"
    files: list[SafetensorsFile] = []
    try:
        config, weights = _vae(path, read_json(path / "config.json"), files)
    except FormatError:
        for file in files:
            file.close()
        raise
    return VaeFiles(config, weights, tuple(files), states_scale=True)


def _own_vae(path: Path) -> VaeConfig | None:
    """What a model's own VAE states of itself, if it has one of the usual kind."""
    own = path / "vae" / "config.json"
    data = read_json(own) if own.is_file() else {"_class_name": ""}
    if data.get("_class_name", "AutoencoderKL") != "AutoencoderKL":
        return None
    return read_vae_config(data, "vae/config.json")


def _unet_weights(folder: Path, config: UNetConfig, files: list[SafetensorsFile]) -> WeightSource:
    stored = _stored(folder, "diffusion_pytorch_model", files)
    found = {name: _plain(place) for name, place in stored.items()}
    return check_weights("The UNet", found, unet_tensors(config))


def _vae(
    folder: Path, data: Mapping[str, Any], files: list[SafetensorsFile]
) -> tuple[VaeConfig | TinyVaeConfig, WeightSource]:
    kind = data.get("_class_name", "AutoencoderKL")
    if kind not in ("AutoencoderKL", "AutoencoderTiny"):
        raise UnsupportedFile(
            f"The VAE is of the kind {str(kind)[:40]}, and Driftwood runs AutoencoderKL and "
            "AutoencoderTiny."
        )
    stored = _stored(folder, "diffusion_pytorch_model", files)
    if kind == "AutoencoderTiny":
        tiny = read_tiny_vae_config(data, f"{folder.name}/config.json")
        found = {name: _plain(place) for name, place in stored.items()}
        return tiny, check_weights("The VAE", found, tiny_vae_tensors(tiny))
    config = read_vae_config(data, f"{folder.name}/config.json")
    return config, vae_source(stored, config, "The VAE")


def vae_source(stored: Stored, config: VaeConfig, label: str) -> WeightSource:
    """The weights of a VAE from tensors under diffusers names, today's or the old ones."""
    expected = vae_tensors(config)
    renamed = {old_vae_name(name): name for name in expected}
    found = {renamed.get(name, name): _plain(place) for name, place in stored.items()}
    return check_weights(label, found, expected)


def _text(
    folder: Path, data: Mapping[str, Any], files: list[SafetensorsFile]
) -> tuple[TextConfig, WeightSource]:
    stored = _stored(folder, "model", files)
    return clip_source(stored, data, f"{folder.name}/config.json", "The text encoder")


def clip_source(
    stored: Stored, data: Mapping[str, Any], config_label: str, label: str
) -> tuple[TextConfig, WeightSource]:
    """A CLIP text encoder from tensors with or without the classic ``text_model.`` prefix."""
    config = read_text_config(data, config_label, projected="text_projection.weight" in stored)
    expected = text_tensors(config)
    found: dict[str, Weight] = {}
    for name, place in stored.items():
        classic = name if name in expected else f"text_model.{name}"
        if not _IGNORED.fullmatch(name):
            found[classic if classic in expected else name] = _plain(place)
    return config, check_weights(label, found, expected)


def _plain(place: tuple[SafetensorsFile, str]) -> Weight:
    file, name = place
    return Weight(file, name, file.tensors[name].shape)


def _tokenizer(folder: Path, positions: int) -> TokenizerFiles:
    files = {name: folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt")}
    there = {name: path if path.is_file() else None for name, path in files.items()}
    if there["tokenizer.json"] is None and not (there["vocab.json"] and there["merges.txt"]):
        raise NotAModelFile(
            f"The model's folder {folder.name} has neither tokenizer.json nor vocab.json and "
            "merges.txt."
        )
    return TokenizerFiles(
        there["tokenizer.json"],
        there["vocab.json"],
        there["merges.txt"],
        _pad_token(folder),
        positions,
    )


def _pad_token(folder: Path) -> str:
    """The text of the padding token, as the tokenizer's configuration names it."""
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).is_file():
            pad = read_json(folder / name).get("pad_token")
            text: Any = pad.get("content") if isinstance(pad, dict) else pad  # pyright: ignore
            if isinstance(text, str) and text:
                return text
    return "<|endoftext|>"


def _stored(folder: Path, stem: str, files: list[SafetensorsFile]) -> Stored:
    """Every tensor of a sub-folder's weight file or files."""
    whole = (f"{stem}.safetensors", f"{stem}.fp16.safetensors", f"{stem}.bf16.safetensors")
    for name in whole:
        if (folder / name).is_file():
            return _opened([folder / name], files)
    for name in (
        f"{stem}.safetensors.index.json",
        f"{stem}.safetensors.index.fp16.json",
        f"{stem}.fp16.safetensors.index.json",
    ):
        if (folder / name).is_file():
            return _opened(_shards(folder / name), files)
    others = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    if len(others) == 1:
        return _opened(others, files)
    pickles = sorted(folder.glob("*.bin")) if folder.is_dir() else []
    if pickles:
        raise UnsupportedFile(
            f"{folder.name} holds its weights only as a PyTorch pickle ({pickles[0].name}). "
            "Opening such a file can run code that is hidden in it, so Driftwood does not. Get "
            "the model's .safetensors files."
        )
    raise NotAModelFile(
        f"The model's folder has no weights in {folder.name}: {whole[0]} is missing. Get the whole "
        "model again."
    )


def _opened(paths: list[Path], files: list[SafetensorsFile]) -> Stored:
    stored: Stored = {}
    for path in paths:
        file = open_safetensors(path)
        files.append(file)
        for name in file.tensors:
            if name in stored:
                raise CorruptFile(f"{path.name} holds {name!r}, which another part holds too.")
            stored[name] = (file, name)
    return stored


def _shards(index: Path) -> list[Path]:
    """The parts that an index file names, each beside it."""
    table = read_json(index).get("weight_map")
    names: set[Any] = set(table.values()) if isinstance(table, dict) else set()  # pyright: ignore
    plain = all(
        isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name
        for name in names
    )
    if not names or not plain or len(names) > MAX_SHARDS:
        raise CorruptFile(f"{index.name} is damaged: it does not list the parts of the weights.")
    return [index.parent / name for name in sorted(names)]
