"""Make the golden values of LoRA files with diffusers; run once, by hand.

    python tests/golden/make_loras.py                (writes tests/golden/checkpoints/loras.json)

Each case lists the tensors of a LoRA file (name and shape; the numbers follow from the name), its
metadata, and some of the numbers that diffusers adds to each weight when it fuses the file into the
tiny networks of make_checkpoints.py.

Needs torch, transformers, diffusers and peft, which the tests themselves do not.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import UNet2DConditionModel
from diffusers.loaders import StableDiffusionLoraLoaderMixin, StableDiffusionXLLoraLoaderMixin
from make_checkpoints import CLIP_CONFIG, FOLDER, UNETS, numbers
from safetensors.numpy import save_file
from transformers import CLIPTextConfig, CLIPTextModel

Shapes = dict[str, tuple[int, ...]]
SAMPLES = 8


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The numbers of a tensor; alpha is the same in the whole file, as trainers write it."""
    return np.array(2, np.float32) if name.endswith(".alpha") else numbers(name, shape)


def kohya(module: str, down: tuple[int, ...], up: int) -> Shapes:
    ones = (1,) * (len(down) - 2)
    return {
        f"{module}.lora_down.weight": down,
        f"{module}.lora_up.weight": (up, down[0], *ones),
        f"{module}.alpha": (),
    }


def peft(module: str, down: tuple[int, ...], up: int) -> Shapes:
    ones = (1,) * (len(down) - 2)
    return {
        f"{module}.lora_A.weight": down,
        f"{module}.lora_B.weight": (up, down[0], *ones),
    }


def old(module: str, down: tuple[int, ...], up: int) -> Shapes:
    return {f"{module}.down.weight": down, f"{module}.up.weight": (up, down[0])}


BLOCK = "down_blocks_1_attentions_0_transformer_blocks_0"
DOTTED = "unet.down_blocks.1.attentions.0.transformer_blocks.0"
XL = "lora_unet_input_blocks_4_1_transformer_blocks_1"
CLIP = "lora_te_text_model_encoder_layers_1"

CASES: dict[str, tuple[str, Shapes, dict[str, Any]]] = {
    "kohya": (
        "sd1",
        kohya(f"lora_unet_{BLOCK}_attn1_to_q", (4, 64), 64)
        | kohya(f"lora_unet_{BLOCK}_attn2_to_k", (4, 24), 64)
        | kohya(f"lora_unet_{BLOCK}_attn2_to_out_0", (3, 64), 64)
        | kohya(f"lora_unet_{BLOCK}_ff_net_0_proj", (2, 64), 512)
        | kohya("lora_unet_mid_block_attentions_0_proj_in", (5, 96, 1, 1), 96)
        | kohya("lora_unet_up_blocks_3_attentions_2_transformer_blocks_0_attn1_to_v", (1, 32), 32)
        | kohya(f"{CLIP}_mlp_fc2", (2, 48), 24),
        {},
    ),
    "kohya-convolutions": (
        "sd1",
        kohya("lora_unet_down_blocks_0_resnets_0_conv1", (3, 32, 3, 3), 32)
        | kohya("lora_unet_down_blocks_1_resnets_0_conv_shortcut", (2, 32, 1, 1), 64)
        | kohya("lora_unet_down_blocks_0_resnets_1_time_emb_proj", (2, 128), 32)
        | kohya("lora_unet_down_blocks_0_downsamplers_0_conv", (2, 32, 3, 3), 32),
        {},
    ),
    "kohya-xl": (
        "sdxl",
        kohya(f"{XL}_attn1_to_q", (4, 64), 64)
        | kohya(f"{XL}_attn2_to_v", (4, 56), 64)
        | kohya(f"{XL}_ff_net_2", (2, 256), 64)
        | kohya("lora_unet_input_blocks_4_1_proj_in", (2, 64), 64)
        | kohya("lora_unet_middle_block_1_transformer_blocks_2_attn2_to_out_0", (2, 128), 128)
        | kohya("lora_unet_output_blocks_5_1_transformer_blocks_0_attn1_to_k", (2, 64), 64),
        {},
    ),
    "peft": (
        "sd1",
        peft(f"{DOTTED}.attn1.to_q", (4, 64), 64)
        | peft(f"{DOTTED}.attn2.to_out.0", (4, 64), 64)
        | peft("unet.down_blocks.0.resnets.0.conv1", (4, 32, 3, 3), 32)
        | peft("text_encoder.text_model.encoder.layers.0.self_attn.v_proj", (4, 24), 24),
        {},
    ),
    "peft-with-settings": (
        "sd1",
        peft(f"{DOTTED}.attn1.to_q", (4, 64), 64) | peft(f"{DOTTED}.attn2.to_v", (4, 24), 64),
        {
            "unet.r": 4,
            "unet.lora_alpha": 8,
            "unet.alpha_pattern": {f"{DOTTED[5:]}.attn2.to_v": 6},
            "unet.target_modules": [f"{DOTTED[5:]}.attn1.to_q", f"{DOTTED[5:]}.attn2.to_v"],
        },
    ),
    "old-diffusers": (
        "sd1",
        old(f"{DOTTED}.attn1.processor.to_q_lora", (4, 64), 64)
        | old(f"{DOTTED}.attn2.processor.to_out_lora", (4, 64), 64),
        {},
    ),
}


def changes(model: torch.nn.Module, fuse: Any) -> dict[str, Any]:
    """The numbers that fusing adds to each weight: some of them, and their sum of squares."""
    before = {name: value.detach().clone() for name, value in model.state_dict().items()}
    fuse()
    made = {}
    for name, value in model.state_dict().items():
        base = name.replace(".base_layer", "")
        if base not in before or ".lora_" in name:
            continue
        delta = (value - before[base]).flatten().double()
        if delta.abs().max() > 0:
            step = max(delta.numel() // SAMPLES, 1)
            picked = delta[::step][:SAMPLES]
            # transformers 5 leaves the classic prefix out of a text encoder's names
            classic = f"text_model.{base}" if base.startswith("encoder.") else base
            made[classic] = {
                "samples": [round(float(v), 6) for v in picked],
                "squares": float((delta**2).sum()),
            }
    return made


def run(name: str) -> dict[str, Any]:
    family, shapes, settings = CASES[name]
    loader = (
        StableDiffusionXLLoraLoaderMixin if family == "sdxl" else StableDiffusionLoraLoaderMixin
    )
    unet = UNet2DConditionModel(**UNETS[family]).double()
    text = CLIPTextModel(CLIPTextConfig(**CLIP_CONFIG)).double()
    metadata = {"format": "pt"}
    if settings:
        metadata["lora_adapter_metadata"] = json.dumps(settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lora.safetensors"
        save_file({key: values(key, shape) for key, shape in shapes.items()}, path, metadata)
        state, alphas, found = loader.lora_state_dict(
            str(path), unet_config=unet.config, return_lora_metadata=True
        )

    def fuse_unet() -> None:
        loader.load_lora_into_unet(state, alphas, unet, adapter_name="a", metadata=found)
        unet.fuse_lora()

    def fuse_text() -> None:
        loader.load_lora_into_text_encoder(
            state, alphas, text, prefix="text_encoder", adapter_name="a", metadata=found
        )
        for module in text.modules():
            if hasattr(module, "merge"):
                module.merge()

    expected = {"unet": changes(unet, fuse_unet)}
    if any("te_" in key or "text_encoder" in key for key in shapes):
        expected["text_encoder"] = changes(text, fuse_text)
    return {
        "family": family,
        "tensors": {key: list(shape) for key, shape in shapes.items()},
        "metadata": metadata,
        "expected": expected,
    }


def main() -> None:
    np.seterr(all="raise")
    made = {name: run(name) for name in CASES}
    (FOLDER / "loras.json").write_text(json.dumps(made, indent=1) + "\n")
    for name, case in made.items():
        print(name, {part: len(weights) for part, weights in case["expected"].items()})


if __name__ == "__main__":
    main()
