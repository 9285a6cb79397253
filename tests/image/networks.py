"""Graphs of the golden networks with their inputs, for numpy and for the GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from image.goldens import Golden

from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.image.clip import TextGraph
from engine.image.layers import Layers
from engine.image.unet import ContextGraph, UNetSize, build_context, build_unet, latent_desc
from engine.tensor.descriptor import DType, matrix

UNETS = ("unet-sd1", "unet-sd2", "unet-sdxl", "unet-starter", "unet-lcm")


def text_inputs(graph: TextGraph, case: Golden) -> dict[Value, np.ndarray]:
    """Tokens and positions of the golden prompts."""
    tokens = case.expected["tokens"]
    places = np.tile(np.arange(tokens.shape[1]), len(tokens))
    return {graph.tokens: tokens.astype(np.uint32), graph.places: places.astype(np.uint32)}


@dataclass(frozen=True)
class UNetCase:
    """Both graphs of a denoiser, and the inputs of the second but for the keys and values."""

    graph: Graph
    context: ContextGraph
    out: Value
    keys: dict[str, Value]
    inputs: dict[Value, np.ndarray]


def sinusoids(values: np.ndarray, channels: int) -> np.ndarray:
    """Cosines, then sines: [n, channels]."""
    rates = np.exp(-math.log(10000.0) * np.arange(channels // 2) / (channels // 2))
    angles = np.reshape(values, (-1, 1)) * rates
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def unet_case(case: Golden, step: int, dtype: DType, latents: str = "latents") -> UNetCase:
    """The denoiser for golden latents at one time step."""
    config, expected = case.config, case.expected
    batch, height, width, _ = case.nhwc(latents).shape
    size = UNetSize(batch, height, width, expected["text"].shape[1])
    layers = Layers(Graph("unet"), case.weights, dtype)
    x = Value("latents", latent_desc(batch, height, width, config.in_channels), Role.INPUT)
    channels = config.block_out_channels[0]
    time = Value("time", matrix(batch, channels), Role.INPUT)
    inputs = {x: case.nhwc(latents), time: sinusoids(np.full(batch, step), channels)}
    added = None
    if config.added_dim:
        added = Value("added", matrix(2, config.added_dim), Role.INPUT)
        sizes = sinusoids(expected["time_ids"], config.added_time_dim).reshape(2, -1)
        inputs[added] = np.concatenate([expected["text_embeds"], sizes], axis=1)
    elif config.time_cond_dim:
        added = Value("added", matrix(2, config.time_cond_dim), Role.INPUT)
        inputs[added] = expected["guidance"]
    out = Value("prediction", latent_desc(batch, height, width, config.out_channels), Role.OUTPUT)
    _, keys = build_unet(layers, config, size, x, time, added, out)
    context = build_context(config, case.weights, size, dtype)
    return UNetCase(layers.graph, context, out, keys, inputs)
