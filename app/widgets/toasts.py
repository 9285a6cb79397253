"""Short messages that float at the bottom of the window and go by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEasingCurve, QEvent, QObject, QPropertyAnimation, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QEnterEvent
from PySide6.QtWidgets import (
    QFrame,
    QGraphicsDropShadowEffect,
    QHBoxLayout,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.theme import SPACE
from app.widgets.buttons import icon_button, quiet_button
from app.widgets.labels import IconLabel, label

MOST = 3  # toasts at once; an older one makes room


@dataclass(frozen=True)
class Action:
    """A button of a message: its words and what it does."""

    text: str
    run: Callable[[], None]


class Toast(QFrame):
    """One message. It waits while the pointer is over it or the focus is in it.

    Signals: closed() once it goes.
    """

    closed = Signal()

    def __init__(
        self, parent: QWidget, text: str, kind: str, actions: tuple[Action, ...], seconds: float
    ) -> None:
        super().__init__(parent)
        self.setProperty("kind", "toast")
        self.setObjectName("toast")
        self.setAccessibleName(text)
        row = QHBoxLayout(self)
        row.setContentsMargins(SPACE.group, SPACE.row, SPACE.row, SPACE.row)
        row.setSpacing(SPACE.row)
        if kind != "info":
            row.addWidget(IconLabel("warning", "bad" if kind == "error" else "warning", 18))
        self.text = label(text, "", "toast_text", wrap=True)
        self.text.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.text.setMinimumWidth(min(380, self.fontMetrics().horizontalAdvance(text) + 8))
        self.text.setMaximumWidth(460)
        row.addWidget(self.text, 1)
        for action in actions:
            row.addWidget(self._action_button(action))
        close = icon_button("close", "toast_close", "Dismiss", size=14)
        close.clicked.connect(self.close_now)
        row.addWidget(close)
        shadow = QGraphicsDropShadowEffect(self)
        shadow.setBlurRadius(24)
        shadow.setOffset(0, 4)
        shadow.setColor(QColor(0, 0, 0, 60))
        self.setGraphicsEffect(shadow)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(round(seconds * 1000))
        self._timer.timeout.connect(self.close_now)
        self._timer.start()

    def _action_button(self, action: Action) -> QWidget:
        button = quiet_button(action.text, "toast_action")
        button.setProperty("strong", True)

        def run() -> None:
            self.close_now()
            action.run()

        button.clicked.connect(run)
        return button

    def close_now(self) -> None:
        """Go away; the host moves the others down."""
        self._timer.stop()
        self.hide()
        self.closed.emit()
        self.deleteLater()

    def enterEvent(self, event: QEnterEvent) -> None:
        self._timer.stop()
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._timer.start()
        super().leaveEvent(event)


class ToastHost(QWidget):
    """The column at the bottom of a window in which toasts appear; grows only as they need."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.setObjectName("toast_host")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(24, 12, 24, 20)
        self._column.setSpacing(SPACE.row)
        self._column.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom)
        self._slide = QPropertyAnimation(self, b"pos", self)
        self._slide.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._toasts: list[Toast] = []
        self._clearance: Callable[[], int] = int
        self._centre: Callable[[], int] | None = None
        window.installEventFilter(self)
        self.hide()

    def show_toast(
        self,
        text: str,
        *,
        kind: str = "info",
        actions: tuple[Action, ...] = (),
        seconds: float = 5.0,
    ) -> Toast:
        """Show a message; kind is "info", "warning" or "error"."""
        for same in [one for one in self._toasts if one.text.text() == text]:
            same.close_now()
        while len(self._toasts) >= MOST:
            self._toasts[0].close_now()
        toast = Toast(self, text, kind, actions, seconds)
        self._toasts.append(toast)
        toast.closed.connect(lambda: self._forget(toast))
        self._column.addWidget(toast, 0, Qt.AlignmentFlag.AlignHCenter)
        toast.show()
        self._place(slide=True)
        return toast

    def set_place(
        self, clearance: Callable[[], int], centre: Callable[[], int] | None = None
    ) -> None:
        """Keep this many pixels at the window's bottom free, such as a field one writes in.

        ``centre`` is where the toasts' middle is, in pixels; None: the middle of the pages.
        """
        self._clearance, self._centre = clearance, centre
        self._place(slide=False)

    def toasts(self) -> list[Toast]:
        """The messages that are on show, oldest first."""
        return list(self._toasts)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self._toasts:
            self._place(slide=False)
        return super().eventFilter(watched, event)

    def _forget(self, toast: Toast) -> None:
        if toast in self._toasts:
            self._toasts.remove(toast)
            self._column.removeWidget(toast)
        self._place(slide=False)

    def _place(self, *, slide: bool) -> None:
        if not self._toasts:
            self.hide()
            return
        window = self._window
        self._column.activate()
        self.adjustSize()
        middle = self._centre() if self._centre else (window.width() + SPACE.rail) // 2
        left = min(middle - self.width() // 2, window.width() - self.width())
        end = window.rect().bottomLeft()
        end.setX(max(0, left))
        end.setY(window.height() - self.height() - self._clearance())
        self.raise_()
        self.show()
        self._slide.stop()
        duration = theme.current().motion(160) if slide else 0
        if duration == 0:
            self.move(end)
            return
        start = end + type(end)(0, 16)
        self.move(start)
        self._slide.setDuration(duration)
        self._slide.setStartValue(start)
        self._slide.setEndValue(end)
        self._slide.start()
