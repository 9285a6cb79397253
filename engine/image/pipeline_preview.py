"""Colours of latents for the live preview: a linear map, fitted once for each model.

The autoencoder encodes a sheet of plain colours; the map from latents back to those colours that is
best in the least-squares sense is close enough to show what is becoming.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from engine.image.pipeline_vae import Cancelled, VaeStage
from engine.image.runner_graph import Floats
from engine.kernels.preview import pack_factors

Doubles = NDArray[np.float64]
SHEET = 8  # patches along a side
PATCH = 2  # latents along a patch
RIDGE = 1e-2  # keeps the map small in directions that the sheet says nothing about


def preview_factors(stage: VaeStage, cancelled: Cancelled) -> Floats | None:
    """The factors for ``to_rgba``, or None when cancelled."""
    factor = stage.model.vae_config.factor
    colours = np.random.Generator(np.random.PCG64(1)).uniform(-1, 1, (SHEET, SHEET, 3))
    sheet = colours.repeat(PATCH * factor, 0).repeat(PATCH * factor, 1).astype(np.float32)
    latents = stage.encode(sheet, cancelled)
    if latents is None:
        return None
    blocks = latents.reshape(SHEET, PATCH, SHEET, PATCH, -1).mean((1, 3))
    matrix, offset = fitted(blocks.reshape(SHEET * SHEET, -1), colours.reshape(-1, 3))
    return pack_factors(matrix, offset)


def fitted(latents: Floats, colours: Doubles) -> tuple[Doubles, Doubles]:
    """The matrix [3, c] and offsets [3] that bring latents [n, c] closest to colours [n, 3]."""
    middle, mean = latents.mean(0, dtype=np.float64), colours.mean(0)
    centred = latents.astype(np.float64) - middle
    spread = centred.T @ centred
    spread += np.eye(len(spread)) * RIDGE * np.trace(spread) / len(spread)
    solved = cast("Doubles", np.linalg.solve(spread, centred.T @ (colours - mean)))
    return solved.T, mean - middle @ solved
