"""Cutting a picture into overlapping tiles, and blending them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
SMALLEST_TILE = 16  # latents along a side
OVERLAP = 4  # a tile overlaps the next by this part of its side


def smaller(side: int) -> int:
    """Half a side, in steps of 8 where that is possible, at least the smallest tile."""
    half = -(-side // 2)
    return min(side, max(SMALLEST_TILE, -(-half // 8) * 8 if side >= 16 else half))


def starts(length: int, tile: int) -> list[int]:
    """Where the tiles of a line begin; the last one ends with it."""
    if tile >= length:
        return [0]
    step = max(1, tile - tile // OVERLAP)
    return [*range(0, length - tile, step), length - tile]


def places(height: int, width: int, tile: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The upper left corners of all tiles."""
    for y in starts(height, tile[0]):
        for x in starts(width, tile[1]):
            yield y, x


def ramp(
    corner: tuple[int, int], whole: tuple[int, int], tile: tuple[int, int], factor: int
) -> Floats:
    """How much each pixel of a tile counts, [h, w, 1]: less toward the sides it shares.

    ``corner``, ``whole`` and ``tile`` are in latents; ``factor`` pixels stand for one.
    """
    sides = [
        _line(at, length, min(size, length), factor)
        for at, length, size in zip(corner, whole, tile, strict=True)
    ]
    return (sides[0][:, None, None] * sides[1][None, :, None]).astype(np.float32)


def _line(start: int, length: int, tile: int, factor: int) -> NDArray[np.float64]:
    count = tile * factor
    weights = np.ones(count)
    blend = max(1, tile // OVERLAP * factor)
    rise = (np.arange(blend) + 1) / (blend + 1)
    if start > 0:
        weights[:blend] = rise
    if start + tile < length:
        weights[count - blend :] *= rise[::-1]
    return weights
