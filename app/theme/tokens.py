"""The colours, type sizes and distances of the program; nothing else names a colour.

`faint` is decoration and never the colour of a text that must be read. `dim` reads well on
`background` and `panel`; on `sunken` and `accent_soft` use `text`, there `dim` is too pale.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Tokens:
    """One theme's colours, each as "#rrggbb"."""

    name: str
    is_dark: bool
    background: str
    panel: str
    sunken: str
    line: str
    text: str
    dim: str
    faint: str
    accent: str
    accent_soft: str
    on_accent: str
    warning: str
    bad: str
    memory_weights: str
    memory_cache: str
    memory_activations: str
    memory_others: str
    memory_free: str


LIGHT = Tokens(
    name="light",
    is_dark=False,
    background="#f6f5f2",
    panel="#ffffff",
    sunken="#efede8",
    line="#e2dfd8",
    text="#1f2328",
    dim="#6b6f76",
    faint="#9a9da3",
    accent="#0f766e",
    accent_soft="#d8efeb",
    on_accent="#ffffff",
    warning="#b45309",
    bad="#b42318",
    memory_weights="#0f766e",
    memory_cache="#d97706",
    memory_activations="#7c6bd6",
    memory_others="#b8bcc4",
    memory_free="#e2dfd8",
)

DARK = Tokens(
    name="dark",
    is_dark=True,
    background="#16181b",
    panel="#1e2125",
    sunken="#121416",
    line="#2d3137",
    text="#e7e8ea",
    dim="#9ba1a9",
    faint="#6d737b",
    accent="#2dd4bf",
    accent_soft="#123b37",
    on_accent="#06201d",
    warning="#f0b429",
    bad="#f97066",
    memory_weights="#2dd4bf",
    memory_cache="#f0a63a",
    memory_activations="#9d8df1",
    memory_others="#4a5058",
    memory_free="#2d3137",
)


@dataclass(frozen=True)
class Space:
    """Distances in device-independent pixels, all steps of 4."""

    small: int = 4
    row: int = 8
    inner: int = 12
    group: int = 16
    page: int = 24
    rail: int = 76
    head: int = 54


@dataclass(frozen=True)
class Radius:
    """Corner radii in device-independent pixels."""

    control: int = 8
    card: int = 14
    composer: int = 16


@dataclass(frozen=True)
class Type:
    """Type sizes in points of 1/72 inch at 96 pixels per inch."""

    body: float = 10.5
    title: float = 12.0
    small: float = 9.0
    mono: float = 9.5
    line_height: float = 1.5
    measure: int = 72


SPACE = Space()
RADIUS = Radius()
TYPE = Type()


def points(size: float) -> float:
    """Points to ask Qt for: macOS counts 72 pixels to the inch where the others count 96."""
    return size * 96 / 72 if sys.platform == "darwin" else size


def contrast(first: str, second: str) -> float:
    """The WCAG contrast ratio of two "#rrggbb" colours, 1 to 21."""
    bright, dark = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, 0 to 1."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
