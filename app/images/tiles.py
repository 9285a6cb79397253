"""Gallery tiles made off the GUI thread: the newest wish first, only what is looked at."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from PySide6.QtCore import QObject, QRectF, Qt, Signal
from PySide6.QtGui import QImage, QPainter, QPainterPath, QPixmap

from app.images.background import Background
from app.images.decode import PictureError, load_thumbnail
from app.images.start import square_of
from app.storage.pictures import Picture

KEPT = 400  # tiles in memory, some 70 KiB each at 100 % scale
MOST_WISHES = 120  # older ones have been scrolled away
THREADS = 2
RADIUS = 10


class Tiles(QObject):
    """Tiles by path. Signals: made(path) when one is ready or turned out to be broken."""

    made = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = Background(self, THREADS)
        self._tiles: OrderedDict[Path, tuple[int, int, QPixmap]] = OrderedDict()
        self._wishes: OrderedDict[Path, tuple[Picture, int, float]] = OrderedDict()
        self._busy: set[Path] = set()
        self.problems: dict[Path, str] = {}

    def get(self, picture: Picture, side: int, ratio: float) -> QPixmap | None:
        """The tile of ``side`` logical pixels; None, or one of another size, until it is made."""
        pixels = round(side * ratio)
        found = self._tiles.get(picture.path)
        if found is not None:
            self._tiles.move_to_end(picture.path)
        is_right = found is not None and found[:2] == (picture.modified, pixels)
        if not is_right and picture.path not in self.problems:
            self._wish(picture, pixels, ratio)
        return found[2] if found is not None else None

    def forget(self, path: Path) -> None:
        """A picture is gone or was replaced."""
        self._tiles.pop(path, None)
        self._wishes.pop(path, None)
        self.problems.pop(path, None)

    @property
    def idle(self) -> bool:
        """True when nothing is waited for."""
        return not self._busy and not self._wishes

    def close(self) -> None:
        """Stop working, before the program ends."""
        self._wishes.clear()
        self._background.close()
        self._busy.clear()

    def _wish(self, picture: Picture, pixels: int, ratio: float) -> None:
        if picture.path in self._busy:
            return
        self._wishes[picture.path] = (picture, pixels, ratio)
        self._wishes.move_to_end(picture.path)
        while len(self._wishes) > MOST_WISHES:
            self._wishes.popitem(last=False)
        self._work()

    def _work(self) -> None:
        while self._wishes and len(self._busy) < THREADS:
            path, (picture, pixels, ratio) = self._wishes.popitem(last=True)
            self._busy.add(path)
            self._background.run(
                lambda p=picture, n=pixels, r=ratio: tile_image(p, n, round(RADIUS * r)),
                lambda result, p=picture, n=pixels, r=ratio: self._take(p, n, r, result),
            )

    def _take(self, picture: Picture, pixels: int, ratio: float, result: object) -> None:
        self._busy.discard(picture.path)
        if isinstance(result, QImage):
            tile = QPixmap.fromImage(result)
            tile.setDevicePixelRatio(ratio)
            self._tiles[picture.path] = (picture.modified, pixels, tile)
            while len(self._tiles) > KEPT:
                self._tiles.popitem(last=False)
        else:
            is_known = isinstance(result, PictureError)
            self.problems[picture.path] = str(result) if is_known else "It cannot be shown."
        self.made.emit(picture.path)
        self._work()


def tile_image(picture: Picture, pixels: int, radius: int) -> QImage:
    """A square of ``pixels`` from the picture's middle with round corners. Raises PictureError."""
    image = load_thumbnail(picture)
    tile = QImage(pixels, pixels, QImage.Format.Format_ARGB32_Premultiplied)
    tile.fill(Qt.GlobalColor.transparent)
    square = image.copy(square_of(image).toRect()).scaled(
        pixels,
        pixels,
        Qt.AspectRatioMode.IgnoreAspectRatio,
        Qt.TransformationMode.SmoothTransformation,
    )
    painter = QPainter(tile)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    path = QPainterPath()
    path.addRoundedRect(QRectF(0, 0, pixels, pixels), radius, radius)
    painter.fillPath(path, square)
    painter.end()
    return tile
