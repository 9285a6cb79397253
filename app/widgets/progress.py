"""A thin progress bar, certain or uncertain."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QProgressBar

from app import theme
from app.theme import Tokens
from app.widgets.base import wire_theme

STEPS = 10_000


class ProgressBar(QProgressBar):
    """A rounded line that fills; without a fraction a short piece wanders along it."""

    def __init__(self, object_name: str = "progress", accessible: str = "Progress") -> None:
        super().__init__()
        self.setObjectName(object_name)
        self.setAccessibleName(accessible)
        self.setTextVisible(False)
        self.setRange(0, STEPS)
        self._phase = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(33)
        self._timer.timeout.connect(self._wander)
        wire_theme(self, self.recolour)

    def set_fraction(self, fraction: float | None) -> None:
        """Show 0 to 1 of the way, or None where nobody knows."""
        if fraction is None:
            self.setRange(0, 0)
            if theme.current().motion(33):
                self._timer.start()
        else:
            self._timer.stop()
            self.setRange(0, STEPS)
            self.setValue(round(min(max(fraction, 0.0), 1.0) * STEPS))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(160, 5)

    def minimumSizeHint(self) -> QSize:
        return QSize(24, 5)

    def recolour(self, _tokens: Tokens) -> None:
        """Draw again in the theme's colours."""
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        tokens = theme.current().tokens
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        height = min(5.0, float(self.height()))
        top = (self.height() - height) / 2
        painter.setBrush(QColor(tokens.line))
        painter.drawRoundedRect(QRectF(0, top, self.width(), height), height / 2, height / 2)
        left, width = self._piece()
        painter.setBrush(QColor(tokens.accent))
        if width > 0:
            painter.drawRoundedRect(QRectF(left, top, width, height), height / 2, height / 2)
        painter.end()

    def _piece(self) -> tuple[float, float]:
        if self.maximum() == 0:
            width = self.width() / 4
            return (self.width() - width) * abs(1 - 2 * self._phase), width
        return 0.0, self.width() * self.value() / STEPS

    def _wander(self) -> None:
        self._phase = (self._phase + 0.012) % 1.0
        if self.isVisible():
            self.update()
