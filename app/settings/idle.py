"""Frees the GPU after a rest, if the person wants that."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from app.memory.feed import MemoryFeed
from app.shell.engine import EngineClient
from app.storage.settings import Settings

SETTING = "idle_unload_minutes"
MINUTE_MS = 60_000


class IdleUnloader(QObject):
    """Unloads the model once the engine rested for the minutes of the settings (0: never).

    Signals: unloaded(minutes).
    """

    unloaded = Signal(int)

    def __init__(
        self, engine: EngineClient, settings: Settings, feed: MemoryFeed, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self._settings = settings
        self._feed = feed
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.unload)
        engine.busy_changed.connect(self._follow_work)
        settings.changed.connect(self._follow_setting)
        self.rest()

    @property
    def minutes(self) -> int:
        """After how many minutes; 0: never."""
        return max(0, int(self._settings.get(SETTING) or 0))

    def rest(self) -> None:
        """The engine rests from now on: count the minutes."""
        self._timer.stop()
        if self.minutes and not self._engine.busy:
            self._timer.start(self.minutes * MINUTE_MS)

    def unload(self) -> None:
        """Free what is loaded, if anything is."""
        if self._feed.state.weights and not self._engine.busy:
            self._engine.request("unload", None)
            self.unloaded.emit(self.minutes)

    def _follow_work(self, busy: bool) -> None:
        if busy:
            self._timer.stop()
        else:
            self.rest()

    def _follow_setting(self, key: str, _value: object) -> None:
        if key == SETTING:
            self.rest()
