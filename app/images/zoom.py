"""A picture to look at closely: fit, 100 %, wheel and drag; two of them with a line between."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from app import theme
from app.theme import Tokens
from app.widgets.base import name_widget, wire_theme

LEAST, MOST = 0.02, 32.0  # zoom, device pixels a pixel of the picture
NEAREST_FROM = 8.0  # logical pixels a picture pixel, from which these are shown as squares
NOTCH = 1.25
LINE = 12  # pixels around the line that take hold of it


class ZoomView(QWidget):
    """Shows a picture. Attributes: zoom (device pixels a picture pixel), is_fit, split (0 to 1).

    Signals: zoom_changed(zoom), split_changed(split), step_wanted(-1 or 1) for another picture.
    """

    zoom_changed = Signal(float)
    split_changed = Signal(float)
    step_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        name_widget(self, "zoom_view", "Picture")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(120, 120)
        self.setMouseTracking(True)
        self._picture, self._other = QPixmap(), QPixmap()
        self._centre = QPointF()  # the picture's point in the middle of the view
        self._drag: QPointF | None = None
        self._drags_line = False
        self.zoom, self.split, self.is_fit = 1.0, 0.5, True
        wire_theme(self, self.recolour)

    def show_image(self, image: QImage, other: QImage | None = None) -> None:
        """Show a picture, or two with a line between; the zoom is kept unless it was fitted."""
        self._picture = QPixmap.fromImage(image)
        self._other = QPixmap.fromImage(other) if other is not None else QPixmap()
        self._centre = QPointF(self._picture.width() / 2, self._picture.height() / 2)
        self.split = 0.5
        self.fit()

    def clear(self) -> None:
        """Show nothing, and free what it took."""
        self._picture, self._other = QPixmap(), QPixmap()
        self.update()

    @property
    def is_empty(self) -> bool:
        """Whether no picture is shown."""
        return self._picture.isNull()

    @property
    def compares(self) -> bool:
        """Whether two pictures are shown."""
        return not self._other.isNull()

    def fit(self) -> None:
        """All of the picture, as large as there is room."""
        self.is_fit = True
        if not self._picture.isNull():
            ratio = self.devicePixelRatioF()
            across = self.width() * ratio / self._picture.width()
            down = self.height() * ratio / self._picture.height()
            self.zoom = min(max(min(across, down), LEAST), MOST)
            self._centre = QPointF(self._picture.width() / 2, self._picture.height() / 2)
        self.zoom_changed.emit(self.zoom)
        self.update()

    def set_zoom(self, zoom: float, at: QPointF | None = None) -> None:
        """Another zoom; what is below the point ``at`` stays there."""
        self.is_fit = False
        point = at if at is not None else QRectF(self.rect()).center()
        before = self._to_picture(point)
        self.zoom = min(max(zoom, LEAST), MOST)
        self._centre += before - self._to_picture(point)
        self._hold()
        self.zoom_changed.emit(self.zoom)
        self.update()

    def set_split(self, split: float) -> None:
        """Where the line between two pictures is, 0 to 1 of the way across."""
        split = min(max(split, 0.0), 1.0)
        if split != self.split:
            self.split = split
            self.split_changed.emit(split)
            self.update()

    def recolour(self, _tokens: Tokens) -> None:
        """Draw again in the theme's colours."""
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.is_fit:
            self.fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        notches = event.angleDelta().y() / 120
        if notches:
            self.set_zoom(self.zoom * NOTCH**notches, event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._drags_line = self._is_at_line(event.position())
            self._drag = event.position()
            if not self._drags_line:
                self.setCursor(Qt.CursorShape.ClosedHandCursor)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        here = event.position()
        if self._drag is None:
            at_line = self._is_at_line(here)
            shape = Qt.CursorShape.SplitHCursor if at_line else Qt.CursorShape.OpenHandCursor
            self.setCursor(shape)
        elif self._drags_line:
            area = self._area()
            self.set_split((here.x() - area.left()) / max(1.0, area.width()))
        else:
            self.is_fit = False
            self._centre -= (here - self._drag) * self.devicePixelRatioF() / self.zoom
            self._drag = here
            self._hold()
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._drag = None
        self.setCursor(Qt.CursorShape.OpenHandCursor)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if self.is_fit:
            self.set_zoom(1.0, event.position())
        else:
            self.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.set_zoom(self.zoom * NOTCH)
        elif key == Qt.Key.Key_Minus:
            self.set_zoom(self.zoom / NOTCH)
        elif key == Qt.Key.Key_1:
            self.set_zoom(1.0)
        elif key == Qt.Key.Key_0:
            self.fit()
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            way = 1 if key == Qt.Key.Key_Right else -1
            if self.compares:
                self.set_split(self.split + way * 0.05)
            else:
                self.step_wanted.emit(way)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        tokens = theme.current().tokens
        painter.fillRect(self.rect(), QColor(tokens.sunken))
        if not self._picture.isNull():
            is_smooth = self.is_fit or self.zoom / self.devicePixelRatioF() < NEAREST_FROM
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, is_smooth)
            self._paint_pictures(painter, self._area())
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(tokens.accent), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
        painter.end()

    def _paint_pictures(self, painter: QPainter, area: QRectF) -> None:
        painter.drawPixmap(area, self._picture, QRectF(self._picture.rect()))
        if self._other.isNull():
            return
        line = area.left() + area.width() * self.split
        painter.save()
        painter.setClipRect(QRectF(line, 0, self.width() - line, self.height()))
        painter.fillRect(area, QColor(theme.current().tokens.sunken))
        painter.drawPixmap(area, self._other, QRectF(self._other.rect()))
        painter.restore()
        tokens = theme.current().tokens
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(tokens.accent), 2))
        painter.drawLine(QPointF(line, area.top()), QPointF(line, area.bottom()))
        painter.setBrush(QColor(tokens.panel))
        painter.drawEllipse(QPointF(line, area.center().y()), 9, 9)

    def _area(self) -> QRectF:
        """Where the picture is, in logical pixels of this widget."""
        scale = self.zoom / self.devicePixelRatioF()
        width, height = self._picture.width() * scale, self._picture.height() * scale
        middle = QRectF(self.rect()).center()
        left_top = middle - self._centre * scale
        return QRectF(left_top.x(), left_top.y(), width, height)

    def _to_picture(self, point: QPointF) -> QPointF:
        middle = QRectF(self.rect()).center()
        return self._centre + (point - middle) * self.devicePixelRatioF() / self.zoom

    def _hold(self) -> None:
        """Keep some of the picture in view."""
        x = min(max(self._centre.x(), 0.0), float(self._picture.width()))
        y = min(max(self._centre.y(), 0.0), float(self._picture.height()))
        self._centre = QPointF(x, y)

    def _is_at_line(self, point: QPointF) -> bool:
        if not self.compares:
            return False
        area = self._area()
        return abs(point.x() - (area.left() + area.width() * self.split)) <= LINE
