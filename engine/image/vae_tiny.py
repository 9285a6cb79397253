"""The tiny autoencoder (TAESD's layout, diffusers' AutoencoderTiny): convolutions and ReLU only.

Its layers are numbered through; those without weights (ReLU, enlarging) count too.
"""

from __future__ import annotations

from engine.formats.diffusers_configs import TinyVaeConfig
from engine.graph.node import Value
from engine.image.layers import Layers
from engine.tensor.descriptor import DType

LATENT_BOUND = 3.0  # the decoder reads 3 tanh(latent / 3)


def tiny_decoder(layers: Layers, config: TinyVaeConfig, z: Value, out: Value | None) -> Value:
    """Latents to a picture from -1 to 1; the network's own range, 0 to 1, is scaled in its end.

    ``out`` is where the picture goes; else it is an activation.
    """
    x = layers.add("softcap", {"x": z}, cap=LATENT_BOUND, dtype=DType.F32)
    x = layers.conv(x, "decoder.layers.0", act="relu")
    layer, last = 2, len(config.decoder_blocks) - 1
    for index, blocks in enumerate(config.decoder_blocks):
        for _ in range(blocks):
            x = _block(layers, x, f"decoder.layers.{layer}")
            layer += 1
        if index < last:
            x = layers.conv(x, f"decoder.layers.{layer + 1}", upsample=2)
            layer += 2
    name, weights = f"decoder.layers.{layer}", layers.weights
    inputs: dict[str, Value | None] = {
        "x": x,
        "weight": weights.matrix(name, scale=2.0),
        "bias": weights.vector(f"{name}.bias", scale=2.0, shift=-1.0),
    }
    return layers.add("conv2d", inputs, out=out, kernel=3, padding=1)


def tiny_encoder(layers: Layers, config: TinyVaeConfig, x: Value, out: Value) -> None:
    """A picture from 0 to 1 to latents."""
    layer = 0
    for index, blocks in enumerate(config.encoder_blocks):
        x = layers.conv(x, f"encoder.layers.{layer}", stride=1 if index == 0 else 2)
        layer += 1
        for _ in range(blocks):
            x = _block(layers, x, f"encoder.layers.{layer}")
            layer += 1
    layers.conv(x, f"encoder.layers.{layer}", out=out)


def _block(layers: Layers, x: Value, name: str) -> Value:
    """relu(x + three convolutions of it)."""
    inner = layers.conv(x, f"{name}.conv.0", act="relu")
    inner = layers.conv(inner, f"{name}.conv.2", act="relu")
    return layers.conv(inner, f"{name}.conv.4", act="relu", fused={"residual": x})
