"""A worker for the time of one command: requests with progress, Ctrl-C, and choosing a model."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from app.cli.console import ProgressLine, say, size_text, time_text
from engine.models.catalogue import STARTER
from engine.models.shipped import STARTER_PICTURES
from engine.worker.client import WorkerError, WorkerProcess, error_of
from engine.worker.protocol import Event

Handler = Callable[[Event], None]


class Interrupted(Exception):  # noqa: N818 - a decision of the person, not an error
    """Ctrl-C ended the request."""


@dataclass(frozen=True)
class Outcome:
    """How a request ended: the fields of ``done``, and whether Ctrl-C asked for the end."""

    fields: Mapping[str, Any]
    interrupted: bool


class Session:
    """The worker of one command; use as a context manager. ``verbose`` repeats the worker's log."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.verbose: bool = options.verbose
        self.progress = ProgressLine()
        self._settings = {
            "backend": options.backend,
            "device": options.device,
            "without": options.without or None,
        }
        self._worker = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.clear()
        self._worker.close()

    def run(self, do: str, handlers: Mapping[str, Handler] | None = None, **fields: Any) -> Outcome:
        """Send a request and handle its events; progress is shown by itself.

        Raises WorkerError if it ends in an error, Interrupted if Ctrl-C ended it without a result.
        """
        known = {"progress": self._show_progress, **(handlers or {})}
        request_id = self._worker.send(do, **fields)
        with _stopped_by_ctrl_c(self._worker, request_id) as pressed:
            last = self._follow(request_id, known)
        self.progress.clear()
        if last.event == "error":
            if pressed.is_set() and last["code"] == "cancelled":
                raise Interrupted
            raise error_of(last)
        return Outcome(last.fields, pressed.is_set())

    def restart_if_dead(self) -> None:
        """Start another worker in place of one that has ended."""
        if not self._worker.alive:
            self._worker.close()
            self._worker = self._start()

    def choose_model(self, wanted: str | None) -> str:
        """The model to use: the wanted one, the only one, or the starter, downloaded if need be."""
        if wanted:
            return wanted
        models = self.run("models_list").fields["models"]
        names = [one["name"] for one in models if one["kind"] == "text" and not one["problem"]]
        if not names:
            say(
                f"No model is installed. Getting the starter, {STARTER.title} "
                f"({size_text(STARTER.bytes)}, {STARTER.licence})."
            )
            self.run("model_get", name=STARTER.name)
            return STARTER.name
        if len(names) == 1 or STARTER.name not in names:
            if len(names) > 1:
                say(f"Using {names[0]}; choose another with --model.")
            return names[0]
        return STARTER.name

    def choose_image_model(self, wanted: str | None) -> str:
        """The picture model to use: the wanted one, the one that came along, or the first."""
        if wanted:
            path = Path(wanted).expanduser()
            return str(path.absolute()) if path.exists() else wanted  # not the worker's folder
        models = self.run("models_list").fields["models"]
        names = [one["name"] for one in models if one["kind"] == "image" and not one["problem"]]
        if not names:
            raise WorkerError(
                "No picture model is installed. Add one: driftwood models add PATH, with a "
                ".safetensors checkpoint or a diffusers folder.",
                "not_found",
            )
        return STARTER_PICTURES if STARTER_PICTURES in names else names[0]

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(
            environment={"DRIFTWOOD_VERBOSE": "1"} if self.verbose else None,
            on_stderr=say if self.verbose else None,
        )
        try:
            if any(self._settings.values()):
                worker.call("settings", **self._settings)
        except WorkerError:
            worker.close()
            raise
        return worker

    def _follow(self, request_id: int, handlers: Mapping[str, Handler]) -> Event:
        """Handle every event; the last one is returned."""
        for event in self._worker.events(request_id):
            if event.final:
                return event
            if event.event not in ("progress", "step"):  # which draw over the line themselves
                self.progress.clear()
            if handler := handlers.get(event.event):
                handler(event)
        raise WorkerError("The engine's process did not finish its answer.")

    def _show_progress(self, event: Event) -> None:
        phase = event.get("phase", "")
        if "total_bytes" in event.fields:
            rate = f"{event['bytes_per_second'] / 1e6:,.1f} MB/s"
            note = f"{size_text(event['total_bytes'])}  {rate}  {time_text(event['seconds_left'])}"
            self.progress.show(phase, event["done_bytes"], event["total_bytes"], note)
        else:
            self.progress.show(phase, event.get("done", 0), event.get("total", 0))


@contextlib.contextmanager
def _stopped_by_ctrl_c(worker: WorkerProcess, target: int) -> Generator[threading.Event]:
    """The first Ctrl-C stops the request in an orderly way; the second raises KeyboardInterrupt."""
    pressed = threading.Event()

    def on_ctrl_c(_number: int, _frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        # on a thread: the main thread may be in the middle of sending a line
        threading.Thread(target=_stop_quietly, args=(worker, target), daemon=True).start()

    if threading.current_thread() is not threading.main_thread():
        yield pressed  # only the main thread hears signals
        return
    before = signal.signal(signal.SIGINT, on_ctrl_c)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _stop_quietly(worker: WorkerProcess, target: int) -> None:
    with contextlib.suppress(WorkerError):  # a worker that has ended needs no stopping
        worker.stop(target)


def stdin_is_terminal() -> bool:
    """True if a person types."""
    return bool(sys.stdin) and sys.stdin.isatty()
