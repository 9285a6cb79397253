"""CLIP's text encoders (ViT-L, OpenCLIP-H and bigG) as graphs.

Each layer: x += W_o attention(W_qkv norm(x)), causal; x += W_2 act(W_1 norm(x)).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.formats.diffusers_configs import TextConfig
from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.image.layers import Layers
from engine.image.weights import NetworkWeights
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix


@dataclass(frozen=True)
class TextGraph:
    """A text encoder for ``batch`` sequences of the configuration's length.

    ``tokens`` and ``places`` (0, 1, 2... for each sequence) are u32 ``[batch * positions]``;
    ``hidden`` is f32 ``[batch * positions, hidden_size]``; ``projected``, where the encoder has a
    projection, f32 ``[batch * positions, projection_dim]``: its row at the end token is the pooled
    output.
    """

    graph: Graph
    tokens: Value
    places: Value
    hidden: Value
    projected: Value | None


def build_text(
    config: TextConfig,
    weights: NetworkWeights,
    batch: int,
    *,
    skip: int = 0,
    normed: bool = True,
    dtype: DType = DType.F32,
) -> TextGraph:
    """Tokens to the hidden states after all but ``skip`` layers, ``normed`` or not.

    The projection always reads the last layer, normed. ``dtype`` is that of the values inside a
    layer; the residual stream is f32.
    """
    graph = Graph("text")
    layers = Layers(graph, weights, dtype)
    count = batch * config.positions
    words = TensorDesc(Shape(c=count), DType.U32)
    tokens, places = Value("tokens", words, Role.INPUT), Value("places", words, Role.INPUT)
    hidden = Value("hidden", matrix(count, config.hidden_size), Role.OUTPUT)
    x = _embedded(layers, config, tokens, places)
    kept = config.layers - skip
    taken = x
    for index in range(config.layers if config.projection_dim else kept):
        x = _layer(layers, config, x, index, batch)
        if index + 1 == kept:
            taken = x
    final = "text_model.final_layer_norm"
    if normed:
        _norm_to(layers, taken, final, config.norm_eps, hidden)
    else:
        layers.add("scale", {"x": taken}, out=hidden, factor=1.0)
    projected = None
    if config.projection_dim:
        last = layers.layer_norm(x, final, eps=config.norm_eps)
        projected = Value("projected", matrix(count, config.projection_dim), Role.OUTPUT)
        layers.linear(last, "text_projection", out=projected)
    return TextGraph(graph, tokens, places, hidden, projected)


def _embedded(layers: Layers, config: TextConfig, tokens: Value, places: Value) -> Value:
    """Token plus position embeddings, f32 [batch * positions, C]."""
    base = "text_model.embeddings"
    parts = [
        layers.add(
            "embedding",
            {"tokens": ids, "weight": layers.weights.matrix(f"{base}.{name}_embedding")},
            dtype=DType.F32,
        )
        for ids, name in ((tokens, "token"), (places, "position"))
    ]
    return layers.add("add", {"a": parts[0], "b": parts[1]}, dtype=DType.F32)


def _layer(layers: Layers, config: TextConfig, x: Value, index: int, batch: int) -> Value:
    base = f"text_model.encoder.layers.{index}"
    normed = layers.layer_norm(x, f"{base}.layer_norm1", eps=config.norm_eps)
    x = layers.self_attention(
        normed,
        [f"{base}.self_attn.{part}_proj" for part in "qkv"],
        f"{base}.self_attn.out_proj",
        heads=config.heads,
        batch=batch,
        residual=x,
        causal=True,
        dtype=DType.F32,
    )
    normed = layers.layer_norm(x, f"{base}.layer_norm2", eps=config.norm_eps)
    inner = layers.linear(normed, f"{base}.mlp.fc1")
    inner = layers.add(config.act, {"x": inner})
    return layers.linear(inner, f"{base}.mlp.fc2", residual=x, dtype=DType.F32)


def _norm_to(layers: Layers, x: Value, name: str, eps: float, out: Value) -> None:
    inputs = {
        "x": x,
        "gain": layers.weights.vector(f"{name}.weight"),
        "bias": layers.weights.vector(f"{name}.bias"),
    }
    layers.add("layer_norm", inputs, out=out, eps=eps)
