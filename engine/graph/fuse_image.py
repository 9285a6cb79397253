"""Rewrites for pictures: what lies around a convolution goes into its load or its store.

They run in the order of :data:`IMAGE_REWRITES`: tensors put side by side are read where they lie, a
group norm leaves only its table of scales and shifts, and what follows a convolution ends it.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.graph.expression import ACTIVATIONS
from engine.graph.graph import Graph, Node, Role, Value
from engine.graph.ops import OPS
from engine.graph.ops_image import table_shape
from engine.graph.rewriter import Rewriter, widened
from engine.tensor.descriptor import TensorDesc

MAX_CONV_BUFFERS = 8  # storage buffers that every device binds at once

#: Ops that read the channels of ``skip`` behind those of x.
_JOINING = ("conv2d", "group_norm", "group_table")


def concat_into_readers(graph: Graph) -> Graph:
    """``conv2d(concat(x, skip))`` and group norms of it read both where they lie."""
    work = Rewriter(graph)
    for at, node in work.each("concat"):
        value = node.output
        readers = work.readers(value)
        if len(node.inputs) != 2 or value.role is not Role.ACTIVATION or not readers:
            continue
        x, skip = node.inputs
        if x.tensor.shape.c % 4 or x is skip or x.tensor.dtype is not skip.tensor.dtype:
            continue
        if not all(work.may_move(at, i) and _takes_skip(work.node(i), value) for i in readers):
            continue
        for index in readers:
            reader = work.node(index)
            work.replace(index, widened(reader, reader, {"x": x, "skip": skip}))
        work.remove(at)
    return work.result()


def _takes_skip(node: Node, value: Value) -> bool:
    if node.op not in _JOINING or "skip" in node.named or node.inputs.count(value) != 1:
        return False
    return node.named["x"] is value and _room(node, 1)


def _room(node: Node, more: int) -> bool:
    """Whether a convolution may bind so many tensors more (a weight may take two buffers)."""
    return node.op != "conv2d" or len(node.inputs) + 2 + more <= MAX_CONV_BUFFERS


def group_norm_into_conv(graph: Graph) -> Graph:
    """``conv2d(group_norm(x))`` becomes a table of scales and shifts, and a conv2d that applies it.

    A plain linear counts as a convolution of one pixel. Only when every reader takes the table, so
    that the norm itself goes.
    """
    work = Rewriter(graph)
    for at, norm in work.each("group_norm"):
        value = norm.output
        readers = work.readers(value)
        if value.role is not Role.ACTIVATION or not readers:
            continue
        more = 2 if "skip" in norm.named else 1
        if not all(
            work.may_move(at, i) and _takes_table(work.node(i), value, more) for i in readers
        ):
            continue
        desc = TensorDesc(table_shape(value.tensor.shape))
        table = Value(f"{value.name}.table", desc, Role.ACTIVATION)
        attrs = {key: norm.attrs[key] for key in ("groups", "eps", "inputs")}
        work.replace(at, Node("group_table", norm.inputs, (table,), attrs))
        swaps = {part: norm.named[part] for part in ("x", "skip") if part in norm.named}
        for index in readers:
            reader = _as_conv(work.node(index))
            swapped = {**swaps, "table": table}
            work.replace(index, widened(reader, reader, swapped, norm_act=norm.attrs["act"]))
    return work.result()


def _takes_table(node: Node, value: Value, more: int) -> bool:
    """Whether a node is a convolution (or may be one) that reads the value as its x alone."""
    if node.inputs.count(value) != 1 or node.named.get("x") is not value:
        return False
    if node.op == "linear":
        free = node.attrs["gated"] is None and node.attrs["norm_eps"] is None
        return free and len(node.inputs) + 2 + more <= MAX_CONV_BUFFERS
    return node.op == "conv2d" and not {"table", "skip"} & node.named.keys() and _room(node, more)


def _as_conv(node: Node) -> Node:
    """A plain linear as a convolution of one pixel; a convolution as it is."""
    if node.op == "conv2d":
        return node
    attrs = {"kernel": 1, **OPS["conv2d"].defaults, "inputs": node.input_names}
    return Node("conv2d", node.inputs, node.outputs, attrs)


def shift_into_conv(graph: Graph) -> Graph:
    """``add_shift(conv2d(x), shift)`` becomes one conv2d with the extra input shift."""
    work = Rewriter(graph)
    for index, node in work.each("add_shift"):
        found = work.fusible(node.named["x"], index)
        if found is not None and _open(found[1], "shift"):
            work.replace(index, widened(found[1], node, {"shift": node.named["shift"]}))
            work.remove(found[0])
    return work.result()


def residual_into_conv(graph: Graph) -> Graph:
    """``add(r, conv2d(x))`` becomes one conv2d with the extra input residual."""
    work = Rewriter(graph)
    for index, node in work.each("add"):
        for value, other in (node.inputs[::-1], node.inputs):
            found = work.fusible(value, index)
            if found is not None and value is not other and _open(found[1], "residual"):
                work.replace(index, widened(found[1], node, {"residual": other}))
                work.remove(found[0])
                break
    return work.result()


def activation_into_conv(graph: Graph) -> Graph:
    """``silu(conv2d(x))`` and the like become one conv2d with the attribute act."""
    work = Rewriter(graph)
    for index, node in work.each(*ACTIVATIONS):
        found = work.fusible(node.inputs[0], index)
        if found is not None and found[1].op == "conv2d" and found[1].attrs["act"] is None:
            work.replace(index, widened(found[1], node, {}, act=node.op))
            work.remove(found[0])
    return work.result()


def _open(node: Node, part: str) -> bool:
    """Whether a node is a convolution that may still take a part before its activation."""
    if node.op != "conv2d" or node.attrs["act"] is not None or part in node.named:
        return False
    return _room(node, 1)


IMAGE_REWRITES: dict[str, Callable[[Graph], Graph]] = {
    "concat_into_readers": concat_into_readers,
    "group_norm_into_conv": group_norm_into_conv,
    "shift_into_conv": shift_into_conv,
    "residual_into_conv": residual_into_conv,
    "activation_into_conv": activation_into_conv,
}
