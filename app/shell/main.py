"""How the window starts and ends: `run(argv) -> exit status`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from app.shell import early

if TYPE_CHECKING:
    from app.shell.page import AppContext
    from app.shell.window import Window

log = logging.getLogger(__name__)

ALREADY_OPEN = "Driftwood is already open. Use that window, or close it before opening another."
UNEXPECTED = (
    "Something went wrong that should not have. Your chats are safe; if the window misbehaves, "
    "close it and open it again."
)


def run(argv: Sequence[str] = ()) -> int:
    """Open the window and return when it is closed. `argv` holds what follows the program's name.

    Returns 0, or 1 after a message on stderr when the window cannot open.
    """
    options = _options(argv)
    problem = early.find_problem()
    if problem is not None:
        early.tell(problem)
        return 1
    return _run_window(options)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="driftwood", description="Opens the window.")
    parser.add_argument("--verbose", action="store_true", help="log on stderr as well")
    parser.add_argument("--backend", default="", help="wgpu or dawn")
    parser.add_argument("--device", default="", help="part of the GPU's name")
    parser.add_argument("--without", default="", help="switches to leave off, with commas")
    return parser.parse_args(list(argv))


def _run_window(options: argparse.Namespace) -> int:
    from PySide6.QtCore import QLockFile, QTimer
    from PySide6.QtWidgets import QApplication

    from app import theme
    from app.shell import logs
    from app.shell.places import find_places
    from app.shell.window import Window
    from app.widgets.dialogs import ConfirmDialog

    application = QApplication.instance() or QApplication(["driftwood"])
    assert isinstance(application, QApplication)
    _describe(application)
    places = find_places()
    log_problem = logs.start_logging(places.log_file, verbose=options.verbose)
    logs.log_qt_messages()
    theme.install(application)
    catcher = logs.ErrorCatcher()
    catcher.install()

    try:
        places.data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        log.error("%s: %s", places.data, error)
    lock = QLockFile(str(places.lock_file))
    lock.setStaleLockTime(0)
    if not lock.tryLock(100) and lock.error() == QLockFile.LockError.LockFailedError:
        print(ALREADY_OPEN, file=sys.stderr)
        dialog = ConfirmDialog(None, "Already open", ALREADY_OPEN, "OK")
        dialog.cancel_button.hide()
        dialog.exec()
        return 1

    context = _make_context(options)
    window = Window(context)
    catcher.caught.connect(lambda details: context.messages.error(UNEXPECTED, details))
    _tell_problems(context, log_problem)
    window.show()
    context.engine.start()
    # Ctrl-C in a terminal: Python only looks for it when some of its code runs.
    signal.signal(signal.SIGINT, lambda *_: window.close())
    wake = QTimer()
    wake.timeout.connect(lambda: None)
    wake.start(250)
    status = application.exec()
    _close(context, window)
    lock.unlock()
    return status


def _describe(application: Any) -> None:
    """Names and icon of the program, for the system."""
    from PySide6.QtGui import QIcon

    from app.theme.assets import asset

    application.setApplicationName("driftwood")
    application.setApplicationDisplayName("Driftwood")
    application.setDesktopFileName("driftwood")
    application.setWindowIcon(QIcon(str(asset("app", "driftwood.svg"))))


def _make_context(options: argparse.Namespace) -> AppContext:
    from app import theme
    from app.shell.engine import EngineClient
    from app.shell.page import AppContext
    from app.shell.places import find_places
    from app.storage.chats import ChatStore
    from app.storage.settings import Settings
    from app.widgets.messages import Messages

    places = find_places()
    settings = Settings(places.settings_file)
    theme.current().set_mode(str(settings.get("theme")))
    settings.changed.connect(_follow_theme_setting)
    engine = EngineClient()

    def startup_settings() -> dict[str, Any]:
        without = [word for word in options.without.split(",") if word]
        fields = {
            "backend": options.backend or settings.get("backend"),
            "device": options.device or settings.get("device"),
            "without": without or settings.get("without"),
        }
        return {name: value for name, value in fields.items() if value}

    engine.startup_settings = startup_settings
    return AppContext(
        engine=engine,
        settings=settings,
        theme=theme.current(),
        messages=Messages(),
        storage=ChatStore(places.chats_file),
        places=places,
    )


def _follow_theme_setting(key: str, value: Any) -> None:
    from app import theme

    if key == "theme":
        theme.current().set_mode(str(value))


def _tell_problems(context: AppContext, log_problem: str) -> None:
    """Say what was found wrong with the files, once the window can show it."""
    if context.storage.problem:
        context.messages.dialog("About your chats", context.storage.problem)
    for text in (context.settings.problem, log_problem):
        if text:
            context.messages.toast(text, kind="warning", seconds=15)
    context.settings.failed.connect(lambda text: context.messages.error(text))


def _close(context: AppContext, window: Window) -> None:
    context.engine.close()
    context.storage.close()
    window.deleteLater()
