"""The engine's process as the window sees it: requests go out, events come back as signals.

The bytes are engine.worker.client.Protocol's business; here is only the QProcess that carries
them, and what happens when it ends: every open request gets an `error` event, and the next start
waits longer after each early death.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import shiboken6
from PySide6.QtCore import QByteArray, QObject, QProcess, QProcessEnvironment, QTimer, Signal

from engine.worker.client import Protocol, worker_command, worker_environment
from engine.worker.protocol import Event, ProtocolError

log = logging.getLogger(__name__)
engine_log = logging.getLogger("engine.worker.stderr")

EventHandler = Callable[[Event], None]

BACKOFF_MS = (100, 500, 2_000, 5_000, 15_000)  # before the first, second, ... restart
LONG_LIFE_S = 20.0  # a worker that lived this long starts the backoff anew
STOPPED = "The engine stopped unexpectedly."
KEPT_LINES = 200  # of the worker's stderr, for "Copy details"


def _ignore(_event: Event) -> None:
    """For requests whose answer nobody reads."""


def _is_alive(handler: EventHandler) -> bool:
    """False for a method of a page or dialog that Qt has deleted since it asked."""
    owner = getattr(getattr(handler, "func", handler), "__self__", None)
    return not isinstance(owner, QObject) or shiboken6.isValid(owner)


class EngineClient(QObject):
    """The worker's process, restarted when it dies.

    Attributes: pid (0 while none runs), engine_version ("" until known), startup_settings (a
    function; the fields it returns are sent as a `settings` request to every new worker).
    Signals: worker_started() when a worker answered `hello`; worker_died(reason) when it ended
    though nobody asked; busy_changed(bool) when chat or load requests begin or end.
    """

    worker_started = Signal()
    worker_died = Signal(str)
    busy_changed = Signal(bool)

    def __init__(
        self,
        command: Sequence[str] | None = None,
        parent: QObject | None = None,
        *,
        held: bool = False,
    ) -> None:
        """``held``: requests wait for :meth:`start`, so that a window is painted first."""
        super().__init__(parent)
        self._held = held
        self._command = list(command) if command else worker_command()
        self._protocol = Protocol()
        self._handlers: dict[int, EventHandler] = {}
        self._work: set[int] = set()  # open requests that make the engine compute
        self._process: QProcess | None = None
        self._waiting: list[bytes] = []  # requests made while the next start is waited for
        self._stderr: deque[str] = deque(maxlen=KEPT_LINES)
        self._deaths = 0
        self._started_at = 0.0
        self._closing = False
        self._refused: str | None = None
        self.engine_version = ""
        self.startup_settings: Callable[[], Mapping[str, Any]] = dict
        self._retry = QTimer(self)
        self._retry.setSingleShot(True)
        self._retry.timeout.connect(self.start)

    @property
    def pid(self) -> int:
        """The process id of the worker, 0 while there is none."""
        return self._process.processId() if self._process is not None else 0

    @property
    def running(self) -> bool:
        """True while a worker's process exists."""
        return self._process is not None

    @property
    def early_deaths(self) -> int:
        """How often in a row a worker ended soon after its start."""
        return self._deaths

    @property
    def busy(self) -> bool:
        """True while the engine loads a model or answers."""
        return bool(self._work)

    def start(self) -> None:
        """Start the worker if none runs; called by itself on the first request."""
        if self._process is not None or self._closing:
            return
        self._held = False
        self._retry.stop()
        self._refused = None
        process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        for name, value in worker_environment().items():
            environment.insert(name, value)
        process.setProcessEnvironment(environment)
        process.readyReadStandardOutput.connect(self._read_events)
        process.readyReadStandardError.connect(self._read_stderr)
        process.finished.connect(self._finish)
        process.errorOccurred.connect(self._fail_to_start)
        self._process = process
        self._started_at = time.monotonic()
        process.start(self._command[0], self._command[1:])
        self.request("hello", self._greet)
        if settings := self.startup_settings():
            self.request("settings", self._hear_settings, **settings)
        for line in self._waiting:
            process.write(QByteArray(line))
        self._waiting.clear()

    def request(self, do: str, on_event: EventHandler | None = None, **fields: Any) -> int:
        """Send a request; `on_event` gets its events, the last being `done` or `error`.

        Returns the request's id. Fields are those of engine.worker.protocol; write `continue_`
        for `continue`. Raises ProtocolError if a field is wrong, which is a fault of the caller.
        """
        if self._process is None and not self._held and not self._retry.isActive():
            self.start()
        number, line = self._protocol.request(do, **fields)
        self._handlers[number] = on_event or _ignore
        if do in ("chat", "complete", "image", "load", "bench"):
            self._work.add(number)
            if len(self._work) == 1:
                self.busy_changed.emit(True)
        if self._process is not None:
            self._process.write(QByteArray(line))
        else:
            self._waiting.append(line)
        return number

    def stop(self, number: int) -> None:
        """Ask a running request to end; its own last event tells when it has."""
        if number in self._handlers and self._process is not None:
            self.request("stop", None, target=number)

    def forget(self, number: int) -> None:
        """Let nobody hear the further events of a request, e.g. because a page is closed."""
        if number in self._handlers:
            self._handlers[number] = _ignore

    def restart(self) -> None:
        """End the worker and start a new one at once, e.g. from a Retry button."""
        self._deaths = 0
        if self._process is None:
            self.start()
        else:
            self._process.kill()

    def stderr_tail(self) -> str:
        """The worker's last words, for "Copy details"."""
        return "\n".join(self._stderr)

    def close(self, patience_ms: int = 1500) -> None:
        """End the worker: closing its stdin is enough, killing it is the last resort."""
        self._closing = True
        self._retry.stop()
        process = self._process
        if process is None:
            return
        self._process = None
        process.finished.disconnect(self._finish)
        process.errorOccurred.disconnect(self._fail_to_start)
        process.closeWriteChannel()
        if process.state() != QProcess.ProcessState.NotRunning and not process.waitForFinished(
            patience_ms
        ):
            process.kill()
            process.waitForFinished(patience_ms)
        process.deleteLater()

    def _greet(self, event: Event) -> None:
        if event.event == "done":
            self.engine_version = str(event.get("engine_version", ""))
            self.worker_started.emit()

    def _hear_settings(self, event: Event) -> None:
        if event.event == "error":  # a hand-edited file; the worker goes on with its own choice
            log.warning("settings refused: %s", event.get("message"))

    def _read_events(self) -> None:
        if self._process is None:
            return
        data = bytes(self._process.readAllStandardOutput().data())
        try:
            events = self._protocol.feed(data)
        except ProtocolError as error:
            log.error("the worker's answer cannot be read: %s", error)
            self._refused = f"The engine answered in a way that cannot be read. {error}"
            self._process.kill()
            return
        self._deliver(events)

    def _read_stderr(self) -> None:
        if self._process is None:
            return
        text = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace")
        for line in text.splitlines():
            self._stderr.append(line)
            engine_log.info("%s", line)

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            handler = self._handlers.get(event.id)
            if event.final:
                self._handlers.pop(event.id, None)
                self._end_work(event.id)
            if handler is not None and _is_alive(handler):
                handler(event)

    def _end_work(self, number: int) -> None:
        if number in self._work:
            self._work.discard(number)
            if not self._work:
                self.busy_changed.emit(False)

    def _fail_to_start(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._lose(f"The engine could not be started: {self._command[0]} is missing.")

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read_events()
        self._read_stderr()
        crashed = status == QProcess.ExitStatus.CrashExit
        how = f"signal {code}" if crashed else f"exit status {code}"
        self._lose(self._refused or STOPPED, how)

    def _lose(self, reason: str, how: str = "") -> None:
        """The worker is gone: tell every open request, then start another one after a while.

        ``how`` it ended is for the log and for "Copy details".
        """
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()
        if time.monotonic() - self._started_at > LONG_LIFE_S:
            self._deaths = 0
        delay = BACKOFF_MS[min(self._deaths, len(BACKOFF_MS) - 1)]
        self._deaths += 1
        log.error("%s (%s) Restart in %d ms.", reason, how, delay)
        if not self._closing:
            self._retry.start(delay)
        self._waiting.clear()
        details = "\n".join(part for part in (how, self.stderr_tail()) if part)
        self._deliver(self._protocol.abort(reason, details or None))
        self.worker_died.emit(reason)
