"""Colours: what a picture's main hue is, what people call it, and the colours we paint with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Paints for recolouring. Hue in degrees; saturation and value are what the paint aims at.
HUES: dict[str, tuple[float, float, float]] = {
    "red": (2, 0.85, 0.9),
    "orange": (28, 0.9, 1.0),
    "yellow": (50, 0.85, 1.0),
    "green": (125, 0.7, 0.75),
    "teal": (178, 0.7, 0.8),
    "blue": (214, 0.8, 0.95),
    "purple": (272, 0.65, 0.85),
    "pink": (335, 0.5, 1.0),
}
GREYS: dict[str, float] = {"black": 0.22, "gray": 0.62, "white": 0.95}
BACKGROUNDS: dict[str, tuple[float, float, float]] = {
    "blue": (0.55, 0.75, 0.98),
    "red": (0.95, 0.45, 0.42),
    "green": (0.6, 0.87, 0.6),
    "yellow": (1.0, 0.92, 0.55),
    "pink": (1.0, 0.78, 0.86),
    "purple": (0.76, 0.65, 0.95),
    "orange": (1.0, 0.74, 0.45),
    "black": (0.06, 0.06, 0.07),
    "gray": (0.72, 0.72, 0.74),
    "teal": (0.45, 0.83, 0.82),
}
# Names of hues, each up to the degree where the next begins.
_NAMES = (
    (14, "red"),
    (42, "orange"),
    (68, "yellow"),
    (165, "green"),
    (193, "teal"),
    (252, "blue"),
    (292, "purple"),
    (346, "pink"),
    (360, "red"),
)
_BINS = 36  # of 10 degrees
_NEAR = 32  # degrees from the main hue that still are the main hue


@dataclass(frozen=True)
class Colour:
    """The main colour of a picture."""

    name: str | None  # None where no word fits
    hue: float | None  # degrees; None for a grey picture
    saturation: float  # medians over what has the main hue, 0..1
    value: float
    single: bool  # nearly all that is coloured has the main hue


def measure(rgb: NDArray[np.float32], inside: NDArray[np.bool_]) -> Colour:
    """The main colour. rgb [H, W, 3] in 0..1; inside [H, W] marks the object."""
    value, low = rgb.max(-1), rgb.min(-1)
    saturation = (value - low) / np.maximum(value, 1e-3)
    coloured = inside & (saturation > 0.3) & (value > 0.2)
    share = float(coloured.sum() / max(1, inside.sum()))
    if coloured.sum() <= 30:
        return Colour(_grey(value[inside], share), None, 0.0, 0.0, single=False)
    hues, weights = _hue(rgb[coloured]), saturation[coloured]
    main = _main_hue(hues, weights)
    near = np.abs((hues - main + 180) % 360 - 180) < _NEAR
    concentration = float(weights[near].sum() / weights.sum())
    middle = float(np.median(value[coloured][near]))
    strength = float(np.median(weights[near]))
    name = _name(main, strength, middle) if concentration * share > 0.5 else None
    if name is None:
        name = _grey(value[inside], share)
    single = concentration > 0.72 and share > 0.4
    return Colour(name, main, strength, middle, single)


def settled_name(colour: Colour, is_face: bool) -> str | None:
    """The name after second thoughts about shades that people call otherwise."""
    name, hue = colour.name, colour.hue
    if hue is None:
        return name
    if name == "pink" and hue >= 333 and colour.saturation >= 0.6:
        name = "red"
    if name == "red" and colour.value < 0.52:
        name = "brown"
    if name == "orange" and hue >= 33 and is_face:
        name = "yellow"
    if name == "orange" and colour.value > 0.9 and colour.saturation > 0.6 and hue >= 38:
        name = "yellow"
    if name == "blue" and hue >= 244:
        name = "purple"
    return name


def _hue(rgb: NDArray[np.float32]) -> NDArray[np.float32]:
    """Hues in degrees of colours [N, 3]."""
    red, green, blue = rgb.T
    top = rgb.max(-1)
    spread = top - rgb.min(-1) + 1e-6
    among_red = ((green - blue) / spread) % 6
    among_green = (blue - red) / spread + 2
    among_blue = (red - green) / spread + 4
    return np.where(top == red, among_red, np.where(top == green, among_green, among_blue)) * 60


def _main_hue(hues: NDArray[np.float32], weights: NDArray[np.float32]) -> float:
    """The middle of the fullest stretch of three bins."""
    bins = np.zeros(_BINS)
    np.add.at(bins, (hues // 10).astype(int) % _BINS, weights)
    smooth = bins + np.roll(bins, 1) + np.roll(bins, -1)
    return float(smooth.argmax() * 10 + 5)


def _name(hue: float, saturation: float, value: float) -> str | None:
    """What people call a colour; None between names."""
    name = next(name for end, name in _NAMES if hue < end)
    if name == "orange" and value < 0.62:
        return "brown"
    if name == "red" and 10 < hue < 50 and value < 0.62:
        return "brown"
    if name == "red" and saturation < 0.5 and value > 0.8:
        return "pink"
    if (name == "yellow" and value < 0.6) or (name == "orange" and saturation < 0.5):
        return None
    return name


def _grey(values: NDArray[np.float32], coloured_share: float) -> str | None:
    """Black, gray or white for a picture that has next to no colour."""
    if coloured_share >= 0.12 or not len(values):
        return None
    middle = float(np.median(values))
    return "black" if middle < 0.3 else "white" if middle > 0.88 else "gray"
