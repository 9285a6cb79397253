"""The download queue as plain data: what waits, what runs, what stopped and why. No Qt.

One download runs at a time, so that each is as fast as the line allows. The queue is written down
after every change of state, so that a restart offers what was not finished.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

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

    @property
    def running(self) -> Download | None:
        """The one that runs."""
        return next((item for item in self.items if item.status is Status.RUNNING), None)

    @property
    def next(self) -> Download | None:
        """The one to start now; None while one runs or none waits."""
        if self.running is not None:
            return None
        return next((item for item in self.items if item.status is Status.WAITING), None)


def headline(item: Download) -> str:
    """The upper line of a download's card: the speed, or where it stands."""
    if item.status is Status.PAUSED:
        return "Paused"
    if item.status is Status.FAILED:
        return "Stopped"
    if item.status is Status.WAITING:
        return "Waiting for the one before it"
    return PHASES.get(item.phase) or speed(item.rate) or "Starting"


def detail(item: Download) -> str:
    """The lower line: time left, or the reason it stopped."""
    if item.status is Status.FAILED:
        return item.problem
    if item.status is Status.PAUSED:
        return f"{size(item.done)} are kept; resume when you like" if item.done else ""
    if item.status is Status.RUNNING:
        return join_words(time_left(item.seconds_left))
    return ""


def amount(item: Download) -> str:
    """``1.4 of 2.4 GiB``."""
    return progress_pair(item.done, item.total)


def to_json(queue: Queue) -> str:
    """The queue as text for the disk."""
    rows = []
    for item in unfinished(queue).items:
        row = asdict(item)
        row["status"] = item.status.value
        rows.append({key: row[key] for key in ("name", "title", "total", "status", "done")})
    return json.dumps(rows)


def unfinished(queue: Queue) -> Queue:
    """What is worth keeping over a restart: copies of files start again from the file."""
    return Queue(tuple(item for item in queue.items if item.kind == "get"))


def from_json(text: str) -> Queue:
    """The queue after a restart: what ran or waited is paused until the person resumes it.

    Text that is not ours gives an empty queue: a lost list is no reason not to start.
    """
    try:
        rows = json.loads(text)
    except ValueError:
        return Queue()
    items = [_item(row) for row in rows] if isinstance(rows, Sequence) else []
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
