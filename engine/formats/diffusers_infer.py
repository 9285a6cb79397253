"""Work out a network's configuration from the shapes of its tensors in a single-file checkpoint.

What shapes cannot tell (the number of attention heads, the scale of latents) follows the family:
Stable Diffusion 1 has 8 heads everywhere, 2 and XL have heads of 64 channels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from engine.formats.diffusers_configs import MAX_BLOCKS
from engine.formats.errors import CorruptFile

Shapes = Mapping[str, tuple[int, ...]]  # names without the checkpoint's prefix

HEAD_CHANNELS = 64
SD2_LAYERS = 23  # of a text tower of 24


def infer_unet(shapes: Shapes, label: str) -> dict[str, Any]:
    """The UNet2DConditionModel JSON of a checkpoint's ``input_blocks``, ``middle_block``, ..."""
    blocks = _down_blocks(shapes, label)
    channels = [
        _dim(shapes, f"input_blocks.{b[0]}.0.out_layers.3.weight", 0, label) for b in blocks
    ]
    attention = [f"input_blocks.{block[0]}.1.norm.weight" in shapes for block in blocks]
    up = [
        f"output_blocks.{index}.1.norm.weight" in shapes
        for index in _firsts([len(block) + 1 for block in blocks[::-1]])
    ]
    middle = _depth(shapes, "middle_block.1")
    depth = [
        _depth(shapes, f"input_blocks.{block[0]}.1") if has else 1
        for block, has in zip(blocks, attention, strict=True)
    ]
    depth[-1] = middle
    linear = len(_shape(shapes, "middle_block.1.proj_in.weight", label)) == 2
    text = "middle_block.1.transformer_blocks.0.attn2.to_k.weight"
    config: dict[str, Any] = {
        "_class_name": "UNet2DConditionModel",
        "in_channels": _dim(shapes, "input_blocks.0.0.weight", 1, label),
        "out_channels": _dim(shapes, "out.2.weight", 0, label),
        "block_out_channels": channels,
        "down_block_types": ["CrossAttnDownBlock2D" if a else "DownBlock2D" for a in attention],
        "up_block_types": ["CrossAttnUpBlock2D" if a else "UpBlock2D" for a in up],
        "layers_per_block": [len(block) for block in blocks],
        "attention_head_dim": [max(c // HEAD_CHANNELS, 1) if linear else 8 for c in channels],
        "transformer_layers_per_block": depth,
        "cross_attention_dim": _dim(shapes, text, 1, label),
        "use_linear_projection": linear,
    }
    if "time_embed.cond_proj.weight" in shapes:
        config["time_cond_proj_dim"] = shapes["time_embed.cond_proj.weight"][1]
    if "label_emb.0.0.weight" in shapes:
        config["addition_embed_type"] = "text_time"
        config["projection_class_embeddings_input_dim"] = shapes["label_emb.0.0.weight"][1]
    return config


def infer_vae(shapes: Shapes, label: str, *, diffusers_names: bool = False) -> dict[str, Any]:
    """The AutoencoderKL JSON of a VAE's tensors, under a checkpoint's names or diffusers'."""
    down = "encoder.down_blocks.{}.resnets.{}" if diffusers_names else "encoder.down.{}.block.{}"
    mid = "encoder.mid_block.attentions.0." if diffusers_names else "encoder.mid.attn_1."
    blocks = _count(shapes, down.format("{}", 0) + ".conv1.weight")
    channels = [
        _dim(shapes, down.format(index, 0) + ".conv1.weight", 0, label) for index in range(blocks)
    ]
    if not channels:
        raise CorruptFile(f"{label} holds no picture encoder (encoder.down...).")
    return {
        "_class_name": "AutoencoderKL",
        "in_channels": _dim(shapes, "encoder.conv_in.weight", 1, label),
        "out_channels": _dim(shapes, "decoder.conv_out.weight", 0, label),
        "latent_channels": _dim(shapes, "decoder.conv_in.weight", 1, label),
        "block_out_channels": channels,
        "down_block_types": ["DownEncoderBlock2D"] * blocks,
        "up_block_types": ["UpDecoderBlock2D"] * blocks,
        "layers_per_block": _count(shapes, down.format(0, "{}") + ".conv1.weight"),
        "mid_block_add_attention": any(name.startswith(mid) for name in shapes),
        "use_quant_conv": "quant_conv.weight" in shapes,
        "use_post_quant_conv": "post_quant_conv.weight" in shapes,
    }


def infer_clip(shapes: Shapes, label: str) -> dict[str, Any]:
    """The CLIPTextModel JSON of tensors under their ``text_model.`` names (CLIP ViT-L)."""
    width = _dim(shapes, "text_model.embeddings.token_embedding.weight", 1, label)
    layer = "text_model.encoder.layers.{}.mlp.fc1.weight"
    return {
        "model_type": "clip_text_model",
        "vocab_size": _dim(shapes, "text_model.embeddings.token_embedding.weight", 0, label),
        "hidden_size": width,
        "intermediate_size": _dim(shapes, layer.format(0), 0, label),
        "num_hidden_layers": _count(shapes, layer),
        "num_attention_heads": max(width // HEAD_CHANNELS, 1),
        "max_position_embeddings": _dim(
            shapes, "text_model.embeddings.position_embedding.weight", 0, label
        ),
        "hidden_act": "quick_gelu",
    }


def infer_open_clip(shapes: Shapes, label: str, *, drop_last: bool) -> dict[str, Any]:
    """The CLIPTextModel JSON of an OpenCLIP text tower.

    Stable Diffusion 2 never uses the last of its 24 layers, which some files leave out
    (``drop_last``); XL takes the last but one and needs the last for its pooled output.
    """
    width = _dim(shapes, "token_embedding.weight", 1, label)
    layer = "transformer.resblocks.{}.mlp.c_fc.weight"
    layers = _count(shapes, layer)
    config: dict[str, Any] = {
        "model_type": "clip_text_model",
        "vocab_size": _dim(shapes, "token_embedding.weight", 0, label),
        "hidden_size": width,
        "intermediate_size": _dim(shapes, layer.format(0), 0, label),
        "num_hidden_layers": min(layers, SD2_LAYERS) if drop_last else layers,
        "num_attention_heads": max(width // HEAD_CHANNELS, 1),
        "max_position_embeddings": _dim(shapes, "positional_embedding", 0, label),
        "hidden_act": "gelu",
    }
    if "text_projection" in shapes:
        config["projection_dim"] = shapes["text_projection"][-1]
    return config


def _down_blocks(shapes: Shapes, label: str) -> list[list[int]]:
    """The numbers of the input blocks that make up each down block, without the downsamplers."""
    numbers = sorted(
        {int(m[1]) for m in (re.match(r"input_blocks\.(\d{1,3})\.", name) for name in shapes) if m}
    )
    blocks: list[list[int]] = [[]]
    for number in numbers[1:]:
        if f"input_blocks.{number}.0.op.weight" in shapes:
            blocks.append([])
        else:
            blocks[-1].append(number)
    if numbers[:1] != [0] or not all(blocks) or len(blocks) > MAX_BLOCKS:
        raise CorruptFile(
            f"{label} holds no whole UNet: its input blocks are numbered "
            f"{', '.join(map(str, numbers[:20])) or 'nowhere'}. Get the model again."
        )
    return blocks


def _firsts(lengths: Iterable[int]) -> list[int]:
    firsts: list[int] = []
    start = 0
    for length in lengths:
        firsts.append(start)
        start += length
    return firsts


def _count(shapes: Shapes, pattern: str) -> int:
    """How many names follow the pattern, counting its number up from 0."""
    number = 0
    while pattern.format(number) in shapes:
        number += 1
    return number


def _depth(shapes: Shapes, name: str) -> int:
    return max(_count(shapes, name + ".transformer_blocks.{}.norm1.weight"), 1)


def _shape(shapes: Shapes, name: str, label: str) -> tuple[int, ...]:
    shape = shapes.get(name)
    if shape is None:
        raise CorruptFile(
            f"{label} lacks the tensor {name!r}, which tells the network's size. Get the whole "
            "model again."
        )
    return shape


def _dim(shapes: Shapes, name: str, axis: int, label: str) -> int:
    shape = _shape(shapes, name, label)
    if len(shape) <= axis or shape[axis] < 1:
        raise CorruptFile(f"{label} has the tensor {name!r} with the odd shape {list(shape)}.")
    return shape[axis]
