"""Noise from a fixed generator on the CPU: a seed gives the same numbers on every machine.

Picture number k of a run takes the seed + k, so any picture of a batch can be made again alone. A
picture has several streams: number 0 is the noise it starts from, 1 + c the noise of denoiser call
c, and ``ENCODER`` that of encoding a picture to start from.

The generator is Philox 4x64-10 with key (seed, stream) and counter 0, whose 64-bit output numpy
keeps fixed across versions. Two outputs make two normal numbers by Box and Muller's formula in
float64, rounded to float32.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.image.errors import SettingError

Floats = NDArray[np.float32]

START = 0
ENCODER = 1 << 32
MAX_SEED = (1 << 53) - 1  # what JSON numbers carry exactly

_UNIT = 2.0**-53


def noise(seed: int, count: int, shape: tuple[int, ...], stream: int = START) -> Floats:
    """Standard normal float32 ``[count, *shape]``; picture k has the seed ``seed + k``."""
    check_seed(seed)
    return np.stack([_normals(seed + k, stream, math.prod(shape)) for k in range(count)]).reshape(
        count, *shape
    )


def step_noise(seed: int, count: int, shape: tuple[int, ...], call: int) -> Floats:
    """The fresh noise of denoiser call number ``call``, counted from 0."""
    return noise(seed, count, shape, 1 + call)


def check_seed(seed: int) -> None:
    """Raises SettingError for a seed that is no whole number from 0 to 2**53 - 1."""
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise SettingError(f"The seed is {seed}; choose a whole number from 0 to {MAX_SEED:,}.")


def _normals(seed: int, stream: int, size: int) -> Floats:
    generator = np.random.Philox(key=np.array([seed, stream], np.uint64))
    pairs = (size + 1) // 2
    raw = np.asarray(generator.random_raw(2 * pairs), np.uint64)
    unit = (raw >> np.uint64(11)).astype(np.float64) * _UNIT  # 0 <= unit < 1
    radius = np.sqrt(-2 * np.log(1 - unit[:pairs]))
    angle = 2 * math.pi * unit[pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size].astype(
        np.float32
    )
