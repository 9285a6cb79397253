"""The op ``to_rgba``: a picture, or latents by a linear map, as RGBA bytes for the host."""

from __future__ import annotations

import numpy as np

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.graph.ops import rows as rows_of
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold

SIZE = 64


def pack_factors(matrix: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The factors' contents, float32 ``[4 c + 4]``, of a map ``[3, c]`` and offsets ``[3]``.

    What they make of latents is a picture in -1 .. 1.
    """
    channels = matrix.shape[1]
    packed = np.zeros(4 * channels + 4, np.float32)
    packed[: 3 * channels] = np.asarray(matrix, np.float32).reshape(-1)
    packed[4 * channels : 4 * channels + 3] = offset
    return packed


def unpack_rgba(words: np.ndarray, pictures: int, height: int, width: int) -> np.ndarray:
    """Bytes ``[pictures, height, width, 4]`` of the words that were read back, in any shape."""
    count = pictures * height * width
    pixels = np.ascontiguousarray(words.reshape(-1)[:count], "<u4")
    return pixels.view(np.uint8).reshape(pictures, height, width, 4)


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """One dispatch."""
    named = node.named
    shape = named["x"].tensor.shape
    grid = fold(-(-rows_of(shape) // SIZE), caps)
    params = {
        "pixels": rows_of(shape),
        "channels": shape.c,
        "slices": shape.slices,
        "has_factors": "factors" in named,
        "size": SIZE,
        "grid_x": grid[0],
    }
    binds = [Bind("x", named["x"])]
    if "factors" in named:
        binds.append(Bind("factors", named["factors"], raw="array<f32>"))
    binds.append(Bind("rgba", node.output, Access.WRITE, raw="array<u32>"))
    return [Dispatch("image/to_rgba.wgsl", params, tuple(binds), grid, "to_rgba")]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node, by name: there is one."""
    return {"only": lower(node, caps)}
