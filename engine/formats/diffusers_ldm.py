"""Names in single-file checkpoints (the LDM layout) for the diffusers names of a network.

A checkpoint counts a UNet's layers through (``input_blocks.4.1...``) where diffusers names blocks
(``down_blocks.1.attentions.0...``), counts a VAE's upper blocks from the other end, and an OpenCLIP
text encoder keeps query, key and value in one matrix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from engine.formats.diffusers_configs import UNetConfig

_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
_UNET_TOP = {
    "conv_in": "input_blocks.0.0",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "time_embedding.cond_proj": "time_embed.cond_proj",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
    "mid_block.resnets.0": "middle_block.0",
    "mid_block.attentions.0": "middle_block.1",
    "mid_block.resnets.1": "middle_block.2",
}
_UNET_BLOCK = re.compile(
    r"(down|up)_blocks\.(\d+)\.(resnets|attentions|downsamplers|upsamplers)\.(\d+)\.(.+)"
)

_VAE_ATTENTION = {
    "group_norm": "norm",
    "to_q": "q",
    "to_k": "k",
    "to_v": "v",
    "to_out.0": "proj_out",
}
_VAE_BLOCK = re.compile(
    r"(encoder\.down|decoder\.up)_blocks\.(\d+)\.(resnets|downsamplers|upsamplers)\.(\d+)\.(.+)"
)
_VAE_MID = re.compile(r"(encoder|decoder)\.mid_block\.(resnets|attentions)\.(\d+)\.(.+)")

_OPEN_CLIP_TOP = {
    "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    "text_model.final_layer_norm.weight": "ln_final.weight",
    "text_model.final_layer_norm.bias": "ln_final.bias",
    "text_projection.weight": "text_projection",
}
_OPEN_CLIP_LAYER = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "self_attn.out_proj": "attn.out_proj",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
}
_CLIP_LAYER = re.compile(r"text_model\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)")
FUSED = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")


def unet_namer(config: UNetConfig) -> Callable[[str], str]:
    """A function from a UNet's diffusers names to a checkpoint's, without its prefix."""
    layers = config.layers_per_block
    down = _starts([count + 1 for count in layers], 1)
    up = _starts([count + 1 for count in layers[::-1]], 0)

    def block(match: re.Match[str]) -> str:
        side, index, kind, layer, rest = match.groups()
        number, place = int(index), int(layer)
        if kind == "downsamplers":
            return f"input_blocks.{down[number] + layers[number]}.0.{rest.replace('conv', 'op', 1)}"
        if kind == "upsamplers":
            last = up[number] + layers[::-1][number]
            return f"output_blocks.{last}.{2 if config.up_attention[number] else 1}.{rest}"
        start = f"input_blocks.{down[number] + place}"
        if side == "up":
            start = f"output_blocks.{up[number] + place}"
        return f"{start}.0.{_resnet(rest)}" if kind == "resnets" else f"{start}.1.{rest}"

    def name(diffusers: str) -> str:
        match = _UNET_BLOCK.fullmatch(diffusers)
        if match:
            return block(match)
        top, rest = _top(diffusers, _UNET_TOP)
        return f"{top}.{_resnet(rest) if '.resnets.' in diffusers else rest}"

    return name


def vae_namer(blocks: int) -> Callable[[str], str]:
    """A function from the diffusers names of a VAE of ``blocks`` blocks to a checkpoint's."""

    def name(diffusers: str) -> str:
        match = _VAE_BLOCK.fullmatch(diffusers)
        if match:
            side, index, kind, layer, rest = match.groups()
            # Upper blocks are counted from the picture's end in a checkpoint.
            number = int(index) if side == "encoder.down" else blocks - 1 - int(index)
            if kind == "resnets":
                shortcut = rest.replace("conv_shortcut", "nin_shortcut")
                return f"{side}.{number}.block.{layer}.{shortcut}"
            sampler = "downsample" if kind == "downsamplers" else "upsample"
            return f"{side}.{number}.{sampler}.{rest}"
        match = _VAE_MID.fullmatch(diffusers)
        if match:
            side, kind, index, rest = match.groups()
            if kind == "resnets":
                return f"{side}.mid.block_{int(index) + 1}.{rest}"
            part, _, end = rest.rpartition(".")
            return f"{side}.mid.attn_1.{_VAE_ATTENTION[part]}.{end}"
        return diffusers.replace("conv_norm_out", "norm_out")

    return name


def open_clip_name(diffusers: str) -> tuple[str, int | None, bool]:
    """The OpenCLIP name for a CLIP text encoder's diffusers name.

    Also which third of the stored rows it is (0 query, 1 key, 2 value, or None for all), and
    whether the stored matrix is the other way round.
    """
    if diffusers in _OPEN_CLIP_TOP:
        return _OPEN_CLIP_TOP[diffusers], None, diffusers == "text_projection.weight"
    match = _CLIP_LAYER.fullmatch(diffusers)
    if not match:
        return diffusers, None, False
    layer, part, end = match.groups()
    block = f"transformer.resblocks.{layer}"
    if part in FUSED:
        return f"{block}.attn.in_proj_{end}", FUSED.index(part), False
    return f"{block}.{_OPEN_CLIP_LAYER.get(part, part)}.{end}", None, False


def old_vae_name(diffusers: str) -> str:
    """The name that files of before diffusers 0.17 have for a part of a VAE's attention."""
    for new, old in (
        (".to_q.", ".query."),
        (".to_k.", ".key."),
        (".to_v.", ".value."),
        (".to_out.0.", ".proj_attn."),
    ):
        if ".attentions." in diffusers and new in diffusers:
            return diffusers.replace(new, old)
    return diffusers


def _resnet(rest: str) -> str:
    part, _, end = rest.rpartition(".")
    return f"{_RESNET[part]}.{end}"


def _top(name: str, table: Mapping[str, str]) -> tuple[str, str]:
    """The table's entry for the start of a name, and the rest of the name."""
    for start, other in table.items():
        if name.startswith(start + "."):
            return other, name[len(start) + 1 :]
    return "", name


def _starts(lengths: list[int], first: int) -> list[int]:
    """Where each run begins when runs of these lengths follow one another."""
    starts: list[int] = []
    for length in lengths:
        starts.append(first)
        first += length
    return starts
