"""One watch of the worker's memory for everyone who shows it."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, QTimer, Signal

from app.memory.model import History, MemoryState, memory_from
from app.shell.engine import EngineClient
from engine.worker.protocol import Event

INTERVAL_MS = 333
FIRST_MS = 400  # after the worker's start: first it tells which models there are
NAME = "memory_feed"


class MemoryFeed(QObject):
    """Watches the GPU's memory three times a second, again after every restart of the worker.

    Attributes: state (the last reading), history (the last minute), needed (bytes the next load
    would need, or None), problem (why there are no readings, "" while there are).
    Signals: state_changed(MemoryState), needed_changed(bytes or None), failed(sentence).
    """

    state_changed = Signal(object)
    needed_changed = Signal(object)
    failed = Signal(str)

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self.setObjectName(NAME)
        self.state = MemoryState()
        self.history = History()
        self.needed: int | None = None
        self.problem = ""
        self._engine = engine
        self._watch = 0
        self._first = QTimer(self)
        self._first.setSingleShot(True)
        self._first.setInterval(FIRST_MS)
        self._first.timeout.connect(self.start)
        engine.worker_started.connect(self._first.start)
        if engine.running:
            self.start()

    def start(self) -> None:
        """Begin to watch, unless that is so already."""
        if self._watch == 0:
            self._watch = self._engine.request("memory_watch", self._hear, interval_ms=INTERVAL_MS)

    def show_needed(self, needed: int | None) -> None:
        """Mark what the next load would need in every meter; None removes the mark."""
        if needed != self.needed:
            self.needed = needed
            self.needed_changed.emit(needed)

    def _hear(self, event: Event) -> None:
        memory = event.get("memory")
        if isinstance(memory, dict):
            self.problem = ""
            self.state = memory_from(memory)
            self.history.note(time.monotonic(), self.state)
            self.state_changed.emit(self.state)
        if event.final:
            self._watch = 0
        if event.event == "error":
            self.problem = str(event.get("message") or "The engine does not tell its memory.")
            self.failed.emit(self.problem)


def feed_of(engine: EngineClient) -> MemoryFeed:
    """The feed of this engine, made when first asked for; it lives as long as the engine."""
    found = engine.findChild(MemoryFeed, NAME)
    return found if found is not None else MemoryFeed(engine)
