"""The queue of orders: one is drawn, the others wait in the order they were given. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from app.images.values import Values, pictures_words


class Status(StrEnum):
    """How an order stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(frozen=True)
class Job:
    """One order. values.seed is always a number here. problem and details: why it failed."""

    number: int
    values: Values
    model: str
    model_title: str = ""
    status: Status = Status.WAITING
    problem: str = ""
    details: str = ""


@dataclass(frozen=True)
class Live:
    """What is known of the order that is drawn.

    doing: words while a model is loaded, else "". index: which picture, from 0. made: finished
    pictures. seconds_left: of this picture, None while unknown.
    """

    doing: str = ""
    fraction: float | None = None
    index: int = 0
    step: int = 0
    total: int = 0
    seconds_left: float | None = None
    made: int = 0

    @property
    def share(self) -> float | None:
        """How far the picture is, 0 to 1; None while nobody knows."""
        if self.doing:
            return self.fraction
        return self.step / self.total if self.total else None


class Jobs:
    """The queue. Attributes: items, in order."""

    def __init__(self) -> None:
        self.items: tuple[Job, ...] = ()
        self._count = 0

    def add(self, values: Values, model: str, model_title: str = "") -> Job:
        """Put an order at the end."""
        self._count += 1
        job = Job(self._count, values, model, model_title)
        self.items = (*self.items, job)
        return job

    def find(self, number: int) -> Job | None:
        """An order by its number."""
        return next((one for one in self.items if one.number == number), None)

    @property
    def running(self) -> Job | None:
        """The order that is drawn."""
        return next((one for one in self.items if one.status is Status.RUNNING), None)

    @property
    def waiting(self) -> list[Job]:
        """Orders whose turn comes."""
        return [one for one in self.items if one.status is Status.WAITING]

    @property
    def failed(self) -> list[Job]:
        """Orders that went wrong and can be tried again."""
        return [one for one in self.items if one.status is Status.FAILED]

    def start_next(self) -> Job | None:
        """Take the next one, unless one is being drawn."""
        if self.running is not None or not self.waiting:
            return None
        return self._put(replace(self.waiting[0], status=Status.RUNNING))

    def remove(self, number: int) -> None:
        """Forget an order: it is done, or no longer wanted."""
        self.items = tuple(one for one in self.items if one.number != number)

    def fail(self, number: int, problem: str, details: str = "") -> None:
        """It went wrong; it is kept for another try."""
        job = self.find(number)
        if job is not None:
            self._put(replace(job, status=Status.FAILED, problem=problem, details=details))

    def retry(self, number: int) -> None:
        """Try it again, before what waits."""
        job = self.find(number)
        if job is None or job.status is not Status.FAILED:
            return
        again = replace(job, status=Status.WAITING, problem="", details="")
        others = [one for one in self.items if one.number != number]
        place = 1 if others and others[0].status is Status.RUNNING else 0
        self.items = (*others[:place], again, *others[place:])

    def move_up(self, number: int) -> None:
        """Let an order change places with the one before it, if that waits too."""
        items = list(self.items)
        for place, one in enumerate(items):
            before = items[place - 1] if place else None
            if one.number == number and before is not None and before.status is Status.WAITING:
                items[place - 1 : place + 1] = [one, before]
                break
        self.items = tuple(items)

    def _put(self, job: Job) -> Job:
        self.items = tuple(job if one.number == job.number else one for one in self.items)
        return job


def title_words(job: Job, live: Live) -> str:
    """``4 pictures, 2 done``: several may be drawn together, so no single one is named."""
    words = pictures_words(job.values.count)
    return f"{words}, {live.made} done" if live.made else words


def progress_words(live: Live) -> str:
    """``step 13 of 20 · 2 s left``."""
    if live.doing:
        share = f" {live.fraction:.0%}" if live.fraction is not None else ""
        return f"{live.doing}{share}"
    if not live.total:
        return "getting ready"
    step = f"step {live.step} of {live.total}"
    return f"{step} · {left_words(live.seconds_left)}" if live.seconds_left is not None else step


def left_words(seconds: float) -> str:
    """Seconds left, as people say them."""
    if seconds < 1:
        return "less than 1 s left"
    if seconds < 90:
        return f"{round(seconds)} s left"
    return f"{round(seconds / 60)} min left"


def order_words(job: Job) -> str:
    """A line about an order that waits: how many pictures of what."""
    return f"{pictures_words(job.values.count)} · {job.values.prompt.strip() or 'no prompt'}"


def draw_words(count: int, is_busy: bool) -> str:
    """The words on the button."""
    if is_busy:
        return "Add to the queue" if count == 1 else f"Add {count} pictures to the queue"
    return "Draw" if count == 1 else f"Draw {count} pictures"
