"""Runs the queue: asks the worker for downloads and copies, one of each kind at a time."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.models import downloads
from app.models.downloads import Download, Queue
from app.shell.engine import EngineClient
from app.storage.settings import Settings
from engine.worker.protocol import Event

SETTING = "models.downloads"
NETWORK = "network.downloads"
ENDED = "The engine ended before this was finished."
NAME = "transfers"


class Transfers(QObject):
    """The queue in motion. The network is asked for nothing while the settings forbid it.

    Attributes: queue; quiet (names whose end another page tells by itself).
    Signals: changed() whenever the queue reads differently; finished(Download, model fields);
    failed(Download, sentence, details).
    """

    changed = Signal()
    finished = Signal(object, object)
    failed = Signal(object, str, str)

    def __init__(self, engine: EngineClient, settings: Settings, parent: QObject) -> None:
        super().__init__(parent)
        self.setObjectName(NAME)
        self.quiet: set[str] = set()
        self._engine = engine
        self._settings = settings
        self._requests: dict[str, int] = {}  # running entries and their requests
        self._wishes: dict[str, str] = {}  # "pause" or "cancel" of entries that are stopping
        self.queue = downloads.from_rows(settings.get(SETTING, []))
        settings.changed.connect(self._follow_setting)

    @property
    def allowed(self) -> bool:
        """Whether the person lets the program use the network for downloads."""
        return bool(self._settings.get(NETWORK))

    def get(self, name: str, title: str, total: int) -> None:
        """Ask for a model of the catalogue or the hub."""
        self._wishes.pop(name, None)
        self._become(self.queue.add(name, title, total))
        self._start_next()

    def copy(self, path: str, title: str) -> None:
        """Ask for a file of this computer to be copied into the models folder."""
        self._become(self.queue.add(path, title, 0, kind="copy"))
        self._start_next()

    def pause(self, name: str) -> None:
        """Stop it and keep what came."""
        self._end(name, "pause")

    def resume(self, name: str) -> None:
        """Go on, or try again."""
        item = self.queue.find(name)
        if item is not None and (item.kind == "copy" or self.allowed):
            self._become(self.queue.add(name, item.title, item.total, item.kind))
            self._start_next()

    def cancel(self, name: str) -> None:
        """Stop it, and delete what came."""
        self._end(name, "cancel")

    def _end(self, name: str, wish: str) -> None:
        request = self._requests.get(name)
        if request is None and wish == "pause":
            self._become(self.queue.pause(name))
            return
        if request is None:
            self._forget(name)
            return
        self._wishes[name] = wish
        self._engine.stop(request)

    def _forget(self, name: str) -> None:
        item = self.queue.find(name)
        if item is not None and item.kind == "get":
            self._engine.request("model_forget", None, name=name)
        self._become(self.queue.remove(name))

    def _start_next(self) -> None:
        for kind in ("copy", "get"):
            item = self.queue.next_of(kind)
            if item is None or (kind == "get" and not self.allowed):
                continue
            self._become(self.queue.start(item.name))
            name = item.name

            def hear(event: Event, name: str = name) -> None:
                self._hear(name, event)

            if kind == "copy":
                request = self._engine.request("model_add", hear, path=name, copy=True)
            else:
                request = self._engine.request("model_get", hear, name=name)
            self._requests[name] = request

    def _hear(self, name: str, event: Event) -> None:
        item = self.queue.find(name)
        if event.event == "progress":
            self.queue = self.queue.progress(name, event.fields)
            self.changed.emit()
        if not event.final or item is None:
            return
        self._requests.pop(name, None)
        wish = self._wishes.pop(name, "")
        if event.event == "done":
            self._become(self.queue.remove(name))
            self.finished.emit(item, event.get("model"))
        elif wish == "cancel":
            self._forget(name)
        elif wish == "pause":
            self._become(self.queue.pause(name))
        else:
            self._fail(item, event)
        self._start_next()

    def _fail(self, item: Download, event: Event) -> None:
        words = str(event.get("message") or ENDED)
        if item.kind == "copy":
            self._become(self.queue.remove(item.name))
        else:
            self._become(self.queue.fail(item.name, words))
        unforeseen = event.get("code") == "internal"
        self.failed.emit(item, words, str(event.get("details") or "") if unforeseen else "")

    def _follow_setting(self, key: str, value: object) -> None:
        if key != NETWORK:
            return
        if not value:
            for item in self.queue.items:
                if item.kind == "get" and item.status in downloads.MOVING:
                    self.pause(item.name)
        self.changed.emit()

    def _become(self, queue: Queue) -> None:
        """Take a new queue; what stands is written down, what only moves is not."""
        self.queue = queue
        self._settings.set(SETTING, downloads.to_rows(queue))
        self.changed.emit()


def transfers_of(engine: EngineClient, settings: Settings) -> Transfers:
    """The queue of this engine, made when first asked for; it lives as long as the engine."""
    found = engine.findChild(Transfers, NAME)
    return found if found is not None else Transfers(engine, settings, engine)
