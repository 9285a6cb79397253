"""Writing for people and for scripts: answers to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, TextIO

_WIDTH: Final = 24  # cells of the bar
_REDRAW_SECONDS: Final = 0.1
_MENTION_SECONDS: Final = 3.0
PHASES: Final = {
    "reading": "Reading",
    "uploading": "Loading",
    "compiling": "Preparing",
    "testing": "Testing",
    "downloading": "Downloading",
    "checking": "Checking",
    "unpacking": "Unpacking",
    "copying": "Copying",
    "drawing": "Drawing",
    "decoding": "Finishing",
    "measuring": "Measuring",
}


class ProgressLine:
    """One line on stderr that is redrawn on a terminal; elsewhere a line every few seconds."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._drawn = 0  # characters on the live line
        self._last_time = 0.0 if self._live else time.monotonic()

    def show(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Tell how far it is."""
        share = min(done / total, 1.0) if total > 0 else 0.0
        now = time.monotonic()
        if self._live:
            if now - self._last_time >= _REDRAW_SECONDS or done == total:
                self._last_time = now
                self._draw(phase, share, note)
        elif now - self._last_time >= _MENTION_SECONDS:
            self._last_time = now
            line = f"{PHASES.get(phase, phase)} {share:.0%}  {note}".rstrip()
            print(line, file=self._stream, flush=True)

    def clear(self) -> None:
        """Take the live line away."""
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
            self._drawn = 0

    def _draw(self, phase: str, share: float, note: str) -> None:
        full = round(share * _WIDTH)
        bar = "#" * full + "." * (_WIDTH - full)
        text = f"{PHASES.get(phase, phase):<12} [{bar}] {share:4.0%}  {note}".rstrip()
        self._stream.write("\r" + text.ljust(self._drawn))
        self._stream.flush()
        self._drawn = max(self._drawn, len(text))


def say(text: str) -> None:
    """A line for the person, on stderr."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Mapping[str, Any]) -> None:
    """The one object of ``--json``, in ASCII so that every console can carry it."""
    print(json.dumps(value, allow_nan=False), flush=True)


def printable(text: str) -> str:
    """Without the control characters by which a text could command the terminal."""
    return "".join(char for char in text if char in "\n\t" or not _is_control(char))


def size_text(size: float) -> str:
    """Bytes in MiB or GiB."""
    if size < 2**29:
        return f"{size / 2**20:,.0f} MiB"
    return f"{size / 2**30:,.1f} GiB"


def time_text(seconds: float | None) -> str:
    """A time left, in words."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left"


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows with their columns aligned."""
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def report_lines(report: Mapping[str, Any], indent: str = "") -> list[str]:
    """A nested report as lines ``name: value``."""
    lines: list[str] = []
    for key, value in report.items():
        name = key.replace("_", " ")
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name}:")
            lines += report_lines(value, indent + "  ")
        elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
            lines.append(f"{indent}{name}:")
            for one in value:
                if isinstance(one, Mapping):
                    lines += [f"{indent}  -", *report_lines(one, indent + "    ")]
                else:
                    lines.append(f"{indent}  - {_value_text(one)}")
        else:
            lines.append(f"{indent}{name}: {_value_text(value)}")
    return lines


def _value_text(value: object) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value) or "none"
    return str(value)


def _is_control(char: str) -> bool:
    return ord(char) < 32 or 127 <= ord(char) < 160
