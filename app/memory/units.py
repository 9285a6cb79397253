"""Numbers as people read them: sizes in GiB, counts in thin groups, time left in words. No Qt."""

from __future__ import annotations

import math

THIN = "\u202f"  # narrow no-break space: groups digits without letting a line break in between
KIB = 1024
MIB = 1024**2
GIB = 1024**3
MINUTE = 60
HOUR = 3600
DAY = 24 * HOUR


def count(number: int) -> str:
    """A whole number in groups of three; four digits stay together only below 1 000."""
    return f"{number:,}".replace(",", THIN)


def gib_number(nbytes: float) -> str:
    """Bytes as a bare number of GiB with one decimal; what is there never reads as 0.0."""
    if 0 < nbytes < 0.05 * GIB:
        return "<0.1"
    return f"{nbytes / GIB:.1f}"


def gib(nbytes: float) -> str:
    """Bytes of GPU memory with their unit: ``3.9 GiB``, and ``94 MiB`` below half a GiB."""
    if 0 < nbytes < GIB / 2:
        return f"{nbytes / MIB:.0f} MiB" if nbytes >= MIB else "<1 MiB"
    return f"{gib_number(nbytes)} GiB"


def size(nbytes: float) -> str:
    """Bytes of a file in the unit that suits them: ``94 MiB``, ``2.5 GiB``, ``512 bytes``."""
    if nbytes >= 1000 * GIB:
        return f"{nbytes / GIB / 1024:.1f} TiB"
    if nbytes >= 100 * GIB:
        return f"{nbytes / GIB:.0f} GiB"
    if nbytes >= 1000 * MIB:
        return f"{nbytes / GIB:.1f} GiB"
    if nbytes >= 10 * MIB:
        return f"{nbytes / MIB:.0f} MiB"
    if nbytes >= 1000 * KIB:
        return f"{nbytes / MIB:.1f} MiB"
    if nbytes >= KIB:
        return f"{nbytes / KIB:.0f} KiB"
    return "1 byte" if nbytes == 1 else f"{nbytes:.0f} bytes"


def exact_bytes(nbytes: int) -> str:
    """The size and the exact count behind it: ``94 MiB (98 362 432 bytes)``."""
    return f"{size(nbytes)} ({count(nbytes)} bytes)"


def progress_pair(done: int, total: int | None) -> str:
    """``1.4 of 2.4 GiB``: both in the unit of the total; only what is done if that is unknown."""
    if not total:
        return size(done)
    whole = size(total)
    number, unit = whole.rsplit(" ", 1)
    scale = {"TiB": 1024 * GIB, "GiB": GIB, "MiB": MIB, "KiB": KIB}.get(unit, 1)
    decimals = 1 if "." in number else 0
    return f"{min(done, total) / scale:.{decimals}f} of {whole}"


def speed(bytes_per_second: float | None) -> str:
    """Bytes a second as ``38 MiB/s``; nothing while it is not known."""
    if not bytes_per_second or not math.isfinite(bytes_per_second) or bytes_per_second < 0:
        return ""
    return f"{size(bytes_per_second)}/s"


def duration(seconds: float) -> str:
    """A span of time as people say it: ``27 seconds``, ``4 minutes``, ``1 hour 20 minutes``."""
    if seconds < 1:
        return "less than a second"
    if seconds < 1.5 * MINUTE:
        return _plural(round(seconds), "second")
    if seconds < HOUR - 30:
        return _plural(round(seconds / MINUTE), "minute")
    if seconds < DAY:
        hours, minutes = divmod(round(seconds / MINUTE), 60)
        tail = f" {_plural(minutes, 'minute')}" if minutes else ""
        return _plural(hours, "hour") + tail
    return "more than a day"


def time_left(seconds: float | None) -> str:
    """``27 seconds left``; nothing while it is not known."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return ""
    if seconds < 1:
        return "almost done"
    return f"{duration(seconds)} left"


def tokens(number: int) -> str:
    """A context length in short form: ``8k`` for round thousands of 1024, else the whole number."""
    if number >= 1024 and number % 1024 == 0:
        return f"{count(number // 1024)}k"
    return count(number)


def join_words(*parts: str) -> str:
    """The parts that say something, with a middle dot between."""
    return " · ".join(part for part in parts if part)


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
