"""The op ``embedding``: token ids to rows of the embedding matrix, decoded and scaled."""

from __future__ import annotations

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.quantise_blocks import fold

WORKGROUP = 64  # invocations, each of four channels


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """One dispatch for each part of the matrix; each writes the tokens whose rows it holds.

    The attribute ``token_offset`` is where the ids start in the tokens buffer, in words.
    """
    tokens, weight, out = node.named["tokens"], node.named["weight"], node.output
    desc, shape = weight.weight, out.tensor.shape
    grid = fold(-(-shape.w * shape.slices // WORKGROUP), caps)
    shared = {
        "tokens": shape.w,
        "slices": shape.slices,
        "vocabulary": desc.rows,
        "token_offset": int(node.attrs.get("token_offset", 0)),
        "scale": float(node.attrs.get("scale", 1.0)),
        "grid_x": grid[0],
        "parts": len(desc.parts),
    }
    return [
        Dispatch(
            "embedding/embedding.wgsl",
            {**shared, "first_row": first, "rows": rows},
            (
                Bind("tokens", tokens, raw="array<u32>"),
                Bind("w", weight, part=part),
                Bind("x", out, Access.WRITE),
            ),
            grid,
            f"embedding {desc.kind}" + (f" part {part}" if len(desc.parts) > 1 else ""),
        )
        for part, (first, rows) in enumerate(zip(desc.starts, desc.parts, strict=True))
    ]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node, by name: there is one."""
    return {"rows": lower(node, caps)}
