"""The download queue as plain data: what waits, what runs, what stopped and why. No Qt.

One download runs at a time, so that each is as fast as the line allows; a copy from the disk need
not wait for it. The queue is written down, so that a restart offers what was not finished.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.memory.units import join_words, progress_pair, size, speed, time_left

PHASES = {
    "checking": "Checking the file",
    "verifying": "Checking the file",
    "hashing": "Checking the file",
    "unpacking": "Unpacking",
}


class Status(enum.Enum):
    """Where a download stands."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(frozen=True)
class Download:
    """One entry of the queue."""

    name: str  # what model_get is asked for
    title: str
    total: int
    status: Status = Status.WAITING
    done: int = 0
    rate: float | None = None  # bytes a second
    seconds_left: float | None = None
    phase: str = ""
    problem: str = ""
    kind: str = "get"  # "get" from the network, or "copy" of a file of this computer

    @property
    def share(self) -> float:
        """How much is done, 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0


@dataclass(frozen=True)
class Queue:
    """The downloads in the order they were asked for. Every method gives a new queue."""

    items: tuple[Download, ...] = ()

    def find(self, name: str) -> Download | None:
        """The entry of this name."""
        return next((item for item in self.items if item.name == name), None)

    def add(self, name: str, title: str, total: int, kind: str = "get") -> Queue:
        """Ask for one more; one that is here already and does not run waits again."""
        old = self.find(name)
        if old is None:
            return Queue((*self.items, Download(name, title, total, kind=kind)))
        if old.status in (Status.WAITING, Status.RUNNING):
            return self
        return self.change(name, status=Status.WAITING, problem="")

    def change(self, name: str, **fields: object) -> Queue:
        """The queue with some fields of one entry replaced; unknown names change nothing."""
        return Queue(
            tuple(
                replace(item, **fields) if item.name == name else item  # type: ignore[arg-type]
                for item in self.items
            )
        )

    def progress(self, name: str, fields: Mapping[str, object]) -> Queue:
        """Note a progress event of the worker."""
        item = self.find(name)
        if item is None:
            return self
        return self.change(
            name,
            done=_whole(fields.get("done_bytes"), item.done),
            total=_whole(fields.get("total_bytes"), item.total) or item.total,
            rate=_real(fields.get("bytes_per_second")),
            seconds_left=_real(fields.get("seconds_left")),
            phase=str(fields.get("phase") or ""),
        )

    def start(self, name: str) -> Queue:
        """It runs now."""
        return self.change(name, status=Status.RUNNING, problem="", phase="")

    def pause(self, name: str) -> Queue:
        """It was paused by the person."""
        return self.change(name, status=Status.PAUSED, rate=None, seconds_left=None)

    def fail(self, name: str, problem: str) -> Queue:
        """It stopped by itself; ``problem`` is a sentence."""
        return self.change(
            name, status=Status.FAILED, problem=problem, rate=None, seconds_left=None
        )

    def remove(self, name: str) -> Queue:
        """It is finished or was cancelled."""
        return Queue(tuple(item for item in self.items if item.name != name))

    def next_of(self, kind: str) -> Download | None:
        """The one of a kind to start now; None while one of it runs or none waits."""
        same = [item for item in self.items if item.kind == kind]
        if any(item.status is Status.RUNNING for item in same):
            return None
        return next((item for item in same if item.status is Status.WAITING), None)


MOVING = (Status.WAITING, Status.RUNNING)


def headline(item: Download) -> str:
    """The upper line of a download's card: the speed, or where it stands."""
    if item.status is Status.PAUSED:
        return "Paused"
    if item.status is Status.FAILED:
        return "Stopped"
    if item.status is Status.WAITING:
        return "Waiting for the one before it"
    return PHASES.get(item.phase) or speed(item.rate) or "Connecting"


def detail(item: Download) -> str:
    """The lower line: time left, or the reason it stopped."""
    if item.status is Status.FAILED:
        return item.problem
    if item.status is Status.PAUSED:
        return f"{size(item.done)} are kept" if item.done else "nothing fetched yet"
    if item.status is Status.RUNNING:
        return join_words(time_left(item.seconds_left))
    return ""


def whole_words(item: Download) -> str:
    """Everything about a download on one line."""
    if item.status is Status.WAITING:
        return headline(item)
    if item.status is not Status.RUNNING:
        return join_words("Paused", f"{amount(item)} are here") if item.done else "Paused"
    if not item.phase:
        return "Connecting"
    return join_words(PHASES.get(item.phase, ""), amount(item), speed(item.rate), detail(item))


def amount(item: Download) -> str:
    """``1.4 of 2.4 GiB``."""
    return progress_pair(item.done, item.total)


def to_rows(queue: Queue) -> list[dict[str, object]]:
    """What is worth keeping over a restart, as plain values: copies begin again from their file."""
    return [
        {"name": item.name, "title": item.title, "total": item.total, "done": item.done}
        for item in queue.items
        if item.kind == "get"
    ]


def from_rows(rows: object) -> Queue:
    """The queue after a restart: what was not finished is paused until the person resumes it.

    Rows that are not ours are left out: a lost list is no reason not to start.
    """
    items = [_item(row) for row in rows] if isinstance(rows, list) else []
    return Queue(tuple(item for item in items if item is not None))


def _item(row: object) -> Download | None:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        return None
    name = str(row["name"])
    return Download(
        name,
        str(row.get("title") or name),
        _whole(row.get("total"), 0),
        Status.PAUSED,
        _whole(row.get("done"), 0),
    )


def _whole(value: object, otherwise: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    return max(0, int(value))


def _real(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
