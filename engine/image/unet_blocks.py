"""Resnets and transformers of the denoiser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from engine.formats.diffusers_configs import UNetConfig
from engine.graph.node import Value
from engine.image.layers import Layers
from engine.tensor.descriptor import DType

TRANSFORMER_NORM_EPS = 1e-6


@dataclass(frozen=True)
class Context:
    """What all blocks read: keys and values by transformer block, and silu of the time embedding.

    Attributes:
        time: f32 ``[batch or 1, time_embed_dim]``.
    """

    config: UNetConfig
    keys: Mapping[str, Value]
    time: Value
    batch: int


def resnet(
    layers: Layers, context: Context, x: Value, name: str, skip: Value | None = None
) -> Value:
    """x (with the channels of ``skip`` behind) plus two normed convolutions of it.

    The time embedding is added after the first convolution, whose bias goes along with it.
    """
    config, weights = context.config, layers.weights
    norm = partial(layers.group_norm, groups=config.norm_groups, eps=config.norm_eps, act="silu")
    inner = norm(x, f"{name}.norm1", skip=skip)
    shift = layers.add(
        "linear",
        {
            "x": context.time,
            "weight": weights.matrix(f"{name}.time_emb_proj"),
            "bias": weights.vector(f"{name}.time_emb_proj.bias", f"{name}.conv1.bias", added=True),
        },
        dtype=DType.F32,
    )
    inner = layers.conv(inner, f"{name}.conv1", fused={"bias": None, "shift": shift})
    inner = norm(inner, f"{name}.norm2")
    if weights.has(f"{name}.conv_shortcut.weight"):
        x = layers.conv(x, f"{name}.conv_shortcut", kernel=1, padding=0, fused={"skip": skip})
    return layers.conv(inner, f"{name}.conv2", fused={"residual": x})


def transformer(layers: Layers, context: Context, x: Value, name: str, block: int) -> Value:
    """x plus a projected run of transformer blocks over its pixels."""
    config = context.config
    inner = layers.group_norm(
        x, f"{name}.norm", groups=config.norm_groups, eps=TRANSFORMER_NORM_EPS
    )
    inner = layers.linear(inner, f"{name}.proj_in")
    for index in range(config.transformer_layers[block]):
        base = f"{name}.transformer_blocks.{index}"
        inner = _block(layers, context, inner, base, config.heads[block])
    return layers.linear(inner, f"{name}.proj_out", residual=x)


def _block(layers: Layers, context: Context, x: Value, name: str, heads: int) -> Value:
    """Attention over the pixels, attention to the text, feed-forward with a gated GELU."""
    channels = x.tensor.shape.c
    x = layers.self_attention(
        layers.layer_norm(x, f"{name}.norm1"),
        [f"{name}.attn1.to_{part}" for part in "qkv"],
        f"{name}.attn1.to_out.0",
        heads=heads,
        batch=context.batch,
        residual=x,
    )
    keys = context.keys[name]
    q = layers.linear(layers.layer_norm(x, f"{name}.norm2"), f"{name}.attn2.to_q")
    mixed = layers.add(
        "attention_full",
        {"q": q, "k": keys, "v": keys},
        heads=heads,
        head_dim=channels // heads,
        batch=context.batch,
        offsets=(0, 0, channels),
    )
    x = layers.linear(mixed, f"{name}.attn2.to_out.0", residual=x)
    inner = layers.gated(layers.layer_norm(x, f"{name}.norm3"), f"{name}.ff.net.0.proj", "gelu")
    return layers.linear(inner, f"{name}.ff.net.2", residual=x)
