"""Moving many bytes with progress: the rate and the time left, copying, hashing, free space."""

from __future__ import annotations

import errno
import hashlib
import shutil
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from engine.models.errors import CancelledError, DiskFullError
from engine.models.fit import gib

CHUNK: Final = 2**20
_MARGIN: Final = 32 * 2**20  # bytes of the disk that are left alone
_REPORT_SECONDS: Final = 0.1
_WINDOW_SECONDS: Final = 3.0  # the rate is the mean over this long


@dataclass(frozen=True)
class Progress:
    """How far a transfer is. ``phase``: downloading, checking, unpacking or copying."""

    done_bytes: int
    total_bytes: int
    bytes_per_second: float
    seconds_left: float | None  # None: not known yet
    phase: str


Report = Callable[[Progress], None]
Cancelled = Callable[[], bool]


def ignore(progress: Progress) -> None:
    """A report that nobody reads."""


def never() -> bool:
    """Never cancelled."""
    return False


class Meter:
    """Turns a byte count into reports, at most ten a second, and stops when cancelled."""

    def __init__(
        self, phase: str, total: int, report: Report, cancelled: Cancelled, done: int = 0
    ) -> None:
        self.phase, self.total, self.done = phase, total, done
        self._report, self._cancelled = report, cancelled
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), done)])
        self._last_report = 0.0
        self._send(time.monotonic())

    def add(self, count: int) -> None:
        """Count bytes. Raises CancelledError."""
        self.move_to(self.done + count)

    def move_to(self, done: int) -> None:
        """Set the count, back to 0 too when a download starts over. Raises CancelledError."""
        if self._cancelled():
            raise CancelledError("Stopped.")
        now = time.monotonic()
        if done < self.done:
            self._marks.clear()
        self.done = done
        if now - self._last_report >= _REPORT_SECONDS or done == self.total:
            self._send(now)

    def _send(self, now: float) -> None:
        self._last_report = now
        self._marks.append((now, self.done))
        while len(self._marks) > 2 and now - self._marks[0][0] > _WINDOW_SECONDS:
            self._marks.popleft()
        began, at_first = self._marks[0]
        elapsed = now - began
        rate = (self.done - at_first) / elapsed if elapsed > 0 else 0.0
        left = (self.total - self.done) / rate if rate > 0 else None
        self._report(Progress(self.done, self.total, rate, left, self.phase))


def copy_stream(source: IO[bytes], target: IO[bytes], meter: Meter) -> str:
    """Copy to the end; returns the SHA-256 of what was copied. Raises DiskFullError."""
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK):
        digest.update(chunk)
        with explained_disk_full(meter.total - meter.done):
            target.write(chunk)
        meter.add(len(chunk))
    return digest.hexdigest()


def file_sha256(path: Path, report: Report = ignore, cancelled: Cancelled = never) -> str:
    """The SHA-256 of a file in hexadecimal."""
    meter = Meter("checking", path.stat().st_size, report, cancelled)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            meter.add(len(chunk))
    return digest.hexdigest()


def require_space(folder: Path, needed: int) -> None:
    """Raise DiskFullError unless ``needed`` more bytes fit on the folder's disk."""
    free = shutil.disk_usage(folder).free
    if needed + _MARGIN > free:
        missing = needed + _MARGIN - free
        raise DiskFullError(
            f"This needs {gib(needed)} on the disk of {folder} and {gib(free)} are free. "
            f"Free {gib(missing)}, or move the models folder to another disk."
        )


@contextmanager
def explained_disk_full(missing: int) -> Generator[None]:
    """Turn the system's "no space left" into a sentence; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFullError(
            f"The disk is full: about {gib(max(missing, 0))} are still missing. "
            "Free some space and try again; what is here already is kept."
        ) from error
