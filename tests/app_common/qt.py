"""Qt without sleep: wait on signals or conditions, find by objectName, fail on Qt's warnings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from PySide6.QtCore import (
    QCoreApplication,
    QElapsedTimer,
    QEvent,
    QEventLoop,
    QMessageLogContext,
    QObject,
    QPoint,
    QPointF,
    Qt,
    QTimer,
    QtMsgType,
    SignalInstance,
    qInstallMessageHandler,
)
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app import theme
from app.shell.engine import EngineClient
from app.shell.page import AppContext
from app.shell.places import Places
from app.storage.chats import ChatStore
from app.storage.settings import Settings
from app.widgets import Messages

FAKE_WORKER = Path(__file__).resolve().parents[1] / "fake_worker.py"
PATIENCE_MS = 10_000
HARMLESS = (  # what the offscreen platform cannot do
    "This plugin does not support propagateSizeHints",
    "This plugin does not support raise()",
    "This plugin does not support grabbing the keyboard",
)

W = TypeVar("W", bound=QObject)


def make_application() -> QApplication:
    """The process's QApplication with the light theme."""
    existing = QApplication.instance()
    app = existing if isinstance(existing, QApplication) else QApplication(["driftwood-tests"])
    theme.install(app, "light")
    return app


def fake_worker(*options: str) -> list[str]:
    """The command of the scripted worker (tests/fake_worker.py) with its options."""
    return [sys.executable, str(FAKE_WORKER), *options]


def make_context(home: Path, *options: str, command: list[str] | None = None) -> AppContext:
    """A context whose home is `home` and whose engine is the fake worker with `options`."""
    places = Places(*(home / part for part in ("models", "cache", "config", "data", "logs")))
    return AppContext(
        engine=EngineClient(command or fake_worker(*options)),
        settings=Settings(places.settings_file),
        theme=theme.current(),
        messages=Messages(),
        storage=ChatStore(places.chats_file),
        places=places,
    )


def close_context(context: AppContext) -> None:
    """End what a context holds."""
    context.engine.close()
    context.storage.close()


def wait_until(condition: Callable[[], Any], what: str = "", patience: int = PATIENCE_MS) -> None:
    """Run the event loop until `condition()` is true; fail the test when it never becomes so."""
    clock = QElapsedTimer()
    clock.start()
    wake = QTimer()
    wake.start(10)
    while not condition():
        if clock.elapsed() > patience:
            raise AssertionError(f"waited {patience} ms in vain {what}")
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 50)
        # without a running exec() nobody else deletes what asked to be deleted later
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def wait_signal(
    signal: SignalInstance, trigger: Callable[[], Any] | None = None, patience: int = PATIENCE_MS
) -> tuple[Any, ...]:
    """Run `trigger`, wait for the signal, return its arguments."""
    got: list[tuple[Any, ...]] = []

    def keep(*arguments: Any) -> None:
        got.append(arguments)

    signal.connect(keep)
    try:
        if trigger is not None:
            trigger()
        wait_until(lambda: got, f"for {signal}", patience)
    finally:
        signal.disconnect(keep)
    return got[0]


def find(parent: QWidget, name: str, kind: type[W] = QWidget) -> W:  # type: ignore[assignment]
    """The only visible-or-not child with this objectName; fails when there is none."""
    child = parent.findChild(kind, name)
    assert child is not None, f"no {kind.__name__} named {name!r} in {parent.objectName()!r}"
    return child


def click(parent: QWidget, name: str) -> None:
    """Click the named child as a mouse would."""
    QTest.mouseClick(find(parent, name), Qt.MouseButton.LeftButton)


def press(
    widget: QWidget, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    """Press and release a key in a widget."""
    QTest.keyClick(widget, key, modifiers)


def turn_wheel(widget: QWidget) -> None:
    """Turn the wheel over a widget by a notch, towards the person."""
    wheel = QWheelEvent(
        QPointF(5, 5),
        QPointF(5, 5),
        QPoint(0, 0),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, wheel)


def show(widget: QWidget, width: int = 1280, height: int = 800) -> None:
    """Show a widget at a size and let it lay itself out."""
    widget.resize(width, height)
    widget.show()
    QApplication.processEvents()


@contextmanager
def watch_warnings(app: QApplication) -> Iterator[None]:
    """Fail afterwards if Qt warned of anything; close and delete what the test left open."""
    seen: list[str] = []

    def keep(kind: QtMsgType, _context: QMessageLogContext, text: str | None) -> None:
        if kind != QtMsgType.QtDebugMsg and not any(h in (text or "") for h in HARMLESS):
            seen.append(text or "")

    previous = qInstallMessageHandler(keep)
    errors: list[BaseException] = []
    hook = sys.excepthook
    sys.excepthook = lambda _kind, error, _trace: errors.append(error)
    try:
        yield
        for window in app.topLevelWidgets():
            window.close()
            window.deleteLater()
        app.processEvents()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    finally:
        sys.excepthook = hook
        qInstallMessageHandler(previous)
    assert not seen, f"Qt warned: {seen}"
    if errors:
        raise errors[0]
