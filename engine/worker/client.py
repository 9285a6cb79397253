"""The client's side of the worker: the conversation without I/O, and a child process for it.

:class:`Protocol` only turns requests into bytes and bytes into events, so that the command line
can run it over pipes (:class:`WorkerProcess`) and the window over a QProcess.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Self

from engine.worker.protocol import (
    MAX_LINE,
    ErrorCode,
    Event,
    ProtocolError,
    Request,
    decode_event,
    encode_request,
    error_event,
)

COMMAND_VARIABLE: Final = "DRIFTWOOD_WORKER_COMMAND"  # another worker, for tests
_KEPT_LINES: Final = 200  # of the worker's stderr, to explain a crash
_CHUNK: Final = 65536
_PATIENCE: Final = 0.5  # seconds


class WorkerError(Exception):
    """A request that ended in an error event; ``code`` and ``details`` are the event's."""

    def __init__(self, message: str, code: str = "internal", details: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


class Protocol:
    """The conversation with one worker, without any I/O. Not safe for threads: lock around it.

    ``open`` maps the id of every request that has not ended to its name.
    """

    def __init__(self) -> None:
        self.open: dict[int, str] = {}
        self._next_id = 1
        self._rest = bytearray()

    def request(self, do: str, **fields: Any) -> tuple[int, bytes]:
        """The new request's id and the line to send. Raises ProtocolError if it is not valid.

        The field ``continue`` is a word of Python: pass it as ``continue_`` or in a ``**dict``.
        """
        named = {name.rstrip("_"): value for name, value in fields.items()}
        request = Request(self._next_id, do, named)
        line = encode_request(request)
        self._next_id += 1
        self.open[request.id] = do
        return request.id, line

    def feed(self, data: bytes) -> list[Event]:
        """Take what came from the worker's stdout, return the events that are complete.

        Raises ProtocolError if the worker does not speak the protocol; then end it.
        """
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        if len(rest) > MAX_LINE:
            raise ProtocolError("The worker sent a line that does not end.")
        self._rest = rest
        events = [decode_event(bytes(line)) for line in lines if line.strip()]
        for event in events:
            if event.final:
                self.open.pop(event.id, None)
        return events

    def abort(
        self, message: str, details: str | None = None, code: ErrorCode = "internal"
    ) -> list[Event]:
        """An error event for every open request: call it when the worker has died."""
        events = [error_event(one, code, message, details) for one in self.open]
        self.open.clear()
        self._rest.clear()
        return events


def worker_command() -> list[str]:
    """Program and arguments that start the worker."""
    if override := os.environ.get(COMMAND_VARIABLE):
        return shlex.split(override, posix=os.name != "nt")
    if getattr(sys, "frozen", False):
        return [sys.executable, "--worker"]
    # -P: a folder "engine" in the working folder of the person must not be taken for ours
    return [sys.executable, "-P", "-m", "engine.worker"]


def worker_environment() -> dict[str, str]:
    """What the worker's environment needs in addition to ours (a checkout is not installed)."""
    root = Path(__file__).resolve().parents[2]
    if getattr(sys, "frozen", False) or {"site-packages", "dist-packages"} & set(root.parts):
        return {}
    others = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{root}{os.pathsep}{others}" if others else str(root)}


class WorkerProcess:
    """A worker as a child process. Safe for threads; each request is read by one thread.

    Use as a context manager, or call :meth:`close`.
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> None:
        """Start the worker. Raises WorkerError if the program cannot be started.

        ``on_stderr`` gets each line of its stderr, on a thread of ours.
        """
        self._on_stderr = on_stderr
        self._protocol = Protocol()
        self._lock = threading.Lock()
        self._queues: dict[int, queue.SimpleQueue[Event]] = {}
        self._stderr: deque[str] = deque(maxlen=_KEPT_LINES)
        self._dead: str | None = None
        self._process = _start(
            list(command or worker_command()),
            {**os.environ, **worker_environment(), **(environment or {})},
        )
        self._threads = [
            threading.Thread(target=self._read_events, name="worker events", daemon=True),
            threading.Thread(target=self._read_stderr, name="worker stderr", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once the worker has ended."""
        return self._process.poll() is None

    def stderr_tail(self) -> str:
        """The last lines the worker wrote on stderr."""
        return "\n".join(self._stderr)

    def send(self, do: str, **fields: Any) -> int:
        """Send a request and return its id; read its events with :meth:`events`.

        Raises ProtocolError if the request is not valid, WorkerError if the worker has ended.
        """
        with self._lock:
            if self._dead is not None:
                raise WorkerError(self._dead, details=self.stderr_tail())
            request_id, line = self._protocol.request(do, **fields)
            self._queues[request_id] = queue.SimpleQueue()
            # a broken pipe is told by the reader, which knows how the worker ended
            with contextlib.suppress(OSError):
                _stream(self._process.stdin).write(line)
                _stream(self._process.stdin).flush()
        return request_id

    def events(self, request_id: int) -> Iterator[Event]:
        """The events of a sent request, up to and with its ``done`` or ``error``."""
        waiting = self._queues[request_id]
        while True:
            try:
                # not for ever: on Windows a wait without an end is deaf to Ctrl-C
                event = waiting.get(timeout=_PATIENCE)
            except queue.Empty:
                continue
            if event.final:
                self._queues.pop(request_id, None)
            yield event
            if event.final:
                return

    def request(self, do: str, **fields: Any) -> Iterator[Event]:
        """Send a request and iterate over its events."""
        return self.events(self.send(do, **fields))

    def call(self, do: str, **fields: Any) -> Mapping[str, Any]:
        """Send a request, wait, return the fields of ``done``. Raises WorkerError."""
        fields_of_done: Mapping[str, Any] = {}
        for event in self.request(do, **fields):
            if event.event == "error":
                raise error_of(event)
            fields_of_done = event.fields
        return fields_of_done

    def stop(self, target: int) -> None:
        """Ask for a running request to end early; its own events tell when it has."""
        for _ in self.request("stop", target=target):
            continue

    def close(self, patience: float = 5.0) -> None:
        """Let the worker end by itself within ``patience`` seconds, else end it."""
        with contextlib.suppress(OSError):
            _stream(self._process.stdin).close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(patience)
        _stream(self._process.stdout).close()
        _stream(self._process.stderr).close()

    def _read_events(self) -> None:
        stdout = _stream(self._process.stdout)
        message: str | None = None
        while message is None and (data := _read_some(stdout)):
            try:
                with self._lock:
                    events = self._protocol.feed(data)
            except ProtocolError as error:
                message = f"The engine's process answered in a way that cannot be read. {error}"
                self._process.kill()
            else:
                self._deliver(events)
        status = self._process.wait()
        if len(self._threads) > 1:
            self._threads[1].join(1.0)  # its last words explain the end
        with self._lock:
            self._dead = message or _how_it_ended(status)
            events = self._protocol.abort(self._dead, self.stderr_tail() or None)
        self._deliver(events)

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            waiting = self._queues.get(event.id)
            if waiting is not None:
                waiting.put(event)

    def _read_stderr(self) -> None:
        for line in _stream(self._process.stderr):
            text = line.decode("utf-8", "replace").rstrip()
            self._stderr.append(text)
            if self._on_stderr is not None:
                self._on_stderr(text)


def error_of(event: Event) -> WorkerError:
    """The exception that stands for an error event."""
    return WorkerError(
        event.get("message", "The engine failed without saying why."),
        event.get("code", "internal"),
        event.get("details"),
    )


def _start(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches only us, and we stop the worker in an orderly way.
    on_windows = sys.platform == "win32"
    flags = 0x08000000 | 0x00000200 if on_windows else 0  # no console window, own process group
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=not on_windows,
            creationflags=flags,
        )
    except OSError as error:
        raise WorkerError(f"The engine's process could not be started: {error}.") from error


def _how_it_ended(status: int) -> str:
    if status == 0:
        return "The engine's process has ended."
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return f"The engine's process stopped unexpectedly ({how}). Start the request again to retry."


def _read_some(stream: IO[bytes]) -> bytes:
    """Whatever is there, at least one byte; empty at the end."""
    return os.read(stream.fileno(), _CHUNK)


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:  # cannot be: Popen was given three pipes
        raise WorkerError("The engine's process has no pipe.")
    return stream
