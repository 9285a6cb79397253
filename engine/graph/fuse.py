"""Rewrites that make a graph shorter without changing what it computes.

Each rewrite takes a graph and returns one over the same values, so that weights, caches, inputs and
outputs stay shared; :func:`fuse` runs those that are not switched off. A fused node stands where
the later of its two nodes stood: everything it reads has been written by then. A node is only moved
when nothing in between changes in place what it reads. All of them are idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from engine.graph.expression import ARITHMETIC, Expression
from engine.graph.fuse_attention import rope_into_attention
from engine.graph.fuse_image import IMAGE_REWRITES
from engine.graph.graph import Graph, GraphError, Node, Role, Value
from engine.graph.ops import expression_of, rows
from engine.graph.rewriter import Rewriter, widened

MAX_ELEMENTWISE_INPUTS = 6  # with the output: within the 8 storage buffers that every device has


def gated_into_linear(graph: Graph) -> Graph:
    """``gated(linear(x, W))`` becomes one linear with the attribute gated.

    Only where W is one object: its gate and up rows lie half the matrix apart, and a kernel that
    reads both binds one object.
    """
    work = Rewriter(graph)
    for index, node in work.each("gated"):
        found = work.fusible(node.inputs[0], index)
        if found is None or not _plain_linear(found[1]) or not node.attrs["gate_first"]:
            continue
        at, linear = found
        if len(linear.named["weight"].weight.parts) == 1:
            work.replace(index, widened(linear, node, {}, gated=node.attrs["act"]))
            work.remove(at)
    return work.result()


def residual_into_linear(graph: Graph) -> Graph:
    """``add(r, linear(x, W))`` becomes one linear with the extra input residual."""
    work = Rewriter(graph)
    for index, node in work.each("add"):
        for value, other in (node.inputs[::-1], node.inputs):
            found = work.fusible(value, index)
            if found is not None and value is not other and _plain_linear(found[1]):
                work.replace(index, widened(found[1], node, {"residual": other}))
                work.remove(found[0])
                break
    return work.result()


def _plain_linear(node: Node) -> bool:
    return node.op == "linear" and node.attrs["gated"] is None and "residual" not in node.named


def norm_into_linear(graph: Graph) -> Graph:
    """``linear(rms_norm(x, gain), W)`` becomes one linear with the extra input gain.

    Only for one row, where every workgroup can afford to sum its squares again, and only when all
    readers of the norm are linears, so that the norm itself goes.
    """
    work = Rewriter(graph)
    for at, norm in work.each("rms_norm"):
        value = norm.output
        readers = work.readers(value)
        if rows(value.tensor.shape) != 1 or value.role is not Role.ACTIVATION or not readers:
            continue
        if not all(work.may_move(at, i) and _takes_norm(work.node(i), value) for i in readers):
            continue
        swaps = {"x": norm.named["x"], "gain": norm.named["gain"]}
        for index in readers:
            linear = work.node(index)
            work.replace(index, widened(linear, linear, swaps, norm_eps=norm.attrs["eps"]))
        work.remove(at)
    return work.result()


def _takes_norm(node: Node, value: Value) -> bool:
    """Whether a node is a linear without a norm that reads the value as its x and nowhere else."""
    if node.op != "linear" or node.attrs["norm_eps"] is not None:
        return False
    return node.named["x"] is value and node.inputs.count(value) == 1


def elementwise_chain(graph: Graph) -> Graph:
    """Elementwise ops that feed one another become one ``elementwise`` node with an Expression."""
    work = Rewriter(graph)
    for index, node in work.each("elementwise", *ARITHMETIC):
        merged: Node | None = node
        while merged is not None:
            work.replace(index, merged)
            merged = _absorb(work, index, merged)
    return work.result()


def _absorb(work: Rewriter, index: int, node: Node) -> Node | None:
    """The node with one of its elementwise producers merged into it, or None."""
    outer = expression_of(node)
    for value in node.inputs if outer is not None else ():
        found = work.fusible(value, index)
        inner = expression_of(found[1]) if found is not None else None
        if outer is None or found is None or inner is None:
            continue
        inputs, expression = _merge(node.inputs, outer, value, found[1].inputs, inner)
        if len(inputs) <= MAX_ELEMENTWISE_INPUTS:
            work.remove(found[0])
            return Node("elementwise", inputs, node.outputs, {"expression": expression})
    return None


def _merge(
    outer_inputs: tuple[Value, ...],
    outer: Expression,
    value: Value,
    inner_inputs: tuple[Value, ...],
    inner: Expression,
) -> tuple[tuple[Value, ...], Expression]:
    """Inputs (each once) and expression of ``outer`` with ``value`` computed by ``inner``."""
    inputs = tuple(dict.fromkeys(v for v in (*outer_inputs, *inner_inputs) if v is not value))
    return inputs, outer.merged(
        [None if v is value else inputs.index(v) for v in outer_inputs],
        inner,
        [inputs.index(v) for v in inner_inputs],
        len(inputs),
    )


REWRITES: dict[str, Callable[[Graph], Graph]] = {
    "gated_into_linear": gated_into_linear,
    "residual_into_linear": residual_into_linear,
    "norm_into_linear": norm_into_linear,
    "rope_into_attention": rope_into_attention,
    **IMAGE_REWRITES,
    "elementwise_chain": elementwise_chain,
}


def fuse(graph: Graph, *, without: Collection[str] = ()) -> Graph:
    """Run every rewrite but those named in ``without`` (all of them: ``without=REWRITES``).

    Raises GraphError for a name that is no rewrite.
    """
    unknown = sorted(set(without) - REWRITES.keys())
    if unknown:
        known = ", ".join(REWRITES)
        raise GraphError(f'There is no rewrite "{unknown[0]}"; known rewrites: {known}.')
    for name, rewrite in REWRITES.items():
        if name not in without:
            graph = rewrite(graph)
    return graph
