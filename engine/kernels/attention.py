"""The op ``attention``: decode (one token) splits the cache, prefill takes blocks of queries.

Both read the caches as ``rope_cache`` leaves them, ``[kv_head][position][head_dim]``, and their
lengths from the state. A window of w lets a token see itself and the w - 1 tokens before it.
"""

from __future__ import annotations

from engine.gpu.capabilities import Capabilities
from engine.graph.node import GraphError, Node
from engine.kernels import attention_decode, attention_prefill
from engine.kernels.base import Dispatch


def lower(node: Node, caps: Capabilities, variant: str | None = None) -> list[Dispatch]:
    """The dispatches of the best variant, or of the one that is named.

    Decode also returns scratch: a value with the role activation that only its dispatches bind.

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
    head_dim = int(node.attrs["head_dim"])
    if head_dim % 4:
        raise GraphError(f"Attention heads must be a multiple of 4 channels wide, not {head_dim}.")
    if node.named["q"].tensor.shape.w == 1:
        return attention_decode.variants(node, caps)
    return attention_prefill.variants(node, caps)
