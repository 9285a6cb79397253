"""Open a single-file checkpoint of Stable Diffusion 1, 2 or XL, or an autoencoder's file.

The networks are found by the prefixes of their tensors' names, their configurations worked out
from shapes; see diffusers_ldm.py for the names inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.formats.diffusers_configs import (
    TextConfig,
    UNetConfig,
    VaeConfig,
    read_text_config,
    read_unet_config,
    read_vae_config,
)
from engine.formats.diffusers_folder import clip_source, vae_source
from engine.formats.diffusers_infer import (
    infer_clip,
    infer_open_clip,
    infer_unet,
    infer_vae,
)
from engine.formats.diffusers_ldm import open_clip_name, unet_namer, vae_namer
from engine.formats.diffusers_names import (
    text_tensors,
    unet_tensors,
    vae_tensors,
)
from engine.formats.diffusers_prediction import guess_prediction
from engine.formats.diffusers_tiny import is_tiny, open_tiny_file
from engine.formats.diffusers_types import (
    SCALE,
    SCALE_XL,
    SIZE_COUNT,
    PipelineFiles,
    TokenizerFiles,
    VaeFiles,
    check_parts,
    family_of,
)
from engine.formats.diffusers_weights import Weight, WeightSource, check_weights
from engine.formats.errors import FormatError, NotAModelFile, UnsupportedFile
from engine.formats.safetensors import SafetensorsFile, open_safetensors

UNET = "model.diffusion_model."
VAE = "first_stage_model."
CLIP = "cond_stage_model.transformer."  # Stable Diffusion 1
OPEN_CLIP = "cond_stage_model.model."  # Stable Diffusion 2
XL_CLIP = "conditioner.embedders.0.transformer."
XL_OPEN_CLIP = "conditioner.embedders.1.model."
REFINER = "conditioner.embedders.0.model."

_SCHEDULER: Mapping[str, Any] = {
    "_class_name": "EulerDiscreteScheduler",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "steps_offset": 1,
    "timestep_spacing": "leading",
    "clip_sample": False,
    "set_alpha_to_one": False,
}

_VAE_PARTS = ("encoder.", "decoder.", "quant_conv.", "post_quant_conv.")

# Names that only other kinds of models have, and what those are.
_OTHERS = (
    ("joint_blocks.0.", "Stable Diffusion 3"),
    ("double_blocks.0.", "Flux"),
    ("control_model.", "ControlNet"),
    ("controlnet_cond_embedding.", "ControlNet"),
    ("motion_modules.", "AnimateDiff"),
    ("lora_", "a LoRA file; choose a model, and add this file to it"),
    (".lora_", "a LoRA file; choose a model, and add this file to it"),
    ("edm_mean", "Playground 2.5"),
)


def open_checkpoint(path: Path, other: VaeFiles | None) -> PipelineFiles:
    """Open the checkpoint ``path``, with ``other`` in place of its autoencoder when given."""
    file = open_safetensors(path)
    try:
        return _open(file, other)
    except FormatError:
        file.close()
        raise


def _open(file: SafetensorsFile, other: VaeFiles | None) -> PipelineFiles:
    label = file.path.name
    parts = _parts(file)
    if not parts[UNET]:
        raise _not_a_checkpoint(file)
    configs: dict[str, Mapping[str, Any]] = {"unet": infer_unet(parts[UNET], label)}
    texts, text_configs = _text_encoders(file, parts)
    _complete_unet(configs["unet"], text_configs)
    configs |= text_configs
    unet = read_unet_config(configs["unet"], label)
    weights = {"unet": _unet_source(file, parts[UNET], unet)}
    weights |= {name: source for name, (_, source) in texts.items()}
    family = family_of(unet, len(texts))
    if other is None:
        vae, configs["vae"], weights["vae"] = _own_vae(file, parts[VAE], family)
    else:
        vae, weights["vae"] = other.scaled(SCALE_XL if family == "sdxl" else SCALE), other.weights
    check_parts(label, unet, vae, tuple(config for config, _ in texts.values()))
    inpainting = unet.in_channels > vae.latent_channels
    prediction, notes = guess_prediction(file, family, inpainting=inpainting)
    unet = replace(unet, sample_size=_sample_size(family, prediction))
    return PipelineFiles(
        path=file.path,
        name=file.path.stem,
        kind="checkpoint",
        family=family,
        configs=MappingProxyType(configs),
        unet=unet,
        vae=vae,
        texts=tuple(config for config, _ in texts.values()),
        weights=MappingProxyType(weights),
        tokenizers=tuple(
            TokenizerFiles(
                pad="<|endoftext|>" if config.act == "quick_gelu" else "!",
                positions=config.positions,
            )
            for config, _ in texts.values()
        ),
        scheduler=MappingProxyType(_scheduler(file, prediction)),
        notes=notes,
        files=(file, *(() if other is None else other.files)),
    )


def _parts(file: SafetensorsFile) -> dict[str, dict[str, tuple[int, ...]]]:
    """Shapes by prefix and name without it."""
    prefixes = (UNET, VAE, CLIP, OPEN_CLIP, XL_CLIP, XL_OPEN_CLIP, REFINER)
    parts: dict[str, dict[str, tuple[int, ...]]] = {prefix: {} for prefix in prefixes}
    for name, tensor in file.tensors.items():
        for prefix in prefixes:
            if name.startswith(prefix):
                parts[prefix][name[len(prefix) :]] = tensor.shape
                break
    return parts


def _not_a_checkpoint(file: SafetensorsFile) -> FormatError:
    label = file.path.name
    for mark, what in _OTHERS:
        if any(mark in name for name in file.tensors):
            return UnsupportedFile(
                f"{label} is {what}. Driftwood runs Stable Diffusion 1, 2 and XL."
            )
    if any(name.startswith(("encoder.", "decoder.", VAE)) for name in file.tensors):
        return UnsupportedFile(f"{label} holds a VAE only. Choose a model, and add this VAE to it.")
    names = ", ".join(repr(name[:60]) for name in list(file.tensors)[:2]) or "none"
    return NotAModelFile(
        f"{label} holds no picture model that Driftwood knows. Its first tensors are {names}."
    )


def _complete_unet(unet: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]]) -> None:
    """SDXL's time embedding width: what the pooled text leaves of the added embedding."""
    added = unet.get("projection_class_embeddings_input_dim")
    pooled = texts.get("text_encoder_2", {}).get("projection_dim")
    if isinstance(unet, dict) and added and pooled:
        unet["addition_time_embed_dim"] = max((added - pooled) // SIZE_COUNT, 1)


def _renamed(
    file: SafetensorsFile,
    prefix: str,
    expected: Mapping[str, tuple[int, ...]],
    namer: Callable[[str], str],
) -> dict[str, Weight]:
    """The expected weights that the file has under the namer's names."""
    found: dict[str, Weight] = {}
    for name in expected:
        tensor = file.tensors.get(prefix + namer(name))
        if tensor is not None:
            found[name] = Weight(file, tensor.name, tensor.shape)
    return found


def _left(names: Mapping[str, Any], prefix: str, found: Mapping[str, Weight]) -> list[str]:
    """Tensors of a network that stand for none of the found weights."""
    used = {weight.stored for weight in found.values()}
    return [prefix + name for name in names if prefix + name not in used]


def _unet_source(
    file: SafetensorsFile, part: Mapping[str, Any], config: UNetConfig
) -> WeightSource:
    expected = unet_tensors(config)
    found = _renamed(file, UNET, expected, unet_namer(config))
    return check_weights("The UNet", found, expected, _left(part, UNET, found))


def _own_vae(
    file: SafetensorsFile, part: Mapping[str, tuple[int, ...]], family: str
) -> tuple[VaeConfig, dict[str, Any], WeightSource]:
    if not part:
        raise UnsupportedFile(
            f"{file.path.name} holds no VAE, the part that turns its result into a picture. Give "
            "it a VAE file besides."
        )
    data = infer_vae(part, file.path.name)
    data["scaling_factor"] = SCALE_XL if family == "sdxl" else SCALE
    data["force_upcast"] = family == "sdxl"
    config = read_vae_config(data, file.path.name)
    return config, data, _ldm_vae(file, VAE, part, config)


def _ldm_vae(
    file: SafetensorsFile, prefix: str, part: Mapping[str, Any], config: VaeConfig
) -> WeightSource:
    expected = vae_tensors(config)
    found = _renamed(file, prefix, expected, vae_namer(len(config.block_out_channels)))
    return check_weights("The VAE", found, expected, _left(part, prefix, found))


def _text_encoders(
    file: SafetensorsFile, parts: Mapping[str, Mapping[str, tuple[int, ...]]]
) -> tuple[dict[str, tuple[TextConfig, WeightSource]], dict[str, dict[str, Any]]]:
    """Text encoders by component, with their worked-out JSON."""
    label = file.path.name
    made: dict[str, tuple[TextConfig, WeightSource]] = {}
    configs: dict[str, dict[str, Any]] = {}
    if parts[XL_OPEN_CLIP]:
        plan = [("text_encoder", XL_CLIP, False), ("text_encoder_2", XL_OPEN_CLIP, True)]
    elif parts[OPEN_CLIP]:
        plan = [("text_encoder", OPEN_CLIP, True)]
    elif parts[CLIP]:
        plan = [("text_encoder", CLIP, False)]
    elif parts[REFINER]:
        raise UnsupportedFile(
            f"{label} is the SDXL refiner, which cannot start from a prompt. Choose the base model."
        )
    else:
        raise UnsupportedFile(f"{label} holds no text encoder that Driftwood knows.")
    for name, prefix, is_open in plan:
        if is_open:
            drop = prefix == OPEN_CLIP
            configs[name] = infer_open_clip(parts[prefix], label, drop_last=drop)
            made[name] = _open_clip_source(file, prefix, parts[prefix], configs[name])
        else:
            shapes = {_classic(key): shape for key, shape in parts[prefix].items()}
            configs[name] = infer_clip(shapes, label)
            stored = {_classic(key): (file, prefix + key) for key in parts[prefix]}
            made[name] = clip_source(stored, configs[name], label, "The text encoder")
    return made, configs


def _classic(name: str) -> str:
    """A CLIP name with the ``text_model.`` prefix that some files leave out."""
    bare = name.startswith(("embeddings.", "encoder.", "final_layer_norm."))
    return f"text_model.{name}" if bare else name


def _open_clip_source(
    file: SafetensorsFile, prefix: str, part: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[TextConfig, WeightSource]:
    projected = prefix == XL_OPEN_CLIP
    config = read_text_config(data, file.path.name, projected=projected)
    expected = text_tensors(config)
    found: dict[str, Weight] = {}
    for name in expected:
        stored, third, transposed = open_clip_name(name)
        tensor = file.tensors.get(prefix + stored)
        if tensor is None:
            continue
        shape, rows = tensor.shape, None
        if third is not None:
            count = tensor.shape[0] // 3
            rows, shape = (third * count, (third + 1) * count), (count, *tensor.shape[1:])
        found[name] = Weight(
            file, tensor.name, shape[::-1] if transposed else shape, rows, transposed
        )
    # The last layer and the projection of Stable Diffusion 2 are there and never used.
    unused = (f"transformer.resblocks.{config.layers}.", "text_projection", "logit_scale")
    left = _left(part, prefix, found)
    extra = [name for name in left if not name[len(prefix) :].startswith(unused)]
    return config, check_weights("The text encoder", found, expected, extra)


def _sample_size(family: str, prediction: str) -> int:
    """The side of the latents that the family was trained on, which no tensor shows."""
    if family == "sd2" and prediction == "v_prediction":
        return 96
    return 128 if family == "sdxl" else 64


def _scheduler(file: SafetensorsFile, prediction: str) -> dict[str, Any]:
    scheduler: dict[str, Any] = {**_SCHEDULER, "prediction_type": prediction}
    if "turbo" in file.path.stem.lower():
        scheduler["timestep_spacing"] = "trailing"
    if "lcm" in file.path.stem.lower():
        scheduler["_class_name"] = "LCMScheduler"
    if "ztsnr" in file.tensors:
        scheduler |= {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    return scheduler


def open_vae_file(path: Path) -> VaeFiles:
    """A VAE in one file: a checkpoint's names (with or without its prefix) or diffusers'."""
    file = open_safetensors(path)
    try:
        return _vae_file(file)
    except FormatError:
        file.close()
        raise


def _vae_file(file: SafetensorsFile) -> VaeFiles:
    if is_tiny(file):
        return open_tiny_file(file)
    label = file.path.name
    prefix = VAE if any(name.startswith(VAE) for name in file.tensors) else ""
    shapes = {
        name[len(prefix) :]: tensor.shape
        for name, tensor in file.tensors.items()
        if name.startswith(tuple(prefix + part for part in _VAE_PARTS))
    }
    if not any(name.startswith("decoder.") for name in shapes):
        raise NotAModelFile(f"{label} holds no VAE: no tensor's name starts with decoder.")
    new = any(name.startswith("encoder.down_blocks.") for name in shapes)
    config = read_vae_config(infer_vae(shapes, label, diffusers_names=new), label)
    if new:
        places = {name: (file, name) for name in shapes}
        return VaeFiles(config, vae_source(places, config, "The VAE"), (file,))
    return VaeFiles(config, _ldm_vae(file, prefix, shapes, config), (file,))
