"""Make the golden files of single-file checkpoints with diffusers; run once, by hand.

    python tests/golden/make_checkpoints.py          (writes tests/golden/checkpoints/*.json.gz)

Each file lists the tensors of a tiny checkpoint (name and shape; the numbers follow from the name)
and what diffusers' own conversion makes of them (name, shape and checksum). Every tensor list is
also loaded into the diffusers network, which accepts no missing and no unexpected name.

Needs torch, transformers and diffusers, which the tests themselves do not.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers.loaders import single_file_utils as convert
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from engine.formats.diffusers_configs import (  # noqa: E402
    read_text_config,
    read_unet_config,
    read_vae_config,
)
from engine.formats.diffusers_ldm import open_clip_name, unet_namer, vae_namer  # noqa: E402
from engine.formats.diffusers_names import text_tensors, unet_tensors, vae_tensors  # noqa: E402

FOLDER = Path(__file__).parent / "checkpoints"
UNET, VAE = "model.diffusion_model.", "first_stage_model."
CLIP, OPEN_CLIP = "cond_stage_model.transformer.", "cond_stage_model.model."
XL_CLIP, XL_OPEN_CLIP = "conditioner.embedders.0.transformer.", "conditioner.embedders.1.model."
FOUR_DOWN = ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"]
FOUR_UP = ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3

UNETS = {
    "sd1": {
        "block_out_channels": [32, 64, 64, 96],
        "down_block_types": FOUR_DOWN,
        "up_block_types": FOUR_UP,
        "cross_attention_dim": 24,
        "attention_head_dim": 8,
        "sample_size": 8,
    },
    "sd2": {
        "block_out_channels": [64, 64, 128, 128],
        "down_block_types": FOUR_DOWN,
        "up_block_types": FOUR_UP,
        "cross_attention_dim": 32,
        "attention_head_dim": [1, 1, 2, 2],
        "use_linear_projection": True,
        "sample_size": 8,
    },
    "sdxl": {
        "block_out_channels": [64, 64, 128],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
        "cross_attention_dim": 56,
        "attention_head_dim": [1, 1, 2],
        "transformer_layers_per_block": [1, 2, 3],
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 8,
        "projection_class_embeddings_input_dim": 40 + 6 * 8,
        "sample_size": 8,
    },
}
VAE_CONFIG = {
    "block_out_channels": [32, 32, 64],
    "down_block_types": ["DownEncoderBlock2D"] * 3,
    "up_block_types": ["UpDecoderBlock2D"] * 3,
    "layers_per_block": 2,
    "sample_size": 16,
}
CLIP_CONFIG = {
    "vocab_size": 70,
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 1,
    "max_position_embeddings": 11,
}
OPEN_CLIP_CONFIG = {
    "vocab_size": 70,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 23,
    "num_attention_heads": 1,
    "max_position_embeddings": 11,
    "hidden_act": "gelu",
    "projection_dim": 32,
}
XL_OPEN_CONFIG = {**OPEN_CLIP_CONFIG, "num_hidden_layers": 4, "projection_dim": 40}


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The numbers of a tensor: they follow from its name, so that no file need hold them."""
    count = int(np.prod(shape))
    seed = zlib.crc32(name.encode())
    scrambled = (np.arange(count, dtype=np.uint64) * 2654435761 + seed) % 65536
    return (scrambled.astype(np.float32) / 32768 - 1).reshape(shape)


def open_clip_shapes(config: dict, layers: int) -> dict[str, tuple[int, ...]]:
    expected = text_tensors(
        read_text_config({**config, "num_hidden_layers": layers}, projected=True)
    )
    shapes: dict[str, tuple[int, ...]] = {"logit_scale": ()}
    for name, shape in expected.items():
        stored, third, transposed = open_clip_name(name)
        whole = (shape[0] * 3, *shape[1:]) if third is not None else shape
        shapes[stored] = whole[::-1] if transposed else whole
    return shapes


def clip_shapes(config: dict) -> dict[str, tuple[int, ...]]:
    shapes = dict(text_tensors(read_text_config(config)))
    shapes["text_model.embeddings.position_ids"] = (1, config["max_position_embeddings"])
    return shapes


def with_prefix(prefix: str, shapes: dict) -> dict[str, tuple[int, ...]]:
    return {prefix + name: shape for name, shape in shapes.items()}


def vae_shapes() -> dict[str, tuple[int, ...]]:
    config = read_vae_config(VAE_CONFIG)
    namer = vae_namer(len(config.block_out_channels))
    shapes = {namer(name): shape for name, shape in vae_tensors(config).items()}
    # Checkpoints keep the attention's matrices as 1 x 1 convolutions.
    return {
        name: (*shape, 1, 1) if ".attn_1." in name and len(shape) == 2 else shape
        for name, shape in shapes.items()
    }


def tensors_of(family: str) -> dict[str, tuple[int, ...]]:
    config = read_unet_config(UNETS[family])
    namer = unet_namer(config)
    unet = {namer(name): shape for name, shape in unet_tensors(config).items()}
    shapes = with_prefix(UNET, unet) | with_prefix(VAE, vae_shapes())
    shapes["alphas_cumprod"] = (1000,)
    if family == "sd1":
        shapes |= with_prefix(CLIP, clip_shapes(CLIP_CONFIG))
    elif family == "sd2":
        shapes |= with_prefix(OPEN_CLIP, open_clip_shapes(OPEN_CLIP_CONFIG, 24))
    else:
        shapes |= with_prefix(XL_CLIP, clip_shapes(CLIP_CONFIG))
        shapes |= with_prefix(XL_OPEN_CLIP, open_clip_shapes(XL_OPEN_CONFIG, 4))
    return shapes


def accept(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The converted tensors, after the network took them all."""
    own = model.state_dict()
    bare = {
        name if name in own else name.removeprefix("text_model."): tensor
        for name, tensor in state.items()
        if not name.endswith("position_ids")
    }
    model.load_state_dict(bare, strict=True)
    return {name: tensor for name, tensor in state.items() if not name.endswith("position_ids")}


def converted(family: str, checkpoint: dict[str, torch.Tensor]) -> dict[str, dict]:
    unet, vae = UNet2DConditionModel(**UNETS[family]), AutoencoderKL(**VAE_CONFIG)
    made = {
        "unet": accept(unet, convert.convert_ldm_unet_checkpoint(checkpoint, unet.config)),
        "vae": accept(vae, convert.convert_ldm_vae_checkpoint(checkpoint, vae.config)),
    }
    if family != "sd2":
        clip = CLIPTextModel(CLIPTextConfig(**CLIP_CONFIG))
        made["text_encoder"] = accept(clip, convert.convert_ldm_clip_checkpoint(checkpoint))
    if family == "sd2":
        tower = CLIPTextModel(CLIPTextConfig(**OPEN_CLIP_CONFIG))
        state = convert.convert_open_clip_checkpoint(tower, checkpoint, OPEN_CLIP)
        made["text_encoder"] = accept(tower, state)
    if family == "sdxl":
        tower = CLIPTextModelWithProjection(CLIPTextConfig(**XL_OPEN_CONFIG))
        state = convert.convert_open_clip_checkpoint(tower, checkpoint, XL_OPEN_CLIP)
        made["text_encoder_2"] = accept(tower, state)
    return made


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for family in UNETS:
        shapes = tensors_of(family)
        checkpoint = {name: torch.from_numpy(numbers(name, s)) for name, s in shapes.items()}
        golden = {
            "tensors": {name: list(shape) for name, shape in shapes.items()},
            "unet": UNETS[family],
            "expected": {
                part: {
                    name: [list(value.shape), zlib.crc32(value.contiguous().numpy().tobytes())]
                    for name, value in sorted(state.items())
                }
                for part, state in converted(family, checkpoint).items()
            },
        }
        text = json.dumps(golden, separators=(",", ":")).encode()
        path = FOLDER / f"{family}.json.gz"
        path.write_bytes(gzip.compress(text, mtime=0))
        print(path.name, path.stat().st_size, len(shapes))


if __name__ == "__main__":
    main()
