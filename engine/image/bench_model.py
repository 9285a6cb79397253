"""Models of well-known shapes with random weights, to measure speed without a download."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from engine.formats.diffusers import PipelineFiles, TokenizerFiles
from engine.formats.diffusers_configs import (
    read_text_config,
    read_unet_config,
    read_vae_config,
)
from engine.formats.diffusers_names import text_tensors, unet_tensors, vae_tensors
from engine.formats.diffusers_weights import WeightSource
from engine.image.errors import SettingError
from engine.image.weights import Floats

_BLOCK = 1 << 20  # random numbers that are repeated

_UNET: dict[str, Any] = {
    "block_out_channels": [320, 640, 1280, 1280],
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
}
_XL: dict[str, Any] = {
    "block_out_channels": [320, 640, 1280],
    "down_block_types": ["DownBlock2D"] + ["CrossAttnDownBlock2D"] * 2,
    "up_block_types": ["CrossAttnUpBlock2D"] * 2 + ["UpBlock2D"],
    "cross_attention_dim": 2048,
    "attention_head_dim": [5, 10, 20],
    "transformer_layers_per_block": [1, 2, 10],
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
    "sample_size": 128,
}
_VAE: dict[str, Any] = {
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "layers_per_block": 2,
    "force_upcast": False,
}
_VIT_L: dict[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}
_BIG_G: dict[str, Any] = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "num_attention_heads": 20,
    "hidden_act": "gelu",
    "projection_dim": 1280,
}
_SCHEDULER: dict[str, Any] = {
    "_class_name": "DDIMScheduler",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "steps_offset": 1,
    "set_alpha_to_one": False,
    "clip_sample": False,
}
SHAPES = ("sd15", "sdxl")


class RandomSource:
    """Numbers of variance 1 / fan-in, gains of 1 and biases of 0, of given names and shapes."""

    def __init__(self, label: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.label = label
        self._shapes = shapes
        generator = np.random.Generator(np.random.PCG64(0))
        self._numbers = generator.standard_normal(_BLOCK, np.float32)

    def __contains__(self, name: object) -> bool:
        return name in self._shapes

    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight."""
        return self._shapes[name]

    def array(self, name: str) -> Floats:
        """The numbers of a weight."""
        shape = self._shapes[name]
        if len(shape) == 1:
            return np.full(shape, float(name.endswith("weight")), np.float32)
        scale = np.float32(math.prod(shape[1:]) ** -0.5)
        return np.resize(self._numbers, shape) * scale

    @property
    def parameters(self) -> int:
        """Numbers of all weights together."""
        return sum(math.prod(shape) for shape in self._shapes.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all weights in 16 bits."""
        return 2 * self.parameters


def random_model(shapes: str) -> PipelineFiles:
    """A model of the shapes of Stable Diffusion 1.5 ("sd15") or XL ("sdxl")."""
    if shapes not in SHAPES:
        raise SettingError(f"There are no shapes named {shapes[:40]!r}; there are sd15 and sdxl.")
    large = shapes == "sdxl"
    unet = read_unet_config(_XL if large else _UNET)
    vae = read_vae_config(_VAE)
    texts = [read_text_config(_VIT_L)]
    if large:
        texts.append(read_text_config(_BIG_G, projected=True))
    sources = {
        "unet": unet_tensors(unet),
        "vae": vae_tensors(vae),
        **{
            name: text_tensors(config)
            for name, config in zip(("text_encoder", "text_encoder_2"), texts, strict=False)
        },
    }
    weights = {name: RandomSource(name, entries) for name, entries in sources.items()}
    return PipelineFiles(
        path=Path(f"random-{shapes}"),
        name=f"random-{shapes}",
        kind="random",
        family="sdxl" if large else "sd1",
        configs={},
        unet=unet,
        vae=vae,
        texts=tuple(texts),
        weights=cast("Mapping[str, WeightSource]", weights),
        tokenizers=(TokenizerFiles(),) * len(texts),
        scheduler=_SCHEDULER,
        notes=(),
        files=(),
    )
