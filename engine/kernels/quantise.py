"""Activations as signed bytes with a scale for each group of 32: what the int8 products read.

A row is ``pitch`` words: eight words of codes a group, then two f32 a group (the scale, and the sum
of the quantised values), padded to whole vectors of four words.
"""

from __future__ import annotations

import numpy as np

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Role, Value
from engine.graph.ops import rows
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.tensor.descriptor import DType, TensorDesc, matrix, round_up

GROUP = 32
_THREADS = 64


def quantised_desc(desc: TensorDesc) -> TensorDesc:
    """The u32 matrix that holds the quantised rows of an activation."""
    groups = -(-desc.shape.c // GROUP)
    return matrix(rows(desc.shape), round_up(10 * groups, 4), DType.U32)


def quantise(x: Value, caps: Capabilities, lanes: int | None = None) -> tuple[Value, Dispatch]:
    """A new value with the quantised rows of ``x``, and the dispatch that makes it.

    Args:
        lanes: invocations that share a group, 1 or (by subgroup shuffles) 8; None for the better.
    """
    desc = x.tensor
    out = Value(f"{x.name}.int8", quantised_desc(desc), Role.ACTIVATION)
    if lanes is None:
        lanes = 8 if caps.subgroup >= 8 and not caps.software else 1
    tokens, groups = rows(desc.shape), -(-desc.shape.c // GROUP)
    grid = fold(-(-tokens * groups * lanes // _THREADS), caps)
    params = {
        "tokens": tokens,
        "groups": groups,
        "channels": desc.shape.c,
        "slices": desc.shape.slices,
        "pitch": out.tensor.shape.c,
        "lanes": lanes,
        "threads": _THREADS,
        "grid_x": grid[0],
        "grid_y": grid[1],
    }
    binds = (Bind("x", x), Bind("y", out, Access.WRITE, raw="array<u32>"))
    label = f"quantise {tokens}x{desc.shape.c}"
    return out, Dispatch("quantise/int8.wgsl", params, binds, grid, label)


def dequantised(words: np.ndarray, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """The values and the sums of groups that quantised rows stand for: the reference for tests.

    Args:
        words: uint32 ``[T, pitch]``.

    Returns:
        (float64 ``[T, channels]``, float64 ``[T, groups]``)
    """
    groups = -(-channels // GROUP)
    codes = np.ascontiguousarray(words[:, : 8 * groups]).view(np.int8).astype(np.float64)
    factors = np.ascontiguousarray(words[:, 8 * groups : 10 * groups]).view(np.float32)
    scales = factors[:, 0::2].astype(np.float64)
    values = codes * np.repeat(scales, GROUP, axis=1)
    return values[:, :channels], factors[:, 1::2].astype(np.float64)
