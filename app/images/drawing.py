"""Drawing: the queue is worked off, one order after the other, by asking the worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QImage

from app.chat.words import load_words
from app.images.decode import preview_from
from app.images.jobs import Job, Jobs, Live
from app.images.values import Values, order
from app.shell.engine import EngineClient
from engine.worker.protocol import Event

FAILED = "The picture could not be made."


class Drawing(QObject):
    """The queue at work.

    Attributes: jobs, live (of the running order), pace ("model width height" -> seconds a step).
    Signals: changed() after the queue changed; advanced(job, live); previewed(image);
    picture_made(path); warned(text); stopping(); emptied(made, problem) when nothing is left to
    do, with how many pictures came of it and the last sentence about what went wrong, or "".
    """

    changed = Signal()
    advanced = Signal(object, object)
    previewed = Signal(QImage)
    picture_made = Signal(object)
    warned = Signal(str)
    stopping = Signal()
    emptied = Signal(int, str)

    def __init__(self, engine: EngineClient, folder: Path) -> None:
        super().__init__()
        self._engine = engine
        self._folder = folder
        self._request = 0
        self.jobs = Jobs()
        self.live = Live()
        self.pace: dict[str, float] = {}
        self._made, self._problem = 0, ""

    def add(self, values: Values, model: str, title: str) -> Job:
        """Put an order in line; it starts at once if nothing else is drawn."""
        job = self.jobs.add(values, model, title)
        self._next()
        return job

    def remove(self, number: int) -> None:
        """Take an order out that waits or failed."""
        job = self.jobs.running
        if job is None or job.number != number:
            self.jobs.remove(number)
            self.changed.emit()

    def move_up(self, number: int) -> None:
        """Draw an order earlier."""
        self.jobs.move_up(number)
        self.changed.emit()

    def retry(self, number: int) -> None:
        """Try an order again that failed."""
        self.jobs.retry(number)
        self._next()

    def cancel(self) -> bool:
        """Stop what is drawn, within a step; False if nothing is."""
        if self.jobs.running is None:
            return False
        self._engine.stop(self._request)
        self.stopping.emit()
        return True

    def shut_down(self) -> None:
        """The program ends: hear nothing further."""
        self._engine.forget(self._request)

    def _next(self) -> None:
        job = self.jobs.start_next()
        if job is not None:
            self.live = Live(doing="Getting ready")
            self.previewed.emit(QImage())
            self._request = self._engine.request(
                "image",
                lambda event, number=job.number: self._hear(number, event),
                model=job.model,
                settings=order(job.values, job.values.seed or 0),
                folder=str(self._folder),
                preview=True,
            )
            self.advanced.emit(job, self.live)
        self.changed.emit()
        if self.jobs.running is None and (self._made or self._problem):
            made, problem = self._made, self._problem
            self._made, self._problem = 0, ""
            self.emptied.emit(made, problem)

    def _hear(self, number: int, event: Event) -> None:
        job = self.jobs.find(number)
        if job is None:
            return
        match event.event:
            case "progress":
                words, fraction = load_words(event.fields)
                self._advance(job, Live(doing=words.split(",")[0], fraction=fraction))
            case "started":
                self._tell(event.get("warnings"))
                self._advance(job, Live())
            case "step":
                self._step(job, event)
            case "picture":
                self._made += 1
                self._advance(job, replace(self.live, made=self.live.made + 1))
                self.picture_made.emit(Path(str(event.get("path"))))
            case "done":
                self._finish(job, event)
            case "error":
                self._fail(job, event)

    def _step(self, job: Job, event: Event) -> None:
        left = event.get("seconds_left")
        live = replace(
            self.live,
            doing="",
            index=int(event.get("index") or 0),
            step=int(event.get("step") or 0),
            total=int(event.get("total") or 0),
            seconds_left=float(left) if isinstance(left, int | float) else None,
        )
        self._advance(job, live)
        preview = event.get("preview")
        if isinstance(preview, str):
            image = preview_from(preview)
            if not image.isNull():
                self.previewed.emit(image)

    def _advance(self, job: Job, live: Live) -> None:
        self.live = live
        self.advanced.emit(job, live)

    def _finish(self, job: Job, event: Event) -> None:
        self._tell(event.get("warnings"))
        pace = event.get("seconds_per_step")
        if isinstance(pace, int | float) and pace > 0:
            size = f"{job.values.width} {job.values.height}"
            self.pace[f"{job.model} {size}"] = float(pace)
        self.jobs.remove(job.number)
        self._next()

    def _fail(self, job: Job, event: Event) -> None:
        if event.get("code") == "cancelled":
            self.jobs.remove(job.number)
        else:
            self._problem = problem = str(event.get("message") or FAILED)
            self.jobs.fail(job.number, problem, str(event.get("details") or ""))
        self._next()

    def _tell(self, warnings: object) -> None:
        if isinstance(warnings, list):
            for text in warnings:
                self.warned.emit(str(text))
