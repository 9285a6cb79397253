"""Painting a mask: what is marked is made anew, the rest of the picture stays."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QImage,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QShortcut,
    QWheelEvent,
)
from PySide6.QtWidgets import QDialog, QHBoxLayout, QSlider, QVBoxLayout, QWidget

from app import theme
from app.images.mask_model import MaskModel, veil_of
from app.theme import SPACE
from app.widgets import label, pill_button, plain_button, primary_button, quiet_button, title_label
from app.widgets.base import name_widget

LEAST_BRUSH, MOST_BRUSH = 1, 50  # percent of the picture's longer side


class MaskCanvas(QWidget):
    """The picture with the mark over it.

    Attributes: model, brush (percent of the longer side), erases. Signals: changed().
    The keyboard paints as well: arrows move the brush, Space marks.
    """

    changed = Signal()

    def __init__(self, picture: QImage, model: MaskModel) -> None:
        super().__init__()
        name_widget(self, "mask_canvas", "Mask: arrow keys move the brush, Space marks")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(280, 240)
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.BlankCursor)
        self._picture = picture
        self.model = model
        self.brush = 12.0
        self.erases = False
        self._at: QPointF | None = None  # the brush, in pixels of the mask
        self._painting = False

    def brush_width(self) -> float:
        """The brush in pixels of the mask."""
        size = self.model.image.size()
        return max(1.0, max(size.width(), size.height()) * self.brush / 100)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton):
            erases = self.erases or event.button() == Qt.MouseButton.RightButton
            self._at = self._to_mask(event.position())
            self._painting = True
            self.model.begin(self._at, self.brush_width(), erases)
            self._tell()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._at = self._to_mask(event.position())
        if self._painting:
            self.model.extend(self._at)
            self._tell()
        self.update()

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        self._painting = False

    def wheelEvent(self, event: QWheelEvent) -> None:
        step = event.angleDelta().y() / 120
        self.brush = min(max(self.brush + step, LEAST_BRUSH), MOST_BRUSH)
        self._tell()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        size = self.model.image.size()
        at = self._at or QPointF(size.width() / 2, size.height() / 2)
        step = self.brush_width() / 3
        moves = {
            Qt.Key.Key_Left: QPointF(-step, 0),
            Qt.Key.Key_Right: QPointF(step, 0),
            Qt.Key.Key_Up: QPointF(0, -step),
            Qt.Key.Key_Down: QPointF(0, step),
        }
        if event.key() in moves:
            moved = at + moves[Qt.Key(event.key())]
            x = min(max(moved.x(), 0.0), float(size.width()))
            self._at = QPointF(x, min(max(moved.y(), 0.0), float(size.height())))
            self.update()
        elif event.key() == Qt.Key.Key_Space:
            self._at = at
            self.model.begin(at, self.brush_width(), self.erases)
            self._tell()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        tokens = theme.current().tokens
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.fillRect(self.rect(), QColor(tokens.sunken))
        area = self._area()
        painter.drawImage(area, self._picture)
        painter.drawImage(area, veil_of(self.model.image, QColor(tokens.accent)))
        if self._at is not None:
            self._paint_brush(painter, area)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(tokens.accent), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
        painter.end()

    def _paint_brush(self, painter: QPainter, area: QRectF) -> None:
        assert self._at is not None
        scale = area.width() / max(1, self.model.image.width())
        middle = area.topLeft() + self._at * scale
        radius = self.brush_width() * scale / 2
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for colour, width in ((Qt.GlobalColor.black, 3), (Qt.GlobalColor.white, 1)):
            painter.setPen(QPen(colour, width))
            painter.drawEllipse(middle, radius, radius)

    def _area(self) -> QRectF:
        """Where the picture is: as large as there is room, never over four times its size."""
        size = self.model.image.size().toSizeF()
        scale = min(self.width() / size.width(), self.height() / size.height())
        width, height = size.width() * scale, size.height() * scale
        return QRectF((self.width() - width) / 2, (self.height() - height) / 2, width, height)

    def _to_mask(self, point: QPointF) -> QPointF:
        area = self._area()
        return (point - area.topLeft()) * (self.model.image.width() / max(1.0, area.width()))

    def _tell(self) -> None:
        self.changed.emit()
        self.update()


class MaskDialog(QDialog):
    """The window to paint in. Attributes: canvas. ``accepted`` means: use it."""

    def __init__(self, parent: QWidget | None, picture: QImage, mask: QImage | None) -> None:
        super().__init__(parent)
        self.setObjectName("mask_dialog")
        self.setWindowTitle("Paint mask")
        self.setModal(True)
        self.resize(760, 680)
        model = MaskModel(picture.size())
        if mask is not None and not mask.isNull():
            model.start_from(mask)
        self.canvas = MaskCanvas(picture, model)
        self.canvas.changed.connect(self._follow)
        column = QVBoxLayout(self)
        column.setContentsMargins(SPACE.page, SPACE.group, SPACE.page, SPACE.group)
        column.setSpacing(SPACE.row)
        column.addWidget(title_label("What shall be made anew?", "mask_title"))
        words = "Paint over it. The rest of the picture stays as it is."
        column.addWidget(label(words, "small", "mask_hint"))
        column.addWidget(self.canvas, 1)
        column.addLayout(self._tools())
        column.addLayout(self._buttons())
        QShortcut(QKeySequence.StandardKey.Undo, self).activated.connect(self._undo)
        self._follow()
        self.canvas.setFocus()

    def _tools(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(SPACE.row)
        row.addWidget(label("Brush", "small"))
        self.size_slider = QSlider(Qt.Orientation.Horizontal)
        name_widget(self.size_slider, "mask_brush", "Brush size", "Or turn the wheel")
        self.size_slider.setRange(LEAST_BRUSH, MOST_BRUSH)
        self.size_slider.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.size_slider.setFixedWidth(160)
        self.size_slider.valueChanged.connect(self._set_brush)
        row.addWidget(self.size_slider)
        self.erase = pill_button(
            "Erase", "mask_erase", None, "Take marks away (or use the right button)", checkable=True
        )
        self.erase.toggled.connect(self._set_erases)
        row.addWidget(self.erase)
        row.addStretch(1)
        self.undo = quiet_button("Undo", "mask_undo", "undo", "Take back the last stroke")
        self.clear = quiet_button("Clear", "mask_clear", "trash", "Mark nothing")
        self.undo.clicked.connect(self._undo)
        self.clear.clicked.connect(self._clear)
        row.addWidget(self.undo)
        row.addWidget(self.clear)
        return row

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(SPACE.row)
        row.addStretch(1)
        cancel = plain_button("Cancel", "mask_cancel")
        cancel.clicked.connect(self.reject)
        self.use = primary_button("Use mask", "mask_use")
        self.use.clicked.connect(self.accept)
        row.addWidget(cancel)
        row.addWidget(self.use)
        return row

    def _follow(self) -> None:
        self.undo.setEnabled(bool(self.canvas.model.strokes))
        self.size_slider.blockSignals(True)
        self.size_slider.setValue(round(self.canvas.brush))
        self.size_slider.blockSignals(False)

    def _set_brush(self, percent: int) -> None:
        self.canvas.brush = float(percent)
        self.canvas.update()

    def _set_erases(self, erases: bool) -> None:
        self.canvas.erases = erases

    def _undo(self) -> None:
        self.canvas.model.undo()
        self.canvas.changed.emit()
        self.canvas.update()

    def _clear(self) -> None:
        self.canvas.model.clear()
        self.canvas.changed.emit()
        self.canvas.update()
