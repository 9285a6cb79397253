"""What each dispatch costs, and command lists cut so that no submit takes too long.

Windows ends what runs for two seconds, and a screen that waits for a long submit stands still.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.gpu.capabilities import Capabilities
from engine.gpu.commands import CommandList, record
from engine.gpu.device import Device
from engine.graph.fuse import REWRITES, fuse
from engine.graph.graph import Graph
from engine.graph.node import Node, Value
from engine.graph.ops import rows
from engine.kernels.base import Access, Dispatch
from engine.kernels.program import Lowered

ELEMENT = 8.0  # operations that stand for one element of an op that only moves numbers


def flops(node: Node) -> float:
    """Floating-point operations of a node, roughly."""
    named = node.named
    if node.op in ("linear", "conv2d"):
        weight = named["weight"].weight
        produced = rows(node.output.tensor.shape)
        return 2.0 * produced * weight.rows * weight.cols
    if node.op == "attention_full":
        q, k = named["q"].tensor.shape, named["k"].tensor.shape
        batch = node.attrs["batch"] or q.b
        return 4.0 * rows(q) * (rows(k) / batch) * node.output.tensor.shape.c
    return ELEMENT * sum(value.tensor.shape.elements for value in node.outputs)


def dispatch_costs(graph: Graph, caps: Capabilities, lowered: Lowered) -> tuple[float, ...]:
    """Operations of each dispatch; those of a node that needs several count for one of them."""
    fused = fuse(graph, without=REWRITES if "fusion" in caps.without else ())
    left = {value: flops(node) for node in fused.nodes for value in node.outputs}
    return tuple(_cost(dispatch, left) for dispatch in lowered.dispatches)


def _cost(dispatch: Dispatch, left: dict[Value, float]) -> float:
    written = [bind.value for bind in dispatch.binds if bind.access is not Access.READ]
    return sum(left.pop(value, 0.0) for value in written) or ELEMENT


def cut(
    device: Device, commands: CommandList, costs: Sequence[float], most: float
) -> list[CommandList]:
    """The list in pieces of at most ``most`` operations each, or single dispatches."""
    pieces: list[CommandList] = []
    start, total = 0, 0.0
    for index, cost in enumerate(costs):
        if total + cost > most and index > start:
            pieces.append(record(device, commands.commands[start:index]))
            start, total = index, 0.0
        total += cost
    pieces.append(record(device, commands.commands[start:]))
    return pieces
