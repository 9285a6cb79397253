"""Every tensor that a picture network has, by its diffusers name, with its shape.

A file is held against these lists when it is opened, and graphs are built from the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from engine.formats.diffusers_configs import TextConfig, TinyVaeConfig, UNetConfig, VaeConfig

Shape = tuple[int, ...]
Entries = Iterator[tuple[str, Shape]]


def unet_tensors(config: UNetConfig) -> Mapping[str, Shape]:
    """Names and shapes of a UNet2DConditionModel."""
    return dict(_unet(config))


def vae_tensors(config: VaeConfig) -> Mapping[str, Shape]:
    """Names and shapes of an AutoencoderKL."""
    return dict(_vae(config))


def tiny_vae_tensors(config: TinyVaeConfig) -> Mapping[str, Shape]:
    """Names and shapes of an AutoencoderTiny."""
    return dict(_tiny_vae(config))


def text_tensors(config: TextConfig) -> Mapping[str, Shape]:
    """Names and shapes of a CLIPTextModel, or CLIPTextModelWithProjection."""
    return dict(_text(config))


def _linear(name: str, cout: int, cin: int, *, bias: bool = True) -> Entries:
    yield f"{name}.weight", (cout, cin)
    if bias:
        yield f"{name}.bias", (cout,)


def _conv(name: str, cout: int, cin: int, size: int = 3, *, bias: bool = True) -> Entries:
    yield f"{name}.weight", (cout, cin, size, size)
    if bias:
        yield f"{name}.bias", (cout,)


def _norm(name: str, channels: int) -> Entries:
    yield f"{name}.weight", (channels,)
    yield f"{name}.bias", (channels,)


def _resnet(name: str, cin: int, cout: int, time: int = 0) -> Entries:
    """Two convolutions with a shortcut; ``time`` is the width of the time embedding, if any."""
    yield from _norm(f"{name}.norm1", cin)
    yield from _conv(f"{name}.conv1", cout, cin)
    if time:
        yield from _linear(f"{name}.time_emb_proj", cout, time)
    yield from _norm(f"{name}.norm2", cout)
    yield from _conv(f"{name}.conv2", cout, cout)
    if cin != cout:
        yield from _conv(f"{name}.conv_shortcut", cout, cin, 1)


def _transformer(name: str, channels: int, depth: int, config: UNetConfig) -> Entries:
    """A spatial transformer: project in, ``depth`` blocks, project out."""
    yield from _norm(f"{name}.norm", channels)
    size: Shape = () if config.use_linear_projection else (1, 1)
    for end in ("proj_in", "proj_out"):
        yield f"{name}.{end}.weight", (channels, channels, *size)
        yield f"{name}.{end}.bias", (channels,)
    for index in range(depth):
        block = f"{name}.transformer_blocks.{index}"
        for number, width in ((1, channels), (2, config.cross_attention_dim)):
            yield from _norm(f"{block}.norm{number}", channels)
            attention = f"{block}.attn{number}"
            yield from _linear(f"{attention}.to_q", channels, channels, bias=False)
            yield from _linear(f"{attention}.to_k", channels, width, bias=False)
            yield from _linear(f"{attention}.to_v", channels, width, bias=False)
            yield from _linear(f"{attention}.to_out.0", channels, channels)
        yield from _norm(f"{block}.norm3", channels)
        yield from _linear(f"{block}.ff.net.0.proj", channels * 8, channels)
        yield from _linear(f"{block}.ff.net.2", channels, channels * 4)


def _unet(config: UNetConfig) -> Entries:
    channels, time = config.block_out_channels, config.time_embed_dim
    yield from _conv("conv_in", channels[0], config.in_channels)
    yield from _linear("time_embedding.linear_1", time, channels[0])
    yield from _linear("time_embedding.linear_2", time, time)
    if config.time_cond_dim:
        yield from _linear(
            "time_embedding.cond_proj", channels[0], config.time_cond_dim, bias=False
        )
    if config.added_dim:
        yield from _linear("add_embedding.linear_1", time, config.added_dim)
        yield from _linear("add_embedding.linear_2", time, time)
    yield from _unet_down(config)
    last = channels[-1]
    yield from _resnet("mid_block.resnets.0", last, last, time)
    depth = config.transformer_layers[-1]
    yield from _transformer("mid_block.attentions.0", last, depth, config)
    yield from _resnet("mid_block.resnets.1", last, last, time)
    yield from _unet_up(config)
    yield from _norm("conv_norm_out", channels[0])
    yield from _conv("conv_out", config.out_channels, channels[0])


def _unet_down(config: UNetConfig) -> Entries:
    channels = config.block_out_channels
    for index, cout in enumerate(channels):
        block = f"down_blocks.{index}"
        for layer in range(config.layers_per_block[index]):
            cin = channels[max(index - 1, 0)] if layer == 0 else cout
            yield from _resnet(f"{block}.resnets.{layer}", cin, cout, config.time_embed_dim)
            if config.down_attention[index]:
                depth = config.transformer_layers[index]
                yield from _transformer(f"{block}.attentions.{layer}", cout, depth, config)
        if index < len(channels) - 1:
            yield from _conv(f"{block}.downsamplers.0.conv", cout, cout)


def skip_channels(config: UNetConfig) -> tuple[int, ...]:
    """Channels of the skip connections, in the order in which the down blocks make them."""
    channels = config.block_out_channels
    skips = [channels[0]]
    for index, cout in enumerate(channels):
        skips += [cout] * config.layers_per_block[index]
        if index < len(channels) - 1:
            skips.append(cout)
    return tuple(skips)


def _unet_up(config: UNetConfig) -> Entries:
    channels = config.block_out_channels[::-1]
    skips = list(skip_channels(config))
    for index, cout in enumerate(channels):
        block = f"up_blocks.{index}"
        for layer in range(config.layers_per_block[::-1][index] + 1):
            below = channels[max(index - 1, 0)] if layer == 0 else cout
            cin = below + skips.pop()
            yield from _resnet(f"{block}.resnets.{layer}", cin, cout, config.time_embed_dim)
            if config.up_attention[index]:
                depth = config.transformer_layers[::-1][index]
                yield from _transformer(f"{block}.attentions.{layer}", cout, depth, config)
        if index < len(channels) - 1:
            yield from _conv(f"{block}.upsamplers.0.conv", cout, cout)


def _vae(config: VaeConfig) -> Entries:
    channels, latents = config.block_out_channels, config.latent_channels
    yield from _conv("encoder.conv_in", channels[0], config.in_channels)
    for index, (cin, cout) in enumerate(pairwise((channels[0], *channels))):
        block = f"encoder.down_blocks.{index}"
        for layer in range(config.layers_per_block):
            yield from _resnet(f"{block}.resnets.{layer}", cin if layer == 0 else cout, cout)
        if index < len(channels) - 1:
            yield from _conv(f"{block}.downsamplers.0.conv", cout, cout)
    yield from _vae_mid("encoder.mid_block", channels[-1], config)
    yield from _norm("encoder.conv_norm_out", channels[-1])
    yield from _conv("encoder.conv_out", latents * 2, channels[-1])
    if config.quant_conv:
        yield from _conv("quant_conv", latents * 2, latents * 2, 1)
    if config.post_quant_conv:
        yield from _conv("post_quant_conv", latents, latents, 1)
    yield from _conv("decoder.conv_in", channels[-1], latents)
    yield from _vae_mid("decoder.mid_block", channels[-1], config)
    for index, (cin, cout) in enumerate(pairwise((channels[-1], *channels[::-1]))):
        block = f"decoder.up_blocks.{index}"
        for layer in range(config.layers_per_block + 1):
            yield from _resnet(f"{block}.resnets.{layer}", cin if layer == 0 else cout, cout)
        if index < len(channels) - 1:
            yield from _conv(f"{block}.upsamplers.0.conv", cout, cout)
    yield from _norm("decoder.conv_norm_out", channels[0])
    yield from _conv("decoder.conv_out", config.out_channels, channels[0])


def _vae_mid(name: str, channels: int, config: VaeConfig) -> Entries:
    yield from _resnet(f"{name}.resnets.0", channels, channels)
    if config.mid_attention:
        attention = f"{name}.attentions.0"
        yield from _norm(f"{attention}.group_norm", channels)
        for part in ("to_q", "to_k", "to_v", "to_out.0"):
            yield from _linear(f"{attention}.{part}", channels, channels)
    yield from _resnet(f"{name}.resnets.1", channels, channels)


def _tiny_block(name: str, channels: int) -> Entries:
    for index in (0, 2, 4):
        yield from _conv(f"{name}.conv.{index}", channels, channels)


def _tiny_vae(config: TinyVaeConfig) -> Entries:
    """Layers are numbered through; those without weights (ReLU, enlarging) count too."""
    layer = 0
    for index, blocks in enumerate(config.encoder_blocks):
        channels = config.encoder_channels[index]
        first = index == 0
        cin = config.in_channels if first else channels
        yield from _conv(f"encoder.layers.{layer}", channels, cin, bias=first)
        layer += 1
        for _ in range(blocks):
            yield from _tiny_block(f"encoder.layers.{layer}", channels)
            layer += 1
    yield from _conv(f"encoder.layers.{layer}", config.latent_channels, config.encoder_channels[-1])
    yield from _conv("decoder.layers.0", config.decoder_channels[0], config.latent_channels)
    layer = 2
    for index, blocks in enumerate(config.decoder_blocks):
        channels = config.decoder_channels[index]
        for _ in range(blocks):
            yield from _tiny_block(f"decoder.layers.{layer}", channels)
            layer += 1
        last = index == len(config.decoder_blocks) - 1
        layer += 0 if last else 1
        cout = config.out_channels if last else channels
        yield from _conv(f"decoder.layers.{layer}", cout, channels, bias=last)
        layer += 1


def _text(config: TextConfig) -> Entries:
    width = config.hidden_size
    yield "text_model.embeddings.token_embedding.weight", (config.vocab_size, width)
    yield "text_model.embeddings.position_embedding.weight", (config.positions, width)
    for index in range(config.layers):
        layer = f"text_model.encoder.layers.{index}"
        yield from _norm(f"{layer}.layer_norm1", width)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _linear(f"{layer}.self_attn.{part}", width, width)
        yield from _norm(f"{layer}.layer_norm2", width)
        yield from _linear(f"{layer}.mlp.fc1", config.intermediate_size, width)
        yield from _linear(f"{layer}.mlp.fc2", width, config.intermediate_size)
    yield from _norm("text_model.final_layer_norm", width)
    if config.projection_dim:
        yield "text_projection.weight", (config.projection_dim, width)
