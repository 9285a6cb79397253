"""Colours of latents for the live preview: a linear map from latents to what they stand for.

The map belongs to a space of latents, which is the denoiser's: a model may bring it beside its
autoencoder (vae/latent_colours.json), those of Stable Diffusion are known, and for any other it is
learned from the pictures that the model makes, at no cost. Until the first is done there is no
preview then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from engine.formats.diffusers import PipelineFiles
from engine.formats.diffusers_configs import TinyVaeConfig, VaeConfig
from engine.formats.diffusers_json import read_json
from engine.formats.diffusers_types import SCALE, SCALE_XL
from engine.formats.errors import FormatError
from engine.kernels.preview import pack_factors

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
FILE = "latent_colours.json"
RIDGE = 1e-2  # keeps the map small in directions that the pictures say nothing about

# Users' measurements of outputs of Stable Diffusion 1.4, published as "Decoding latents to RGB
# without upscaling" (2022): rows red, green, blue; what they give is in -1 .. 1. Version 2 has the
# same autoencoder.
_SD = ((0.298, 0.187, -0.158, -0.184), (0.207, 0.286, 0.189, -0.271), (0.208, 0.173, 0.264, -0.473))
# T. A. Vass, "Explaining the SDXL latent space" (2023): rows red, green, blue and offsets, of 255.
_XL = ((60, -60, 25, -70), (60, -5, 15, -50), (60, 10, -5, -35))
_XL_OFFSET = (150, 140, 130)


@dataclass(frozen=True)
class Colours:
    """``matrix`` [3, c] and ``offset`` [3]: from latents, as the denoiser has them, to -1 .. 1."""

    matrix: Doubles
    offset: Doubles

    def factors(self) -> Floats:
        """As ``to_rgba`` reads them."""
        return pack_factors(self.matrix, self.offset).astype(np.float32)

    def as_json(self) -> dict[str, Any]:
        """What a model's file holds."""
        return {"matrix": self.matrix.round(4).tolist(), "offset": self.offset.round(4).tolist()}


def known_colours(files: PipelineFiles) -> Colours | None:
    """What a model's own file says, or what is known of its family."""
    channels = files.vae.latent_channels
    own = files.path / "vae" / FILE
    if files.kind == "folder" and own.is_file():
        try:
            return _read(read_json(own), channels)
        except FormatError:
            return None  # pictures are made without a preview, too
    if channels != 4:
        return None
    if files.family in ("sd1", "sd2") and _scales_by(files.vae, SCALE):
        return Colours(np.array(_SD), np.zeros(3))
    if files.family == "sdxl" and _scales_by(files.vae, SCALE_XL):
        return Colours(np.array(_XL) / 127.5, np.array(_XL_OFFSET) / 127.5 - 1)
    return None


def _scales_by(vae: VaeConfig | TinyVaeConfig, scale: float) -> bool:
    """Whether an autoencoder is for latents of this scale; the tiny ones take any as they are."""
    return isinstance(vae, TinyVaeConfig) or abs(vae.scaling_factor - scale) < 1e-4


def _read(data: Mapping[str, Any], channels: int) -> Colours | None:
    """The file's map, or None where it is damaged or for other latents."""
    try:
        matrix = np.asarray(data.get("matrix"), np.float64)
        offset = np.asarray(data.get("offset"), np.float64)
    except (TypeError, ValueError):
        return None
    sound = matrix.shape == (3, channels) and offset.shape == (3,)
    whole = sound and bool(np.isfinite(matrix).all() and np.isfinite(offset).all())
    return Colours(matrix, offset) if whole else None


@dataclass
class Learned:
    """The map that brings latents closest to the colours of pictures, in the sense of squares.

    Attributes:
        count, total, products: of (latents, colours) side by side, [c + 3] and [c + 3, c + 3].
    """

    channels: int
    count: int = 0
    total: Doubles = field(init=False)
    products: Doubles = field(init=False)

    def __post_init__(self) -> None:
        self.total = np.zeros(self.channels + 3)
        self.products = np.zeros((self.channels + 3, self.channels + 3))

    def add(self, latents: Floats, picture: Floats) -> None:
        """Latents [h, w, c] and the picture [f h, f w, 3] in -1 .. 1 that they became."""
        height, width = latents.shape[:2]
        blocks = picture.reshape(height, picture.shape[0] // height, width, -1, 3).mean((1, 3))
        rows = np.concatenate([latents, blocks], axis=2, dtype=np.float64)
        rows = rows.reshape(height * width, -1)
        self.count += len(rows)
        self.total += rows.sum(0)
        self.products += rows.T @ rows

    def colours(self) -> Colours | None:
        """The map as far as it is known, or None before the first picture."""
        if not self.count:
            return None
        mean = self.total / self.count
        spread = self.products / self.count - np.outer(mean, mean)
        c = self.channels
        own = spread[:c, :c] + np.eye(c) * (RIDGE * np.trace(spread[:c, :c]) / c + 1e-9)
        solved = cast("Doubles", np.linalg.solve(own, spread[:c, c:]))
        return Colours(solved.T, mean[c:] - mean[:c] @ solved)


@dataclass
class LatentColours:
    """The map of a loaded model."""

    files: PipelineFiles

    def __post_init__(self) -> None:
        known = known_colours(self.files)
        self._factors = None if known is None else known.factors()
        self._learned = Learned(self.files.vae.latent_channels) if known is None else None

    def factors(self) -> Floats | None:
        """What ``to_rgba`` reads, or None while nothing is known."""
        return self._factors

    def learn(self, latents: Floats, picture: Floats) -> None:
        """Note what latents became, where the map is not known anyway."""
        if self._learned is not None:
            self._learned.add(latents, picture)
            made = self._learned.colours()
            self._factors = None if made is None else made.factors()
