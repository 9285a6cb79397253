"""Which kernel family lowers which op."""

from __future__ import annotations

from types import ModuleType
from typing import cast

from engine.gpu.capabilities import Capabilities
from engine.graph.expression import ACTIVATIONS
from engine.graph.node import GraphError, Node
from engine.kernels import (
    attention,
    attention_decode_rope,
    attention_full,
    conv,
    elementwise,
    embedding,
    group_norm,
    layer_norm,
    linear,
    norm,
    preview,
    rope,
    rows,
    sample,
    scheduler_step,
    timestep,
)
from engine.kernels.base import Dispatch

#: Each family has ``lower(node, caps)``, its own choice, and ``variants(node, caps)``, all by name.
FAMILIES: dict[str, ModuleType] = {
    "embedding": embedding,
    "rms_norm": norm,
    "linear": linear,
    "rope_cache": rope,
    "attention": attention,
    "rope_attention": attention_decode_rope,
    "gated": elementwise,
    "add": elementwise,
    "mul": elementwise,
    "scale": elementwise,
    "softcap": elementwise,
    **dict.fromkeys(ACTIVATIONS, elementwise),
    "elementwise": elementwise,
    "concat": rows,
    "last_row": rows,
    "sample": sample,
    "conv2d": conv,
    "group_norm": group_norm,
    "group_table": group_norm,
    "layer_norm": layer_norm,
    "attention_full": attention_full,
    "add_shift": timestep,
    "timestep_embedding": timestep,
    "scheduler_input": scheduler_step,
    "scheduler_step": scheduler_step,
    "inpaint_blend": scheduler_step,
    "advance_step": scheduler_step,
    "to_rgba": preview,
}


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """The dispatches of a node on this device.

    A family whose self-test found wrong variants gives the first of those that are left.

    Raises:
        GraphError: no family knows the op, or every variant of it is wrong on this device.
    """
    family = _family(node)
    if not any(name.startswith(f"{node.op}/") for name in caps.excluded):
        return cast("list[Dispatch]", family.lower(node, caps))
    for name, dispatches in variants(node, caps).items():
        if caps.allows(node.op, name):
            return dispatches
    raise GraphError(f"Every kernel for {node.op} is excluded on this device.")


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run a node on this device, by name."""
    return cast("dict[str, list[Dispatch]]", _family(node).variants(node, caps))


def _family(node: Node) -> ModuleType:
    family = FAMILIES.get(node.op)
    if family is None:
        raise GraphError(f"No kernel computes the op {node.op}.")
    return family
