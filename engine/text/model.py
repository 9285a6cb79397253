"""The values that all graphs of one loaded model share: weights, caches, state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.kernels import state as run_state
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix, vector
from engine.text.config import TransformerConfig

#: Sampled tokens that the GPU keeps until they are read; more than are ever in flight.
RING_TOKENS = 64


def stack_name(prefix: str, names: Sequence[str]) -> str:
    """What the stack of several matrices is called: ``blk.0.attn_q+attn_k+attn_v.weight``."""
    if len(names) == 1:
        return prefix + names[0]
    return prefix + "+".join(name.removesuffix(".weight") for name in names) + ".weight"


@dataclass(frozen=True)
class ModelValues:
    """Graph values of one model at one context length.

    Attributes:
        weights: packed matrices by GGUF name (or :func:`stack_name`).
        vectors: norm gains and biases by GGUF name, f32.
        caches: (K, V) of each layer, ``[kv_heads, context, head_dim]``.
        state: the run state, see :mod:`engine.kernels.state`.
        rope_freqs: inverse frequencies, f32 ``[rope_dim / 2]``.
        rope_magnitude: what rotated queries and keys are multiplied by (YaRN; else 1).
        output_name: the vocabulary projection; the embedding where they are tied.
    """

    config: TransformerConfig
    context: int
    weights: dict[str, Value]
    vectors: dict[str, Value]
    caches: tuple[tuple[Value, Value], ...]
    state: Value
    rope_freqs: Value
    rope_magnitude: float
    output_name: str
    history: Value
    params: Value
    stops: Value
    ring: Value
    _tokens: dict[int, Value] = field(default_factory=dict[int, Value])

    def tokens(self, count: int) -> Value:
        """Token ids of a prefill chunk, u32 ``[count]``; decode reads its one from the state."""
        if count == 1:
            return self.state
        desc = TensorDesc(Shape(c=count), DType.U32)
        return self._tokens.setdefault(count, Value(f"tokens.{count}", desc, Role.INPUT))

    def token_offset(self, count: int) -> int:
        """Where the ids start in that buffer, in words."""
        return run_state.TOKEN if count == 1 else 0


def cache_desc(config: TransformerConfig, context: int, dtype: DType) -> TensorDesc:
    """One layer's K (or V) cache: ``[kv_heads, context, head_dim]``."""
    return TensorDesc(Shape(h=config.kv_heads, w=context, c=config.head_dim), dtype)


def linear(
    graph: Graph,
    model: ModelValues,
    x: Value,
    name: str,
    desc: TensorDesc,
    out: Value | None = None,
) -> Value:
    """``x`` times a named matrix, plus the bias of the same name where the model has one."""
    inputs = [x, graph.use(model.weights[name])]
    bias = model.vectors.get(name.removesuffix(".weight") + ".bias")
    if bias is not None:
        inputs.append(graph.use(bias))
    if out is not None:
        graph.add("linear", inputs, outputs=[out])
        return out
    return graph.add("linear", inputs, desc)


def stacked(
    graph: Graph, model: ModelValues, x: Value, prefix: str, names: Sequence[str], dtype: DType
) -> Value:
    """Several projections of the same input, side by side along the channels.

    One product where the loader could stack the matrices; where their kinds differ (Q4_K_M keeps
    some values at Q6_K) one each and a concatenation.
    """
    rows = x.tensor.shape.w
    whole = model.weights.get(stack_name(prefix, names))
    if whole is not None:
        desc = matrix(rows, whole.weight.rows, dtype)
        return linear(graph, model, x, whole.name, desc)
    parts = [
        linear(
            graph,
            model,
            x,
            prefix + name,
            matrix(rows, model.weights[prefix + name].weight.rows, dtype),
        )
        for name in names
    ]
    return graph.add("concat", parts)


def state_values(vocabulary: int) -> dict[str, Value]:
    """The run state, the sampler's history, settings and stop tokens, and the ring of answers."""
    sizes = {
        "state": (run_state.WORDS, Role.STATE),
        "history": (run_state.history_words(vocabulary), Role.STATE),
        "params": (run_state.PARAM_WORDS, Role.INPUT),
        "stops": (run_state.STOP_WORDS, Role.INPUT),
        "ring": (RING_TOKENS, Role.STATE),
    }
    return {
        name: Value(name, TensorDesc(Shape(c=words), DType.U32), role)
        for name, (words, role) in sizes.items()
    }


def gain(name: str, channels: int) -> Value:
    """A norm gain or bias, f32."""
    return Value(name, vector(channels), Role.WEIGHT)
