"""One set of SVG icons, drawn in whatever colour the theme asks for.

The files say `currentColor`; it is replaced before rendering, so one file serves both themes.
"""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.theme.assets import asset

# Every pixel ratio from 100 to 200 % finds a rendering at least as fine as it needs.
RATIOS = (1.0, 1.25, 1.5, 2.0, 3.0)


@lru_cache(maxsize=128)
def _source(name: str) -> str:
    return asset("icons", f"{name}.svg").read_text(encoding="utf-8")


@lru_cache(maxsize=512)
def pixmap(name: str, colour: str, size: int = 18, ratio: float = 1.0) -> QPixmap:
    """The icon `name` in `colour`, `size` device-independent pixels wide, at a pixel ratio."""
    renderer = QSvgRenderer(QByteArray(_source(name).replace("currentColor", colour).encode()))
    side = round(size * ratio)
    image = QPixmap(side, side)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer.render(painter, QRectF(0, 0, side, side))
    painter.end()
    image.setDevicePixelRatio(ratio)
    return image


def icon(name: str, colour: str, size: int = 18, disabled: str | None = None) -> QIcon:
    """A QIcon with the pixmaps for every usual pixel ratio; `disabled` colours it when off."""
    result = QIcon()
    for ratio in RATIOS:
        result.addPixmap(pixmap(name, colour, size, ratio))
        if disabled is not None:
            result.addPixmap(pixmap(name, disabled, size, ratio), QIcon.Mode.Disabled)
    return result
