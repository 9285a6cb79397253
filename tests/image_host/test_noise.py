"""A seed gives the same noise everywhere, and pictures of a batch can be made again alone."""

from __future__ import annotations

import numpy as np
import pytest

from engine.image.errors import SettingError
from engine.image.noise import ENCODER, MAX_SEED, noise, step_noise


def test_the_numbers_of_a_seed_never_change():
    expected = np.float32(
        [-0.32302138209342957, -0.668369472026825, -0.843067467212677, 1.1554924249649048]
    )
    np.testing.assert_allclose(noise(1234, 1, (2, 2)).ravel(), expected, rtol=2e-7)


def test_noise_is_standard_normal():
    values = noise(7, 1, (4, 128, 128)).ravel().astype(np.float64)
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01
    assert abs((values**3).mean()) < 0.03
    assert abs((values**4).mean() - 3) < 0.1
    assert np.isfinite(values).all()


def test_picture_k_has_the_seed_plus_k():
    batch = noise(10, 3, (4, 8, 8))
    assert batch.shape == (3, 4, 8, 8)
    assert batch.dtype == np.float32
    np.testing.assert_array_equal(batch[2:], noise(12, 1, (4, 8, 8)))


def test_streams_are_independent():
    streams = [noise(5, 1, (999,), stream).ravel() for stream in (0, 1, 2, ENCODER)]
    assert np.abs(np.corrcoef(streams) - np.eye(4)).max() < 0.1
    np.testing.assert_array_equal(step_noise(5, 1, (999,), 0).ravel(), streams[1])


def test_odd_sizes_and_the_largest_seed():
    assert noise(MAX_SEED, 1, (3, 5, 7)).shape == (1, 3, 5, 7)


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1, 1.5, "7", True])
def test_other_seeds_are_refused(seed):
    with pytest.raises(SettingError, match="choose a whole number from 0"):
        noise(seed, 1, (4,))
