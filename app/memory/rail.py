"""The meter at the foot of the rail: always there, one click from the whole panel."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QPushButton, QVBoxLayout, QWidget

from app.memory.model import MemoryState, looks_same, split_words, used_words
from app.memory.paint import StackBar
from app.memory.panel import MemoryPanel
from app.memory.units import gib, gib_number
from app.theme import SPACE
from app.widgets import label
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
        self.used = label("-", "strong", f"{object_name}_used")
        self.total = label("", "small", f"{object_name}_total")
        self.popover: Popover | None = None
        self._state: MemoryState | None = None
        self._needed: int | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, SPACE.row, 0, SPACE.row)
        column.setSpacing(0)
        for widget, gap in ((self.bar, SPACE.row), (self.used, 1), (self.total, 0)):
            widget.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            column.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
            column.addSpacing(gap)
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
        self.used.setText(gib_number(state.used))
        self.total.setText(f"of {gib(state.device_total)}" if state.device_total else "GiB held")
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
        self.used.setText("-")
        self.total.setText("")
        self.setToolTip(words)
        self.setAccessibleDescription(words)

    def recolour(self, _tokens: object) -> None:
        """Draw again in the theme's colours."""
        self.bar.update()

    def _say(self) -> None:
        if self._state is not None:
            self.setToolTip(split_words(self._state, self._needed))
            self.setAccessibleDescription(used_words(self._state))


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
