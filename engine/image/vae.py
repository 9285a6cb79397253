"""Autoencoders as graphs: AutoencoderKL's encoder and decoder, and the tiny autoencoder's.

Pictures are ``[b, h, w, 3]`` from -1 to 1 (the tiny encoder reads 0 to 1), latents are f32 and not
yet scaled: what the networks themselves read and write.
"""

from __future__ import annotations

from engine.formats.diffusers_configs import TinyVaeConfig, VaeConfig
from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.image.layers import Layers
from engine.image.vae_tiny import tiny_decoder, tiny_encoder
from engine.image.weights import NetworkWeights
from engine.tensor.descriptor import DType, Shape, TensorDesc

EPS = 1e-6


def build_decoder(
    config: VaeConfig | TinyVaeConfig,
    weights: NetworkWeights,
    latents: tuple[int, int, int],
    dtype: DType,
) -> tuple[Graph, Value, Value]:
    """(graph, latents f32 ``[b, h, w, latent_channels]``, picture ``[b, 8h, 8w, 3]``)."""
    batch, height, width = latents
    layers = Layers(Graph("vae_decoder"), weights, dtype)
    desc = TensorDesc(Shape(batch, height, width, config.latent_channels))
    z = Value("latents", desc, Role.INPUT)
    shape = Shape(batch, height * config.factor, width * config.factor, config.out_channels)
    out = Value("picture", TensorDesc(shape, dtype), Role.OUTPUT)
    if isinstance(config, TinyVaeConfig):
        tiny_decoder(layers, config, z, out)
    else:
        _decoder(layers, config, z, out)
    return layers.graph, z, out


def build_encoder(
    config: VaeConfig | TinyVaeConfig,
    weights: NetworkWeights,
    picture: tuple[int, int, int],
    dtype: DType,
) -> tuple[Graph, Value, Value]:
    """(graph, picture f32 ``[b, h, w, 3]``, moments f32 ``[b, h / 8, w / 8, c]``).

    AutoencoderKL's moments are means, then log variances (c = 2 * latent channels); the tiny
    encoder gives latents.
    """
    batch, height, width = picture
    layers = Layers(Graph("vae_encoder"), weights, dtype)
    desc = TensorDesc(Shape(batch, height, width, config.in_channels))
    x = Value("picture", desc, Role.INPUT)
    kinds = 1 if isinstance(config, TinyVaeConfig) else 2
    channels = kinds * config.latent_channels
    shape = Shape(batch, height // config.factor, width // config.factor, channels)
    out = Value("moments", TensorDesc(shape), Role.OUTPUT)
    if isinstance(config, TinyVaeConfig):
        tiny_encoder(layers, config, x, out)
    else:
        _encoder(layers, config, x, out)
    return layers.graph, x, out


def _decoder(layers: Layers, config: VaeConfig, z: Value, out: Value) -> None:
    if config.post_quant_conv:
        z = layers.conv(z, "post_quant_conv", kernel=1, padding=0, dtype=DType.F32)
    x = layers.conv(z, "decoder.conv_in")
    x = _mid(layers, config, x, "decoder.mid_block")
    last = len(config.block_out_channels) - 1
    for block in range(last + 1):
        base = f"decoder.up_blocks.{block}"
        for layer in range(config.layers_per_block + 1):
            x = _resnet(layers, config, x, f"{base}.resnets.{layer}")
        if block < last:
            x = layers.conv(x, f"{base}.upsamplers.0.conv", upsample=2)
    x = _norm(layers, config, x, "decoder.conv_norm_out")
    layers.conv(x, "decoder.conv_out", out=out)


def _encoder(layers: Layers, config: VaeConfig, x: Value, out: Value) -> None:
    x = layers.conv(x, "encoder.conv_in")
    last = len(config.block_out_channels) - 1
    for block in range(last + 1):
        base = f"encoder.down_blocks.{block}"
        for layer in range(config.layers_per_block):
            x = _resnet(layers, config, x, f"{base}.resnets.{layer}")
        if block < last:
            # diffusers pads right and below only
            x = layers.conv(x, f"{base}.downsamplers.0.conv", stride=2, padding=(0, 0, 1, 1))
    x = _mid(layers, config, x, "encoder.mid_block")
    x = _norm(layers, config, x, "encoder.conv_norm_out")
    if not config.quant_conv:
        layers.conv(x, "encoder.conv_out", out=out)
        return
    x = layers.conv(x, "encoder.conv_out", dtype=DType.F32)
    layers.conv(x, "quant_conv", kernel=1, padding=0, out=out)


def _mid(layers: Layers, config: VaeConfig, x: Value, name: str) -> Value:
    x = _resnet(layers, config, x, f"{name}.resnets.0")
    if config.mid_attention:
        base = f"{name}.attentions.0"
        normed = layers.group_norm(x, f"{base}.group_norm", groups=config.norm_groups, eps=EPS)
        x = layers.self_attention(
            normed,
            [f"{base}.to_{part}" for part in "qkv"],
            f"{base}.to_out.0",
            heads=1,
            batch=x.tensor.shape.b,
            residual=x,
        )
    return _resnet(layers, config, x, f"{name}.resnets.1")


def _norm(layers: Layers, config: VaeConfig, x: Value, name: str) -> Value:
    return layers.group_norm(x, name, groups=config.norm_groups, eps=EPS, act="silu")


def _resnet(layers: Layers, config: VaeConfig, x: Value, name: str) -> Value:
    inner = layers.conv(_norm(layers, config, x, f"{name}.norm1"), f"{name}.conv1")
    inner = _norm(layers, config, inner, f"{name}.norm2")
    if layers.weights.has(f"{name}.conv_shortcut.weight"):
        x = layers.conv(x, f"{name}.conv_shortcut", kernel=1, padding=0)
    return layers.conv(inner, f"{name}.conv2", fused={"residual": x})
