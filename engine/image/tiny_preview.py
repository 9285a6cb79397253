"""A live preview by a tiny autoencoder: what the latents would become, at nearly full sharpness.

Its decoder follows the denoiser's calls on the GPU, as often as it takes a small share of the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.formats.diffusers_configs import TinyVaeConfig
from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.image.layers import Layers
from engine.image.pipeline_memory import fits
from engine.image.pipeline_model import ImageModel
from engine.image.runner_pieces import Pieces
from engine.image.vae_tiny import tiny_decoder
from engine.image.weights import NetworkWeights
from engine.kernels.preview import unpack_rgba
from engine.tensor.descriptor import DType, Shape, TensorDesc

Pixels = NDArray[np.uint8]
NAME = "preview"
SHARE = 0.1  # of the denoiser's operations that previews may take
LONGEST = 512  # pixels of a side of a preview; larger pictures are made smaller


@dataclass(frozen=True)
class TinyPreview:
    """The decoder of previews, registered as a program.

    Attributes:
        out: RGBA, one word a pixel of ``height`` by ``width``.
        every: it follows the first of so many calls, and the last call.
    """

    pieces: Pieces
    out: Value
    count: int
    height: int
    width: int
    every: int

    def due(self, call: int, calls: int) -> bool:
        """Whether it follows a call."""
        return call % self.every == 0 or call == calls - 1

    def pixels(self, words: NDArray[np.uint32]) -> Pixels:
        """What was read back, as pictures [count, h, w, 4]."""
        whole = unpack_rgba(words, self.count, self.height, self.width)
        factor = -(-max(self.height, self.width) // LONGEST)
        high, wide = self.height // factor, self.width // factor
        cut = whole[:, : high * factor, : wide * factor]
        blocks = cut.reshape(self.count, high, factor, wide, factor, 4)
        return whole if factor == 1 else blocks.mean((2, 4)).astype(np.uint8)


def preview_network(model: ImageModel) -> tuple[TinyVaeConfig, NetworkWeights] | None:
    """The tiny autoencoder of previews: the model's own, or one beside it."""
    if isinstance(model.vae_config, TinyVaeConfig):
        return model.vae_config, model.vae
    return model.preview


def register_preview(
    model: ImageModel, shown: Value, operations: float, memory_limit: int | None
) -> TinyPreview | None:
    """Plan the decoder for the clean latents ``shown``, or None where there is none or no room.

    Args:
        operations: of one of the calls that it follows.

    Raises:
        OutOfMemoryError: its output did not fit.
    """
    network = preview_network(model)
    if network is None:
        return None
    graph, out = build_preview(*network, shown, model.dtype)
    workspace = model.workspace
    planned = workspace.plan(graph)
    if not fits(model.device, workspace, [planned[0]], out.nbytes, memory_limit):
        return None
    workspace.register(NAME, graph, planned)
    every = max(1, math.ceil(sum(planned[1]) / (SHARE * max(operations, 1.0))))
    shape, factor = shown.tensor.shape, network[0].factor
    pieces = Pieces(workspace, NAME)
    return TinyPreview(pieces, out, shape.b, shape.h * factor, shape.w * factor, every)


def build_preview(
    config: TinyVaeConfig, weights: NetworkWeights, shown: Value, dtype: DType
) -> tuple[Graph, Value]:
    """(graph, RGBA): latents as the denoiser has them to a picture's bytes."""
    layers = Layers(Graph(NAME), weights, dtype)
    z = shown
    if config.scaling_factor != 1.0:
        z = layers.add("scale", {"x": z}, factor=1.0 / config.scaling_factor, dtype=DType.F32)
    picture = tiny_decoder(layers, config, z, None)
    shape = picture.tensor.shape
    words = -(-shape.b * shape.h * shape.w // 4)
    out = Value("preview", TensorDesc(Shape(w=words, c=4), DType.U32), Role.OUTPUT)
    layers.add("to_rgba", {"x": picture}, out=out)
    return layers.graph, out
