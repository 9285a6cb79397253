"""The meter at the foot of the rail: always there, one click from the whole panel."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QPushButton, QVBoxLayout, QWidget

from app.memory.model import MemoryState, looks_same, split_words, used_words
from app.memory.paint import StackBar
from app.memory.panel import MemoryPanel
from app.memory.units import gib, gib_number
from app.theme import SPACE, current
from app.theme.theme import interface_font
from app.theme.tokens import TYPE
from app.widgets.base import name_widget, wire_theme

HEIGHT = 144


class RailMeter(QPushButton):
    """A tall thin bar with used and total under it. A click opens the panel beside the rail.

    Attributes: bar, popover (made at the first click).
    """

    def __init__(self, object_name: str = "rail_meter") -> None:
        super().__init__()
        self.setProperty("kind", "rail")
        name_widget(self, object_name, "GPU memory", "GPU memory. Click for the split.")
        self.setFixedSize(SPACE.rail - 2 * SPACE.row, HEIGHT)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.bar = StackBar(vertical=True)
        self.words = RailWords()
        self.popover: Popover | None = None
        self._state: MemoryState | None = None
        self._needed: int | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, SPACE.row, 0, SPACE.row)
        column.setSpacing(0)
        column.addWidget(self.bar, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addSpacing(SPACE.row)
        column.addWidget(self.words)
        for widget in (self.bar, self.words):
            widget.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        wire_theme(self, self.recolour)

    def sizeHint(self) -> QSize:
        """The fixed size."""
        return QSize(SPACE.rail - 2 * SPACE.row, HEIGHT)

    def show_state(self, state: MemoryState) -> None:
        """Show one reading, if it reads differently from the last."""
        self.bar.show_state(state)
        if looks_same(self._state, state):
            return
        self._state = state
        total = f"of {gib(state.device_total)}" if state.device_total else "GiB held"
        self.words.show_words(gib_number(state.used), total)
        self._say()

    def show_needed(self, needed: int | None) -> None:
        """Mark what the next load would need; None removes the mark."""
        self._needed = needed
        self.bar.show_needed(needed)
        self._say()

    def show_problem(self, words: str) -> None:
        """Say why there is nothing to show."""
        self._state = None
        self.bar.show_state(MemoryState())
        self.words.show_words("", "")
        self.setToolTip(words)
        self.setAccessibleDescription(words)

    def recolour(self, _tokens: object) -> None:
        """Draw again in the theme's colours."""
        self.bar.update()
        self.words.update()

    def _say(self) -> None:
        if self._state is not None:
            self.setToolTip(split_words(self._state, self._needed))
            self.setAccessibleDescription(used_words(self._state))


class RailWords(QWidget):
    """Used over total, each as large as the rail's width allows.

    Attributes: used, total (the words).
    """

    def __init__(self) -> None:
        super().__init__()
        self.used, self.total = "", ""
        self.setFixedHeight(36)

    def show_words(self, used: str, total: str) -> None:
        """Show two lines."""
        self.used, self.total = used, total
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint both lines in the middle."""
        tokens = current().tokens
        painter = QPainter(self)
        half = self.height() // 2
        lines = ((self.used, 0, tokens.text, True), (self.total, half, tokens.text, False))
        for text, top, colour, is_strong in lines:
            painter.setFont(self._fitted(text, is_strong))
            painter.setPen(QColor(colour))
            area = QRect(0, top, self.width(), half)
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)
        painter.end()

    def _fitted(self, text: str, is_strong: bool) -> QFont:
        font = interface_font(TYPE.small if is_strong else TYPE.small - 0.5, semibold=is_strong)
        width = QFontMetricsF(font).horizontalAdvance(text)
        if width > self.width() - 2:
            font.setPointSizeF(font.pointSizeF() * (self.width() - 2) / width)
        return font


class Popover(QFrame):
    """The panel beside the rail, above everything; Esc or a click elsewhere closes it."""

    def __init__(self, panel: MemoryPanel, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("memory_popover")
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
        self.panel = panel
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(panel)

    def open_beside(self, anchor: QWidget) -> None:
        """Show it to the right of ``anchor``, its foot level with the anchor's, on the screen."""
        self.adjustSize()
        corner = anchor.mapToGlobal(QPoint(anchor.width() + SPACE.inner, anchor.height()))
        top = corner.y() - self.height()
        screen = anchor.screen().availableGeometry()
        left = min(corner.x(), screen.right() - self.width())
        self.move(left, max(screen.top(), min(top, screen.bottom() - self.height())))
        self.show()
        self.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Close on Esc."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()
            return
        super().keyPressEvent(event)
