"""The op ``rope_attention``: rotary positions, the KV cache and attention of one token.

One kernel does it all before the merge where subgroups have one known size; elsewhere it becomes
the dispatches of ``rope_cache`` and ``attention``, one after the other.
"""

from __future__ import annotations

from engine.gpu.capabilities import Capabilities
from engine.graph.node import GraphError, Node, Role, Value
from engine.kernels import attention, attention_decode_subgroups, rope
from engine.kernels.base import Dispatch
from engine.tensor.descriptor import TensorDesc, matrix

#: Names of the two ops' variants when they run one after the other start with this.
APART = "apart-"


def lower(node: Node, caps: Capabilities, variant: str | None = None) -> list[Dispatch]:
    """The dispatches of the best variant, or of the one that is named.

    Raises:
        GraphError: heads whose size is no multiple of four, or no variant of that name.
    """
    found = variants(node, caps)
    name = next(iter(found)) if variant is None else variant
    if name not in found:
        raise GraphError(f"Attention has no variant {name} here; there are {', '.join(found)}.")
    return found[name]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, best first."""
    rotate, attend = apart(node)
    rotated = rope.lower(rotate, caps)
    both = {
        f"{APART}{name}": [*rotated, *dispatches]
        for name, dispatches in attention.variants(attend, caps).items()
    }
    if caps.software:
        return both
    fused = {
        each.name: attention_decode_subgroups.lower(node, caps, each)
        for each in attention_decode_subgroups.choices(node, caps, fused=True)
    }
    return {**fused, **both}


def apart(node: Node) -> tuple[Node, Node]:
    """The nodes ``rope_cache`` and ``attention`` that do the same, and the queries between them."""
    named, attrs = node.named, node.attrs
    channels = int(attrs["heads"]) * int(attrs["head_dim"])
    desc: TensorDesc = matrix(1, channels, node.output.tensor.dtype)
    q = Value(f"{node.output.name}.q", desc, Role.ACTIVATION)
    rotate = Node("rope_cache", node.inputs, (q,), attrs)
    inputs = {"q": q, **{part: named[part] for part in ("k_cache", "v_cache", "state")}}
    attend = Node(
        "attention", tuple(inputs.values()), node.outputs, {**attrs, "inputs": tuple(inputs)}
    )
    return rotate, attend
