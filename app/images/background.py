"""Work off the GUI thread: a function runs in a pool, its result comes back as a signal."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal

log = logging.getLogger(__name__)


class _Bridge(QObject):
    """Carries results to the thread it lives in. Signals: finished(number, result)."""

    finished = Signal(int, object)


class _Task(QRunnable):
    def __init__(self, bridge: _Bridge, number: int, work: Callable[[], Any]) -> None:
        super().__init__()
        self._bridge, self._number, self._work = bridge, number, work

    def run(self) -> None:
        try:
            result = self._work()
        except Exception as error:  # whatever it is, the asker is told instead of waiting for ever
            log.exception("work in the background failed")
            result = error
        try:
            self._bridge.finished.emit(self._number, result)
        except RuntimeError:
            log.debug("nobody waits for the result any more")


class Background(QObject):
    """A pool of ``threads``. Call :meth:`close` before the program ends."""

    def __init__(self, parent: QObject | None = None, threads: int = 1) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(threads)
        self._bridge = _Bridge(self)
        self._bridge.finished.connect(self._deliver)
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._count = 0

    def run(self, work: Callable[[], Any], then: Callable[[Any], None], priority: int = 0) -> int:
        """Run ``work`` in the pool, then ``then(result)`` here; an exception is the result."""
        self._count += 1
        self._waiting[self._count] = then
        self._pool.start(_Task(self._bridge, self._count, work), priority)
        return self._count

    @property
    def idle(self) -> bool:
        """True when no result is awaited."""
        return not self._waiting

    def close(self) -> None:
        """Drop what has not begun and wait for what has."""
        self._waiting.clear()
        self._pool.clear()
        self._pool.waitForDone(3000)

    def _deliver(self, number: int, result: Any) -> None:
        then = self._waiting.pop(number, None)
        if then is not None:
            then(result)
