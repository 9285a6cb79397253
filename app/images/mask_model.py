"""The strokes of a mask and the picture they make. Needs no window."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageFilter
from PySide6.QtCore import QBuffer, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath, QPen

from app.storage.files import write_atomically

MOST_SIDE = 1024  # pixels of a mask's longer side; it is scaled to the picture anyway
MOST_STROKES = 500  # that can be taken back
VEIL = 150  # of 255: how strongly a mark covers
SOFT_EDGE = 80  # the longer side by how far an edge is spread


@dataclass(frozen=True)
class Stroke:
    """One stroke in pixels of the mask: its points, how wide, and whether it takes away."""

    points: tuple[tuple[float, float], ...]
    width: float
    erases: bool = False


def veil_of(mask: QImage, colour: QColor) -> QImage:
    """The marked parts of a mask in a colour, see-through; the rest is clear."""
    alpha = mask.convertToFormat(QImage.Format.Format_Grayscale8)
    veil = QImage(alpha.size(), QImage.Format.Format_ARGB32_Premultiplied)
    tint = QColor(colour)
    tint.setAlpha(VEIL)
    veil.fill(tint)
    alpha.reinterpretAsFormat(QImage.Format.Format_Alpha8)
    painter = QPainter(veil)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_DestinationIn)
    painter.drawImage(0, 0, alpha)
    painter.end()
    return veil


class MaskModel:
    """White where the picture is made anew, on black. Attributes: image, strokes."""

    def __init__(self, size: QSize) -> None:
        most = max(size.width(), size.height(), 1)
        if most > MOST_SIDE:
            size = size.scaled(MOST_SIDE, MOST_SIDE, Qt.AspectRatioMode.KeepAspectRatio)
        self._base = QImage(size, QImage.Format.Format_Grayscale8)
        self._base.fill(Qt.GlobalColor.black)
        self.image = self._base.copy()
        self.strokes: list[Stroke] = []

    def start_from(self, image: QImage) -> None:
        """Go on with a mask that was painted before."""
        grey = image.convertToFormat(QImage.Format.Format_Grayscale8)
        self._base = grey.scaled(self.image.size())
        self._repaint()

    @property
    def is_empty(self) -> bool:
        """True where nothing is marked."""
        small = self.image.scaled(64, 64, mode=Qt.TransformationMode.SmoothTransformation)
        return all(
            small.pixelColor(x, y).lightness() == 0
            for y in range(small.height())
            for x in range(small.width())
        )

    def begin(self, point: QPointF, width: float, erases: bool) -> None:
        """Start a stroke."""
        self.strokes.append(Stroke(((point.x(), point.y()),), width, erases))
        if len(self.strokes) > MOST_STROKES:
            self._fix(self.strokes.pop(0))
        self._paint(self.image, self.strokes[-1])

    def extend(self, point: QPointF) -> None:
        """Go on with the stroke."""
        if not self.strokes:
            return
        last = self.strokes[-1]
        grown = Stroke((*last.points, (point.x(), point.y())), last.width, last.erases)
        self.strokes[-1] = grown
        self._paint(self.image, Stroke(grown.points[-2:], last.width, last.erases))

    def undo(self) -> bool:
        """Take the last stroke back; False if there is none."""
        if not self.strokes:
            return False
        self.strokes.pop()
        self._repaint()
        return True

    def clear(self) -> None:
        """Mark nothing."""
        self._base.fill(Qt.GlobalColor.black)
        self.strokes.clear()
        self._repaint()

    def save(self, path: Path) -> None:
        """Write it as a PNG, its edges softened so that no seam is seen. Raises StorageError."""
        buffer = QBuffer()
        buffer.open(QBuffer.OpenModeFlag.WriteOnly)
        self.image.save(buffer, "PNG")  # type: ignore[call-overload]
        hard = Image.open(BytesIO(bytes(buffer.data().data())))
        soft = hard.filter(ImageFilter.GaussianBlur(max(hard.size) / SOFT_EDGE))
        made = BytesIO()
        soft.save(made, "PNG")
        write_atomically(path, made.getvalue())

    def _repaint(self) -> None:
        self.image = self._base.copy()
        for stroke in self.strokes:
            self._paint(self.image, stroke)

    def _fix(self, stroke: Stroke) -> None:
        self._paint(self._base, stroke)

    def _paint(self, image: QImage, stroke: Stroke) -> None:
        colour = QColor(Qt.GlobalColor.black if stroke.erases else Qt.GlobalColor.white)
        painter = QPainter(image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if len(stroke.points) == 1:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawEllipse(QPointF(*stroke.points[0]), stroke.width / 2, stroke.width / 2)
        else:
            pen = QPen(colour, stroke.width)
            pen.setCapStyle(Qt.PenCapStyle.RoundCap)
            pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
            painter.setPen(pen)
            path = QPainterPath(QPointF(*stroke.points[0]))
            for point in stroke.points[1:]:
                path.lineTo(QPointF(*point))
            painter.drawPath(path)
        painter.end()
