"""The llama family: SmolLM2, Llama 2 and 3.x, Mistral, TinyLlama.

Each layer: x += W_o attention(rope(W_qkv norm(x)));
x += W_down (silu(W_gate norm(x)) * W_up norm(x)).
Weights keep GGUF's tensor names; projections that read the same input are stacked into one matrix
where their kinds agree, so that decode needs one dispatch for them.
"""

from __future__ import annotations

from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.tensor.descriptor import DType, matrix
from engine.text.model import ModelValues, linear, stacked

ARCHITECTURE = "llama"
ROPE_MODE = "normal"  # GGUF's converter permutes the rows of W_q and W_k for interleaved pairs

LAYER_VECTORS = ("attn_norm.weight", "ffn_norm.weight")
LAYER_MATRICES = {
    "attn_qkv": ("attn_q.weight", "attn_k.weight", "attn_v.weight"),
    "attn_output": ("attn_output.weight",),
    "ffn_gate_up": ("ffn_gate.weight", "ffn_up.weight"),
    "ffn_down": ("ffn_down.weight",),
}


def build_body(
    graph: Graph, model: ModelValues, tokens: int, dtype: DType, out: Value | None = None
) -> Value:
    """Token ids to the residual stream after the last layer, f32 ``[tokens, embedding]``.

    Args:
        dtype: of the values inside a layer; the residual stream itself is always f32.
        out: where the result goes, if another graph goes on from there.
    """
    config = model.config
    x = graph.add(
        "embedding",
        [graph.use(model.tokens(tokens)), graph.use(model.weights["token_embd.weight"])],
        matrix(tokens, config.embedding),
        token_offset=model.token_offset(tokens),
    )
    for layer in range(config.layers):
        last = layer == config.layers - 1
        x = _attention(graph, model, x, layer, dtype)
        x = _feed_forward(graph, model, x, layer, dtype, out if last else None)
    return x


def build_head(graph: Graph, model: ModelValues, x: Value) -> Value:
    """The last valid row of the residual stream to logits, f32 ``[1, vocabulary]``."""
    if x.tensor.shape.w > 1:
        x = graph.add("last_row", [x, graph.use(model.state)])
    norm = _norm(graph, model, x, "output_norm.weight", DType.F32)
    out = graph.value("logits", matrix(1, model.config.vocabulary), Role.OUTPUT)
    return linear(graph, model, norm, model.output_name, out.tensor, out)


def _attention(graph: Graph, model: ModelValues, x: Value, layer: int, dtype: DType) -> Value:
    config, prefix = model.config, f"blk.{layer}."
    norm = _norm(graph, model, x, prefix + "attn_norm.weight", dtype)
    qkv = stacked(graph, model, norm, prefix, LAYER_MATRICES["attn_qkv"], dtype)
    k_cache, v_cache = (graph.use(cache) for cache in model.caches[layer])
    state = graph.use(model.state)
    q = graph.add(
        "rope_cache",
        [qkv, k_cache, v_cache, graph.use(model.rope_freqs), state],
        matrix(x.tensor.shape.w, config.query_channels, dtype),
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        rope_dim=config.rope_dim,
        mode=config.rope_mode,
        magnitude=model.rope_magnitude,
    )
    mixed = graph.add(
        "attention",
        [q, k_cache, v_cache, state],
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        scale=config.head_dim**-0.5,
        sequence_max=model.context,
        window=config.window,
    )
    return _residual(graph, model, mixed, x, prefix + "attn_output.weight")


def _feed_forward(
    graph: Graph, model: ModelValues, x: Value, layer: int, dtype: DType, out: Value | None
) -> Value:
    prefix = f"blk.{layer}."
    norm = _norm(graph, model, x, prefix + "ffn_norm.weight", dtype)
    gate_up = stacked(graph, model, norm, prefix, LAYER_MATRICES["ffn_gate_up"], dtype)
    hidden = graph.add("gated", [gate_up], act="silu")
    return _residual(graph, model, hidden, x, prefix + "ffn_down.weight", out)


def _norm(graph: Graph, model: ModelValues, x: Value, gain: str, dtype: DType) -> Value:
    desc = matrix(x.tensor.shape.w, model.config.embedding, dtype)
    return graph.add(
        "rms_norm", [x, graph.use(model.vectors[gain])], desc, eps=model.config.norm_eps
    )


def _residual(
    graph: Graph, model: ModelValues, y: Value, x: Value, weight: str, out: Value | None = None
) -> Value:
    desc = matrix(x.tensor.shape.w, model.config.embedding)
    projected = linear(graph, model, y, weight, desc)
    if out is None:
        return graph.add("add", [projected, x], desc)
    graph.add("add", [projected, x], outputs=[out])
    return out
