"""A server with an engine that is played, and a client's view of its events."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.gpu.errors import NoAdapterError
from engine.models.catalogue import CatalogueEntry
from engine.models.errors import CancelledError
from engine.models.inspection import InstalledModel
from engine.models.store import Store
from engine.models.transfer import Progress
from engine.worker.backend import NO_MEMORY, EngineSettings, OpenPictures, open_pictures
from engine.worker.protocol import Event, Request, check_request
from engine.worker.server import Server

WAIT = 5.0  # seconds; nothing here takes long unless it is stuck


class FakeEngine:
    """Says the words of the last message back, one a token.

    ``gate`` holds every token back while it is cleared; ``failure`` is raised by the next chat.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.free = 10**12
        self.calls: list[str] = []

    def load(
        self, path: Path, context: int, progress: Callable[..., None], cancelled: Callable[[], bool]
    ) -> Mapping[str, Any]:
        self.calls.append(f"load {path.stem} {context}")
        progress("uploading", 1, 2)
        while not self.gate.wait(0.01):
            if cancelled():
                raise CancelledError("Stopped.")
        return {"context": context, "context_max": 512, "device": "Fake", "backend": "Fake"}

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: object,
        continue_last: bool,
        on_started: Callable[[Mapping[str, Any]], None],
        on_prefill: Callable[[int, int], None],
        on_text: Callable[[str, int, int], None],
        cancelled: Callable[[], bool],
    ) -> Mapping[str, Any]:
        self.calls.append(f"chat {sampling} {continue_last}")
        return self._say(messages[-1]["content"], on_started, on_prefill, on_text, cancelled)

    def complete(
        self,
        prompt: str,
        sampling: object,
        on_started: Callable[[Mapping[str, Any]], None],
        on_prefill: Callable[[int, int], None],
        on_text: Callable[[str, int, int], None],
        cancelled: Callable[[], bool],
    ) -> Mapping[str, Any]:
        self.calls.append("complete")
        return self._say(prompt, on_started, on_prefill, on_text, cancelled)

    def _say(self, text: str, started: Any, prefill: Any, send: Any, cancelled: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        started({"prompt_tokens": 3, "reused_tokens": 0, "dropped": []})
        prefill(3, 3)
        said: list[str] = []
        for word in text.split():
            while not self.gate.wait(0.01):
                if cancelled():
                    return {"stop_reason": "stopped", "text": " ".join(said)}
            said.append(word)
            send(word, len(said), 3 + len(said))
        return {"stop_reason": "end", "text": " ".join(said)}

    def memory(self) -> Mapping[str, Any]:
        return {**NO_MEMORY, "device_total": self.free, "device_used": 0, "device_name": "Fake"}

    def doctor(self) -> Mapping[str, Any]:
        return {"device": "Fake", "problems": []}

    def bench(self, kind: str, **options: Any) -> Mapping[str, Any]:
        options.pop("progress")("measuring", 1, 1)
        return {"kind": kind, "cancelled": options.pop("cancelled")(), **options}

    def unload(self) -> None:
        self.calls.append("unload")

    def close(self) -> None:
        self.calls.append("close")


class Bench:
    """Send requests, wait for their events. ``engines`` are those that were opened."""

    def __init__(
        self,
        folder: Path,
        kind: type[FakeEngine] = FakeEngine,
        pictures: OpenPictures = open_pictures,
    ) -> None:
        self.engines: list[FakeEngine] = []
        self._kind = kind
        self.no_gpu = False
        self.download_gate = threading.Event()
        self._queues: dict[int, queue.SimpleQueue[Event]] = {}
        self._next = 0
        self.server = Server(self._receive, Store(folder), self._open, self._download, pictures)

    @property
    def engine(self) -> FakeEngine:
        return self.engines[-1]

    def send(self, do: str, **fields: Any) -> int:
        """Send a request, return its id."""
        self._next += 1
        named = {name.rstrip("_"): value for name, value in fields.items()}
        request = Request(self._next, do, named)
        check_request(request)
        self._queues[request.id] = queue.SimpleQueue()
        self.server.handle(request)
        return request.id

    def next(self, request_id: int) -> Event:
        """The next event of a request."""
        return self._queues[request_id].get(timeout=WAIT)

    def until(self, request_id: int, name: str) -> Event:
        """The next event of this name."""
        while (event := self.next(request_id)).event != name:
            assert not event.final, event
        return event

    def end(self, request_id: int) -> Event:
        """The last event of a request."""
        while not (event := self.next(request_id)).final:
            continue
        return event

    def ask(self, do: str, **fields: Any) -> Event:
        """Send a request and wait for its end."""
        return self.end(self.send(do, **fields))

    def chat(self, text: str, **fields: Any) -> int:
        """Send a chat of one message."""
        known = {"model": "tiny", "messages": [{"role": "user", "content": text}], **fields}
        return self.send("chat", **known)

    def close(self) -> None:
        """End the server; it must end in time."""
        for engine in self.engines:
            engine.gate.set()
        self.download_gate.set()
        assert self.server.close()

    def _receive(self, event: Event) -> None:
        self._queues[event.id].put(event)

    def _open(self, settings: EngineSettings) -> FakeEngine:
        if self.no_gpu:
            raise NoAdapterError("No usable GPU was found.")
        self.engines.append(self._kind(settings))
        return self.engines[-1]

    def _download(
        self,
        entry: CatalogueEntry,
        store: Store,
        report: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> InstalledModel:
        report(Progress(1, 2, 3.0, None, "downloading"))
        while not self.download_gate.wait(0.01):
            if cancelled():
                raise CancelledError("Stopped.")
        return store.find("tiny")
