"""The worker's process: requests in on stdin, events out on stdout, a log file beside."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import signal
import sys
import threading
from typing import BinaryIO, Final

from engine.models.paths import home_paths
from engine.worker.protocol import (
    MAX_LINE,
    Event,
    ProtocolError,
    decode_request,
    encode_event,
    error_event,
)

log = logging.getLogger(__name__)
LOG_NAME: Final = "worker.log"
_LOG_BYTES: Final = 2**20
_LOG_FILES: Final = 3


class Output:
    """The real stdout, for events only. Safe for threads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, event: Event) -> None:
        """Write one event. If the parent has gone, so does the worker."""
        try:
            line = encode_event(event)
        except (ProtocolError, TypeError) as error:  # a fault of ours in the event's fields
            log.exception("an event could not be sent")
            line = encode_event(error_event(event.id, "internal", f"A fault in Driftwood: {error}"))
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except OSError:
                os._exit(0)  # nobody reads any more; the GPU is freed by the system


def take_stdout() -> BinaryIO:
    """Keep stdout for ourselves: what anything else prints goes to stderr from now on."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return own


def write_log() -> None:
    """Log to stderr, and to a file of limited size if it can be written."""
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    folder = home_paths().logs
    problem: OSError | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handlers.append(
            logging.handlers.RotatingFileHandler(
                folder / LOG_NAME, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8"
            )
        )
    except OSError as error:
        problem = error
    handlers[0].setLevel(logging.INFO if os.environ.get("DRIFTWOOD_VERBOSE") else logging.WARNING)
    line = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=line, handlers=handlers, force=True)
    if problem is not None:
        log.warning("no log file in %s: %s", folder, problem)


def serve(source: BinaryIO, output: Output) -> bool:
    """Answer requests until ``quit`` or the end; True if everything was given back in time."""
    from engine.models.shipped import shipped_models
    from engine.models.store import Store
    from engine.worker.backend import open_engine
    from engine.worker.model_room import download_model
    from engine.worker.server import Server

    store = Store(shipped=shipped_models())
    server = Server(output.send, store, open_engine, download_model)
    go_on = True
    while go_on and (line := source.readline(MAX_LINE)):
        if not line.strip():
            continue
        try:
            go_on = server.handle(decode_request(line))
        except ProtocolError as error:
            output.send(error_event(error.request_id, "usage", str(error)))
    return server.close()


def main() -> int:
    """Run the worker; the exit status."""
    with contextlib.suppress(ValueError):  # not on the main thread: whoever runs us handles it
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to act on
    output = Output(take_stdout())
    write_log()
    log.info("worker %d started", os.getpid())
    orderly = serve(os.fdopen(os.dup(0), "rb"), output)
    log.info("worker %d ends", os.getpid())
    logging.shutdown()
    if not orderly:
        os._exit(0)  # a thread is stuck in a driver or a socket
    return 0
