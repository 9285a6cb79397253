"""The log file, and what happens to errors that nobody caught."""

from __future__ import annotations

import faulthandler
import logging
import sys
import threading
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler

log = logging.getLogger(__name__)
qt_log = logging.getLogger("qt")

LOG_BYTES = 1_000_000  # a file; four old ones are kept
_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


def start_logging(path: Path, *, verbose: bool = False) -> str:
    """Log into a rotating file and, when verbose, on stderr. Returns a sentence if it cannot."""
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    shape = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    if verbose or not root.handlers:
        stream = logging.StreamHandler(sys.stderr) if sys.stderr else logging.NullHandler()
        stream.setLevel(logging.DEBUG if verbose else logging.ERROR)
        stream.setFormatter(shape)
        root.addHandler(stream)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=4, encoding="utf-8")
        # Left open on purpose: it must be writable in the moment of a crash.
        faulthandler.enable(path.with_name("crash.log").open("a", encoding="utf-8"))
    except OSError as error:
        return f"The log file {path} cannot be written: {error.strerror or error}."
    file.setFormatter(shape)
    root.addHandler(file)
    return ""


def log_qt_messages() -> None:
    """Send Qt's own warnings to the log."""

    def handle(kind: QtMsgType, _context: QMessageLogContext, text: str | None) -> None:
        qt_log.log(_LEVELS.get(kind, logging.INFO), "%s", text or "")

    qInstallMessageHandler(handle)


class ErrorCatcher(QObject):
    """Catches errors that nobody caught, on any thread.

    Signals: caught(details), delivered on the window's thread; the same error is told once.
    """

    caught = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def install(self) -> None:
        """Take over the interpreter's hooks."""
        sys.excepthook = self._handle
        threading.excepthook = lambda a: self._handle(a.exc_type, a.exc_value, a.exc_traceback)

    def _handle(
        self,
        kind: type[BaseException],
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error or kind(), trace)
            return
        details = "".join(traceback.format_exception(kind, error, trace))
        log.critical("not caught: %s", details)
        if details not in self._told:
            self._told.add(details)
            self.caught.emit(details)
