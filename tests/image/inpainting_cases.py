"""The orders to inpainting models whose pictures diffusers has drawn (make_inpainting.py)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from image.tiny_pipelines import HEIGHT, WIDTH


@dataclass(frozen=True)
class Filling:
    """One order: the kind of model, its sampler, and what of the picture is taken away."""

    kind: str
    sampler: str
    strength: float
    masked: bool = True


CASES = {
    "all of the strength": Filling("inpaint", "ddim", 1.0),
    "part of the strength": Filling("inpaint", "euler", 0.6),
    "with noise at each step": Filling("inpaint", "euler_a", 1.0),
    "two encoders": Filling("inpaint-xl", "euler", 0.8),
    "everything anew": Filling("inpaint", "dpmpp_2m", 1.0, masked=False),
}


def uneven_mask() -> np.ndarray:
    """A mask, uint8 [HEIGHT, WIDTH], whose edges cross latents and are soft."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.asarray(np.clip(40 * (19 - np.hypot(x - 37.5, y - 29.5)) + 128, 0, 255), np.uint8)
