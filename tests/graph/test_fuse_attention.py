"""The KV cache filled by what reads it: when, and when not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.graph.fuse import REWRITES, fuse
from engine.graph.fuse_attention import rope_into_attention
from engine.graph.graph import Graph
from engine.graph.node import GraphError, Role, Value
from engine.graph.ops import mutated
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix, vector

HEADS = {"heads": 4, "kv_heads": 2, "head_dim": 8}


class Layer:
    """Attention of one layer, in parts that a test may put other things between."""

    def __init__(self, tokens: int = 1, gains: bool = False) -> None:
        self.graph = g = Graph("layer")
        cache = TensorDesc(Shape(h=2, w=32, c=8), DType.F16)
        self.qkv = g.value("qkv", matrix(tokens, 64), Role.INPUT)
        self.caches = [g.value(name, cache, Role.CACHE) for name in ("k", "v", "k2", "v2")]
        self.freqs = g.value("freqs", vector(4), Role.WEIGHT)
        self.state = g.value("state", vector(16, DType.U32), Role.STATE)
        self.gains = [g.value(f"gain{i}", vector(8), Role.WEIGHT) for i in range(2 * gains)]

    def rope(self) -> Value:
        """Queries; keys and values go into the caches."""
        inputs = [self.qkv, *self.caches[:2], self.freqs, self.state, *self.gains]
        return self.graph.add("rope_cache", inputs, rope_dim=8, mode="neox", **HEADS)

    def attend(self, q: Value, first: int = 0) -> Value:
        """Attention over a pair of the caches, the layer's output."""
        caches = self.caches[first : first + 2]
        return self.graph.add(
            "attention", [q, *caches, self.state], scale=0.5, sequence_max=32, window=7, **HEADS
        )

    def scaled(self) -> Value:
        """Something of the output's shape that has nothing to do with attention."""
        other = self.graph.value("other", matrix(1, 32), Role.INPUT)
        return self.graph.add("scale", [other], factor=2.0)

    def finish(self, x: Value) -> list[str]:
        """The ops of the graph after the rewrite; its output is ``x`` doubled."""
        out = self.graph.value("out", x.tensor, Role.OUTPUT)
        self.graph.add("scale", [x], outputs=[out], factor=2.0)
        self.fused = rope_into_attention(self.graph)
        return [node.op for node in self.fused.nodes]


@pytest.mark.parametrize("gains", [False, True])
def test_one_token_takes_one_node(gains: bool) -> None:
    layer = Layer(gains=gains)
    assert layer.finish(layer.attend(layer.rope())) == ["rope_attention", "scale"]
    node = layer.fused.nodes[0]
    assert mutated(node) == tuple(layer.caches[:2])
    assert ("q_gain" in node.named) is gains
    assert (node.attrs["window"], node.attrs["mode"]) == (7, "neox")
    assert rope_into_attention(layer.fused).nodes == layer.fused.nodes


def test_several_tokens_stay_apart() -> None:
    layer = Layer(tokens=2)
    assert layer.finish(layer.attend(layer.rope()))[:2] == ["rope_cache", "attention"]


def test_queries_that_others_read_stay() -> None:
    layer = Layer()
    q = layer.rope()
    assert "rope_cache" in layer.finish(layer.graph.add("add", [layer.attend(q), q]))


def test_other_caches_stay_apart() -> None:
    layer = Layer()
    assert "rope_cache" in layer.finish(layer.attend(layer.rope(), first=2))


def between(change: Callable[[Layer], Value]) -> list[str]:
    """The ops where something happens between the rotation and the attention."""
    layer = Layer()
    q = layer.rope()
    extra = change(layer)
    return layer.finish(layer.graph.add("add", [layer.attend(q), extra]))


def test_what_touches_nothing_may_stand_between() -> None:
    ops = between(lambda layer: layer.scaled())
    assert ops == ["scale", "rope_attention", "add", "scale"]


def test_a_reader_of_the_caches_between_keeps_them_apart() -> None:
    def read(layer: Layer) -> Value:
        other = layer.graph.value("other", matrix(1, 32), Role.INPUT)
        return layer.attend(other)

    assert "rope_cache" in between(read)


def test_the_fusion_switch_keeps_the_two_ops(llama: Callable[..., Graph]) -> None:
    ops = {node.op for node in fuse(llama(1), without=REWRITES).nodes}
    assert "rope_attention" not in ops
    assert "rope_attention" in {node.op for node in fuse(llama(1)).nodes}


def test_the_op_is_for_one_token() -> None:
    layer = Layer(tokens=3)
    inputs = [layer.qkv, *layer.caches[:2], layer.freqs, layer.state]
    with pytest.raises(GraphError, match="for one token"):
        layer.graph.add(
            "rope_attention", inputs, rope_dim=8, mode="neox", scale=1.0, sequence_max=32, **HEADS
        )
