"""The denoiser, diffusers' UNet2DConditionModel, as graphs.

Two graphs: :func:`build_context` makes the keys and values of every cross attention from the
prompt, once; :func:`build_unet` predicts from latents, a time step and those keys and values.

A down block is resnets (each followed by a transformer where the block attends), then a halving
convolution; up blocks mirror it and read the skips that the down blocks left, last one first.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.formats.diffusers_configs import UNetConfig
from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.image.layers import Layers
from engine.image.unet_blocks import Context, resnet, transformer
from engine.image.weights import NetworkWeights
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix


@dataclass(frozen=True)
class UNetSize:
    """What the denoiser is compiled for: pictures and branches in a batch, latents, text tokens."""

    batch: int
    height: int
    width: int
    tokens: int


@dataclass(frozen=True)
class ContextGraph:
    """``text`` f32 [batch * tokens, width] to the keys and values of each cross attention."""

    graph: Graph
    text: Value
    keys: dict[str, Value]


def cross_attentions(config: UNetConfig) -> dict[str, int]:
    """Names of all transformer blocks, with their channels."""
    found: dict[str, int] = {}
    channels = config.block_out_channels
    depth, layers = config.transformer_layers, config.layers_per_block
    last = len(channels) - 1

    def enter(name: str, block: int) -> None:
        for index in range(depth[block]):
            found[f"{name}.transformer_blocks.{index}"] = channels[block]

    for block, attends in enumerate(config.down_attention):
        for layer in range(layers[block] if attends else 0):
            enter(f"down_blocks.{block}.attentions.{layer}", block)
    enter("mid_block.attentions.0", last)
    for block, attends in enumerate(config.up_attention):
        for layer in range(layers[last - block] + 1 if attends else 0):
            enter(f"up_blocks.{block}.attentions.{layer}", last - block)
    return found


def key_values(config: UNetConfig, size: UNetSize, dtype: DType, role: Role) -> dict[str, Value]:
    """Keys beside values ``[batch * tokens, 2 * channels]`` of each cross attention."""
    rows = size.batch * size.tokens
    return {
        name: Value(f"{name}.kv", matrix(rows, 2 * channels, dtype), role)
        for name, channels in cross_attentions(config).items()
    }


def build_context(
    config: UNetConfig, weights: NetworkWeights, size: UNetSize, dtype: DType
) -> ContextGraph:
    """The graph that runs once for each prompt."""
    layers = Layers(Graph("context"), weights, dtype)
    desc = matrix(size.batch * size.tokens, config.cross_attention_dim)
    text = Value("text", desc, Role.INPUT)
    keys = key_values(config, size, dtype, Role.OUTPUT)
    for name, out in keys.items():
        layers.linear(text, f"{name}.attn2.to_k", f"{name}.attn2.to_v", out=out)
    return ContextGraph(layers.graph, text, keys)


def build_unet(
    layers: Layers,
    config: UNetConfig,
    size: UNetSize,
    x: Value,
    time: Value,
    added: Value | None = None,
    out: Value | None = None,
    condition: Value | None = None,
) -> tuple[Value, dict[str, Value]]:
    """Latents to the prediction, f32 ``[batch, height, width, out_channels]``.

    Args:
        x: latents, f32 ``[batch, height, width, in_channels]``, or as many as are left by
            ``condition``, whose channels follow theirs.
        time: sines and cosines of the time step, f32 ``[batch, block_out_channels[0]]``; without
            ``added`` one row will do for all.
        added: SDXL's pooled text and sizes, f32 ``[batch, added_dim]``; for LCM models the
            embedded guidance, f32 ``[batch, time_cond_dim]``.
        out: where the prediction goes; else it is an activation.
        condition: for inpainting models the mask, then the latents of the masked picture, f32
            ``[batch, height, width, 1 + latent channels]``.

    Returns:
        the prediction, and the keys and values to bind, which :func:`build_context` makes.
    """
    keys = key_values(config, size, layers.dtype, Role.INPUT)
    context = Context(config, keys, _time_embedding(layers, config, time, added), size.batch)
    x = layers.conv(x, "conv_in", fused={"skip": condition})
    skips = [x]
    x = _down(layers, config, context, x, skips)
    x = resnet(layers, context, x, "mid_block.resnets.0")
    x = transformer(layers, context, x, "mid_block.attentions.0", len(config.heads) - 1)
    x = resnet(layers, context, x, "mid_block.resnets.1")
    x = _up(layers, config, context, x, skips)
    x = layers.group_norm(
        x, "conv_norm_out", groups=config.norm_groups, eps=config.norm_eps, act="silu"
    )
    return layers.conv(x, "conv_out", out=out, dtype=DType.F32), keys


def _time_embedding(layers: Layers, config: UNetConfig, time: Value, added: Value | None) -> Value:
    """silu of the time embedding, as every resnet reads it: f32 [batch, time_embed_dim]."""
    if config.time_cond_dim and added is not None:
        # diffusers adds the projected guidance before the first layer
        inputs = {
            "x": added,
            "weight": layers.weights.matrix("time_embedding.cond_proj"),
            "residual": time,
        }
        time = layers.add("linear", inputs, dtype=DType.F32)
    total = _two_layers(layers, time, "time_embedding", None)
    if config.added_dim and added is not None:
        total = _two_layers(layers, added, "add_embedding", total)
    return layers.add("silu", {"x": total}, dtype=DType.F32)


def _two_layers(layers: Layers, x: Value, name: str, residual: Value | None) -> Value:
    inner = layers.linear(x, f"{name}.linear_1", dtype=DType.F32)
    inner = layers.add("silu", {"x": inner}, dtype=DType.F32)
    return layers.linear(inner, f"{name}.linear_2", residual=residual, dtype=DType.F32)


def _down(
    layers: Layers, config: UNetConfig, context: Context, x: Value, skips: list[Value]
) -> Value:
    for block, attends in enumerate(config.down_attention):
        base = f"down_blocks.{block}"
        for layer in range(config.layers_per_block[block]):
            x = resnet(layers, context, x, f"{base}.resnets.{layer}")
            if attends:
                x = transformer(layers, context, x, f"{base}.attentions.{layer}", block)
            skips.append(x)
        if block < len(config.down_attention) - 1:
            x = layers.conv(x, f"{base}.downsamplers.0.conv", stride=2)
            skips.append(x)
    return x


def _up(
    layers: Layers, config: UNetConfig, context: Context, x: Value, skips: list[Value]
) -> Value:
    last = len(config.up_attention) - 1
    for block, attends in enumerate(config.up_attention):
        base = f"up_blocks.{block}"
        for layer in range(config.layers_per_block[last - block] + 1):
            x = resnet(layers, context, x, f"{base}.resnets.{layer}", skips.pop())
            if attends:
                x = transformer(layers, context, x, f"{base}.attentions.{layer}", last - block)
        if block < last:
            # Sizes that do not halve evenly: the enlarged picture ends where the skip does.
            want = skips[-1].tensor.shape
            x = layers.enlarged(x, f"{base}.upsamplers.0.conv", want.h, want.w)
    return x


def latent_desc(count: int, height: int, width: int, channels: int) -> TensorDesc:
    """f32 latents ``[count, height, width, channels]``."""
    return TensorDesc(Shape(count, height, width, channels))
