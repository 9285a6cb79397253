"""The meter at the foot of the rail: always there, one click from the whole panel."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QGraphicsDropShadowEffect,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

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
    """The panel beside the rail, over the page; Esc or a click elsewhere closes it.

    It is a part of the window and no window of its own: a desktop without a compositor would show
    its round corners black.
    """

    def __init__(self, panel: MemoryPanel, anchor: QWidget) -> None:
        super().__init__(anchor.window())
        self.setObjectName("memory_popover")
        self.panel = panel
        self._anchor = anchor
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(panel)
        shadow = QGraphicsDropShadowEffect(self)
        shadow.setBlurRadius(32)
        shadow.setOffset(0, 4)
        shadow.setColor(QColor(0, 0, 0, 70))
        self.setGraphicsEffect(shadow)
        self.hide()

    def toggle(self) -> None:
        """Open it beside the meter, or close it."""
        if self.isVisible():
            self.close_now()
            return
        self.place()
        self.show()
        self.raise_()
        application = QApplication.instance()
        if application is not None:
            application.installEventFilter(self)
        self.setFocus(Qt.FocusReason.PopupFocusReason)

    def close_now(self) -> None:
        """Take it away; the keyboard goes back to the meter if it was here."""
        application = QApplication.instance()
        if application is not None:
            application.removeEventFilter(self)
        had_focus = self.hasFocus()
        self.hide()
        if had_focus:
            self._anchor.setFocus(Qt.FocusReason.PopupFocusReason)

    def place(self) -> None:
        """To the right of the meter, its foot level with the meter's, within the window."""
        self.adjustSize()
        window = self._anchor.window()
        foot = QPoint(self._anchor.width() + SPACE.inner, self._anchor.height())
        corner = self._anchor.mapTo(window, foot)
        self.move(corner.x(), max(SPACE.row, corner.y() - self.height()))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the window's size; close on Esc, on another window and on a click elsewhere."""
        kind = event.type()
        if watched is self._anchor.window() and kind == QEvent.Type.Resize:
            self.place()
        elif watched is self._anchor.window() and kind == QEvent.Type.WindowDeactivate:
            self.close_now()
        elif kind == QEvent.Type.MouseButtonPress and isinstance(event, QMouseEvent):
            place = event.globalPosition().toPoint()
            if not _is_over(self, place) and not _is_over(self._anchor, place):
                self.close_now()
        elif isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
            if kind == QEvent.Type.ShortcutOverride:  # before the window's Esc stops an answer
                event.accept()
            elif kind == QEvent.Type.KeyPress:
                self.close_now()
                return True
        return super().eventFilter(watched, event)


def _is_over(widget: QWidget, place: QPoint) -> bool:
    return widget.rect().contains(widget.mapFromGlobal(place))
