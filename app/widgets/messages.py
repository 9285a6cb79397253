"""The one place for messages to the person: toasts, error toasts and error dialogs.

What goes wrong is also written to the log; technical details are never shown as the message itself
but can be copied.
"""

from __future__ import annotations

import logging
import platform
import time

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.widgets.buttons import quiet_button
from app.widgets.dialogs import ConfirmDialog
from app.widgets.toasts import Action, ToastHost
from engine.worker.version import engine_version

__all__ = ["Action", "Messages"]

log = logging.getLogger(__name__)


class Messages(QObject):
    """Tells the person things.

    Attributes: host (the ToastHost, once a window is attached).
    Signals: told(kind, text) for every message, with kind "info", "warning" or "error".
    """

    told = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._window: QWidget | None = None
        self.host: ToastHost | None = None

    def attach(self, window: QWidget) -> None:
        """Show messages in this window from now on."""
        self._window = window
        self.host = ToastHost(window)

    def toast(
        self, text: str, action: Action | None = None, *, kind: str = "info", seconds: float = 5.0
    ) -> None:
        """Say something that needs no answer; an action such as Undo may be offered."""
        if kind != "info":  # what goes well may name a chat, which is nobody's business
            log.warning("%s", text)
        actions = () if action is None else (action,)
        self._show(text, kind, actions, seconds)

    def error(
        self,
        text: str,
        details: str | None = None,
        action: Action | None = None,
        *,
        seconds: float = 15.0,
    ) -> None:
        """Say what went wrong and what to do next, with "Copy details" where there are any."""
        log.error("%s%s", text, f"\n{details}" if details else "")
        actions = [action] if action is not None else []
        if details:
            actions.append(Action("Copy details", lambda: copy_details(text, details)))
        self._show(text, "error", tuple(actions), seconds)

    def dialog(
        self, title: str, text: str, details: str | None = None, action: Action | None = None
    ) -> ConfirmDialog:
        """An error that the person must see before going on; returns the open dialog."""
        log.error("%s: %s%s", title, text, f"\n{details}" if details else "")
        words = action.text if action else "OK"
        dialog = ConfirmDialog(self._window, title, text, words, cancel="Close")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.cancel_button.setVisible(action is not None)
        if action is not None:
            dialog.accepted.connect(action.run)
        if details:
            dialog.show_details(details)
            copy = quiet_button("Copy details", "copy_details", "copy")
            copy.clicked.connect(lambda: copy_details(text, details))
            dialog.add_button(copy)
        dialog.open()
        self.told.emit("error", text)
        return dialog

    def _show(self, text: str, kind: str, actions: tuple[Action, ...], seconds: float) -> None:
        if self.host is not None:
            self.host.show_toast(text, kind=kind, actions=actions, seconds=seconds)
        self.told.emit(kind, text)


def details_text(text: str, details: str) -> str:
    """What "Copy details" copies: the message, where and when, and the technical part."""
    python = f"Python {platform.python_version()}"
    where = ", ".join((f"Driftwood {engine_version()}", python, platform.platform()))
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}\n\n{now}\n{where}\n\n{details}\n"


def copy_details(text: str, details: str) -> None:
    """Put a message with its details on the clipboard."""
    QGuiApplication.clipboard().setText(details_text(text, details))
