"""Which kernel family lowers which op."""

from __future__ import annotations

from collections.abc import Callable

from engine.gpu.capabilities import Capabilities
from engine.graph.node import GraphError, Node
from engine.kernels import attention, elementwise, embedding, linear, norm, rope, rows, sample
from engine.kernels.base import Dispatch

Lower = Callable[[Node, Capabilities], list[Dispatch]]

FAMILIES: dict[str, Lower] = {
    "embedding": embedding.lower,
    "rms_norm": norm.lower,
    "linear": linear.lower,
    "rope_cache": rope.lower,
    "attention": attention.lower,
    "gated": elementwise.lower,
    "add": elementwise.lower,
    "mul": elementwise.lower,
    "scale": elementwise.lower,
    "softcap": elementwise.lower,
    "silu": elementwise.lower,
    "gelu_tanh": elementwise.lower,
    "elementwise": elementwise.lower,
    "concat": rows.lower_concat,
    "last_row": rows.lower,
    "sample": sample.lower,
}


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """The dispatches of a node on this device.

    Raises:
        GraphError: no family knows the op.
    """
    family = FAMILIES.get(node.op)
    if family is None:
        raise GraphError(f"No kernel computes the op {node.op}.")
    return family(node, caps)
