"""The rewrite for attention of one token: what fills the KV cache goes into what reads it."""

from __future__ import annotations

from engine.graph.graph import Graph, Node, Role
from engine.graph.ops import mutated, rows
from engine.graph.rewriter import Rewriter

_CACHES = ("k_cache", "v_cache")
_HEADS = ("heads", "kv_heads", "head_dim")


def rope_into_attention(graph: Graph) -> Graph:
    """``attention(rope_cache(qkv))`` of one token becomes one ``rope_attention``.

    Only when nobody else reads the queries, both are over the same caches and state, and nothing
    between them touches the caches or changes what the rotation reads.
    """
    work = Rewriter(graph)
    for at, rope in work.each("rope_cache"):
        readers = work.readers(rope.output)
        if len(readers) != 1 or rope.output.role is not Role.ACTIVATION:
            continue
        attention = work.node(readers[0])
        if _agree(rope, attention) and _nothing_between(work, at, readers[0], rope):
            attrs = {**attention.attrs, **rope.attrs}
            node = Node("rope_attention", rope.inputs, attention.outputs, attrs)
            work.replace(readers[0], node)
            work.remove(at)
    return work.result()


def _agree(rope: Node, attention: Node) -> bool:
    """Whether an attention of one token takes its queries from a rope_cache over its own caches."""
    if attention.op != "attention" or rows(rope.output.tensor.shape) != 1:
        return False
    if attention.named["q"] is not rope.output:
        return False
    same = all(attention.named[part] is rope.named[part] for part in (*_CACHES, "state"))
    return same and all(attention.attrs[name] == rope.attrs[name] for name in _HEADS)


def _nothing_between(work: Rewriter, at: int, to: int, rope: Node) -> bool:
    for value in rope.inputs:
        for index in work.readers(value):
            if not at < index < to:
                continue
            if value in mutated(rope) or value in mutated(work.node(index)):
                return False
    return True
