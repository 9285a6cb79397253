"""How the window starts and ends: `run(argv) -> exit status`."""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.shell import early

if TYPE_CHECKING:
    from app.shell.page import AppContext
    from app.shell.window import Window

log = logging.getLogger(__name__)

RAISED = "Driftwood is open already; its window was brought to the front."
ALREADY_OPEN = (
    "Driftwood is open already, but its window does not answer. End that program before opening "
    "another window."
)
UNEXPECTED = (
    "Something went wrong that should not have. Your chats are safe; if the window misbehaves, "
    "close it and open it again."
)


def run(argv: Sequence[str] = ()) -> int:
    """Open the window and return when it is closed. `argv` holds what follows the program's name.

    Returns 0, 1 after a message on stderr when the window cannot open, or 2 for wrong words.
    """
    from app.cli.arguments import UsageError, parse_window

    try:
        options = parse_window(list(argv))
    except UsageError as error:
        print(f"driftwood: {error}", file=sys.stderr)
        return 2
    problem = early.find_problem()
    if problem is not None:
        early.tell(problem)
        return 1
    return _run_window(options)


def _run_window(options: argparse.Namespace) -> int:
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication

    from app import theme
    from app.shell import logs, single
    from app.shell.places import find_places

    application = QApplication.instance() or QApplication(["driftwood"])
    assert isinstance(application, QApplication)
    _describe(application)
    places = find_places()
    _make_folder(places.data)
    door = single.server_name(places.lock_file)
    lock = single.claim(places.lock_file)
    if lock is None and single.raise_other(door):
        print(RAISED, file=sys.stderr)
        return 0
    log_problem = logs.start_logging(places.log_file, verbose=options.verbose)
    logs.log_qt_messages()
    theme.install(application)
    catcher = logs.ErrorCatcher()
    catcher.install()

    if lock is None:
        return _refuse_second()

    from app.shell.window import Window

    context = _make_context(options)
    window = Window(context)
    catcher.caught.connect(lambda details: context.messages.error(UNEXPECTED, details))
    _tell_problems(context, log_problem)
    window.show()
    QTimer.singleShot(0, window, context.engine.start)  # after the first painting
    single.Doorbell(door, window).rung.connect(lambda: single.bring_to_front(window))
    wakeup = _close_on_signals(window)
    status = application.exec()
    _close(context, window)
    wakeup.close()
    lock.unlock()
    return status


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:  # what has to be kept there says so itself
        log.error("%s: %s", folder, error)


def _refuse_second() -> int:
    from app.widgets.dialogs import ConfirmDialog

    print(ALREADY_OPEN, file=sys.stderr)
    dialog = ConfirmDialog(None, "Already open", ALREADY_OPEN, "OK")
    dialog.cancel_button.hide()
    dialog.exec()
    return 1


def _close_on_signals(window: Window) -> socket.socket:
    """Ctrl-C in a terminal and a polite kill close the window; returns what must be kept open.

    Python runs a signal's handler only when some of its code runs, so the signal's byte wakes Qt.
    """
    from PySide6.QtCore import QSocketNotifier

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    notifier = QSocketNotifier(ours.fileno(), QSocketNotifier.Type.Read, window)
    notifier.activated.connect(lambda *_: ours.recv(64))
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: window.close())
    return theirs


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
    engine = EngineClient(held=True)

    def startup_settings() -> dict[str, Any]:
        fields = {
            "backend": options.backend or settings.get("backend"),
            "device": options.device or settings.get("device"),
            "without": options.without or settings.get("without"),
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
