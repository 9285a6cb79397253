"""Packed weights on the GPU: which kinds have a block decoder, and rows decoded to f32.

The decoders themselves are the macros of ``wgsl/quant/decode.wgsl``, which every kernel that reads
weights imports.
"""

from __future__ import annotations

from engine.formats.kinds import Quant
from engine.formats.packed import packed_words
from engine.gpu.capabilities import Capabilities
from engine.graph.node import Value
from engine.kernels.base import Access, Bind, Dispatch
from engine.tensor.descriptor import TensorDesc, matrix, round_up
from engine.tensor.weights import WeightDesc

GROUP = 32  # weights of one group

#: Kinds whose weights are stored as they are.
FLOAT_KINDS = frozenset({"f32", "f16", "bf16"})

#: Every kind that a kernel can decode.
KINDS: tuple[str, ...] = tuple(quant.name.lower() for quant in Quant)


def weight_desc(quant: Quant, rows: int, cols: int) -> WeightDesc:
    """How a ``[rows, cols]`` matrix of a number format is packed, as one object.

    Raises:
        FormatError: rows of this many columns do not fit the format.
    """
    code_words, scale_words = packed_words(quant, cols)
    return WeightDesc(rows, cols, quant.name.lower(), code_words, scale_words, (rows,))


def groups(desc: WeightDesc) -> int:
    """Groups of 32 weights in a row, the last one padded."""
    return -(-desc.cols // GROUP)


def dequantised_desc(desc: WeightDesc, part: int = 0) -> TensorDesc:
    """The f32 matrix that :func:`dequantise_part` writes: whole groups, padding included."""
    return matrix(desc.parts[part], round_up(desc.cols, GROUP))


def fold(count: int, caps: Capabilities) -> tuple[int, int, int]:
    """A grid of at least ``count`` workgroups, over two dimensions where one is too short.

    The kernel's index is ``x + y * grid[0]``; the rest of the last row has nothing to do.
    """
    high = -(-count // caps.limits.workgroups)
    return (-(-count // high), high, 1)


def dequantise_part(
    weight: Value, out: Value, caps: Capabilities, *, part: int = 0, whole: bool = True
) -> Dispatch:
    """Rows of one part of a weight as plain f32, by the group decoder or four weights at a time."""
    desc = weight.weight
    count = desc.parts[part] * groups(desc)
    grid = fold(-(-count // 64), caps)
    params = {
        "rows": desc.parts[part],
        "groups": groups(desc),
        "whole": whole,
        "grid_x": grid[0],
    }
    binds = (Bind("w", weight, part=part), Bind("y", out, Access.WRITE))
    return Dispatch("quant/dequantise_rows.wgsl", params, binds, grid, f"dequantise {desc.kind}")
