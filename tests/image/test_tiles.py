"""Tiles cover a picture, overlap, and blend to what was there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from engine.image.pipeline_tiles import places, smaller, starts
from engine.image.pipeline_vae import _tiled


def test_a_picture_that_fits_is_one_tile() -> None:
    assert list(places(32, 48, (32, 48))) == [(0, 0)]


@pytest.mark.parametrize(("length", "tile"), [(64, 32), (65, 32), (40, 32), (33, 32), (200, 24)])
def test_tiles_of_a_line_overlap_and_end_with_it(length: int, tile: int) -> None:
    found = starts(length, tile)
    assert found[0] == 0
    assert found[-1] + tile == length
    assert all(0 < b - a <= tile - tile // 4 for a, b in pairwise(found))


def test_tiles_halve_down_to_the_smallest() -> None:
    assert [smaller(64), smaller(72), smaller(24), smaller(16), smaller(8)] == [32, 40, 16, 16, 8]


def test_blended_tiles_are_the_whole_again() -> None:
    whole = np.random.default_rng(0).standard_normal((40, 56, 4)).astype(np.float32)

    def enlarge(rows: slice, columns: slice) -> np.ndarray:
        return whole[rows, columns].repeat(2, 0).repeat(2, 1)

    made = _tiled(enlarge, (40, 56), (16, 24), (1, 2), lambda *_: None, lambda: False)
    assert made is not None
    assert np.allclose(made, whole.repeat(2, 0).repeat(2, 1), atol=1e-5)


def test_decoding_stops_between_tiles() -> None:
    def never_called(rows: slice, columns: slice) -> np.ndarray:
        raise AssertionError

    assert _tiled(never_called, (8, 8), (8, 8), (1, 1), lambda *_: None, lambda: True) is None
