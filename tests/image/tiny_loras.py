"""LoRA files for the tiny models, under the names of kohya's trainer and of peft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from image.tiny_pipelines import KINDS, parts_of, raw_numbers

from engine.formats.safetensors import write_safetensors

RANK, ALPHA = 3, 2.0
STRENGTH = 0.8
_BLOCK = "down_blocks.0.attentions.0.transformer_blocks.0"
_UP = "up_blocks.1.attentions.1"
_TEXT = "text_model.encoder.layers.1"
#: diffusers reads kohya's text encoders only where the output projection is among the weights.
_ATTENTION = (f"{_TEXT}.self_attn.v_proj", f"{_TEXT}.self_attn.out_proj")
_KOHYA_PREFIXES = {"unet": "unet", "text_encoder": "te", "text_encoder_2": "te2"}

#: The kind of model, whether kohya's names are used, and the weights that are changed.
LORAS: dict[str, tuple[str, bool, dict[str, tuple[str, ...]]]] = {
    "kohya": (
        "sd1",
        True,
        {
            "unet": (
                f"{_BLOCK}.attn1.to_q",
                f"{_BLOCK}.attn2.to_k",
                f"{_BLOCK}.attn2.to_out.0",
                f"{_BLOCK}.ff.net.0.proj",
                f"{_UP}.proj_in",
                "mid_block.resnets.0.conv1",
            ),
            "text_encoder": (*_ATTENTION, f"{_TEXT}.mlp.fc1"),
        },
    ),
    "peft": (
        "sd1",
        False,
        {
            "unet": (
                f"{_UP}.transformer_blocks.0.attn1.to_v",
                f"{_UP}.transformer_blocks.0.ff.net.2",
                "down_blocks.1.resnets.0.conv2",
            ),
            "text_encoder": (f"{_TEXT}.self_attn.q_proj",),
        },
    ),
    "sdxl": (
        "sdxl",
        True,
        {
            "unet": (
                "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_v",
                "down_blocks.1.attentions.0.transformer_blocks.1.attn1.to_q",
                "mid_block.attentions.0.proj_out",
            ),
            "text_encoder": _ATTENTION,
            "text_encoder_2": (*_ATTENTION, f"{_TEXT}.mlp.fc2"),
        },
    ),
}


def write_lora(path: Path, name: str) -> Path:
    """One of the files."""
    kind, kohya, parts = LORAS[name]
    known = parts_of(KINDS[kind])
    tensors: dict[str, np.ndarray] = {}
    for part, modules in parts.items():
        for module in modules:
            shape = known[part][1][f"{module}.weight"]
            tensors |= _kohya(kind, part, module, shape) if kohya else _peft(part, module, shape)
    write_safetensors(path, tensors)
    return path


def _ends(module: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The slim matrices: [rank, in, ...] and [out, rank, 1 ...]."""
    down = raw_numbers(f"{module}.down", (RANK, *shape[1:]))
    up = raw_numbers(f"{module}.up", (shape[0], RANK, *(1,) * (len(shape) - 2)))
    return down, up * np.float32(STRENGTH)


def _kohya(kind: str, part: str, module: str, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    prefix = _KOHYA_PREFIXES[part]
    if (kind, part) == ("sdxl", "text_encoder"):
        prefix = "te1"
    name = f"lora_{prefix}_{module.replace('.', '_')}"
    down, up = _ends(name, shape)
    return {
        f"{name}.lora_down.weight": down,
        f"{name}.lora_up.weight": up,
        f"{name}.alpha": np.array(ALPHA, np.float32),
    }


def _peft(part: str, module: str, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    down, up = _ends(f"{part}.{module}", shape)
    return {f"{part}.{module}.lora_A.weight": down, f"{part}.{module}.lora_B.weight": up}
