"""One request on its way: it sends events, hears that it was stopped, and ends exactly once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from engine.models.transfer import Progress
from engine.worker.failures import code_of, event_of
from engine.worker.protocol import Event, Request, error_event

log = logging.getLogger(__name__)
Send = Callable[[Event], None]


class Job:
    """A request being worked on. Safe for threads.

    ``request`` is what was asked; ``started`` is False while it waits in a queue.
    """

    def __init__(self, request: Request, send: Send) -> None:
        self.request = request
        self.started = False
        self._send = send
        self._stopped = threading.Event()
        self._ended = False
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        """True after the last event."""
        return self._ended

    def cancelled(self) -> bool:
        """True once somebody asked to stop it."""
        return self._stopped.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep; True at once when stopped."""
        return self._stopped.wait(seconds)

    def begin(self) -> bool:
        """Leave the queue; False if it was stopped there."""
        with self._lock:
            self.started = True
            return not self._ended

    def stop(self) -> None:
        """Stop it: a job that still waits ends here, a running one ends itself."""
        self._stopped.set()
        with self._lock:
            if self.started or self._ended:
                return
            self._ended = True
        self._send(error_event(self.request.id, "cancelled", "Stopped before it began."))

    def send(self, event: str, **fields: Any) -> None:
        """Send an event that is not the last."""
        self._send(Event(self.request.id, event, fields))

    def done(self, **fields: Any) -> None:
        """End well."""
        self._end(Event(self.request.id, "done", fields))

    def fail(self, error: BaseException) -> None:
        """End in an error, and log it unless it was foreseen."""
        if code_of(error) is None:
            log.error("%s failed", self.request.do, exc_info=error)
        else:
            log.info("%s ended: %s", self.request.do, error)
        self._end(event_of(self.request.id, error))

    def transfer(self, progress: Progress) -> None:
        """Report how far a download or a copy is."""
        self.send(
            "progress",
            done_bytes=progress.done_bytes,
            total_bytes=progress.total_bytes,
            bytes_per_second=progress.bytes_per_second,
            seconds_left=progress.seconds_left,
            phase=progress.phase,
        )

    def phase(self, phase: str, done: int, total: int) -> None:
        """Report how far a load or a measurement is."""
        self.send("progress", phase=phase, done=done, total=total)

    def _end(self, event: Event) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._send(event)
