from __future__ import annotations

import io

import pytest

from app.cli import console
from app.cli.console import ProgressLine, printable, report_lines, size_text, table, time_text


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(console.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_terminal_gets_one_line_that_goes_away(clock: Clock) -> None:
    screen = Screen()
    line = ProgressLine(screen)
    line.show("downloading", 1, 2, "94 MiB")
    clock.now += 0.01
    line.show("downloading", 1, 2, "too soon")
    line.clear()
    text = screen.getvalue()
    assert text.startswith("\rDownloading  [############............]  50%  94 MiB")
    assert "too soon" not in text
    assert text.endswith("\r")
    assert "\n" not in text


def test_a_file_gets_a_line_now_and_then(clock: Clock) -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    line.show("reading", 1, 2)
    clock.now += 4
    line.show("reading", 1, 2)
    line.show("reading", 2, 2)
    line.clear()
    assert stream.getvalue() == "Reading 50%\n"


def test_nothing_to_do_counts_as_nothing_done(clock: Clock) -> None:
    screen = Screen()
    ProgressLine(screen).show("reading", 0, 0)
    assert "0%" in screen.getvalue()


def test_a_text_cannot_command_the_terminal() -> None:
    assert printable("a\x1b[2Jb\x07\x9bc\td\ne\rf") == "a[2Jbc\td\nef"


@pytest.mark.parametrize(("size", "text"), [(2**20, "1 MiB"), (2**30, "1.0 GiB")])
def test_sizes_are_binary(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (5.2, "5 s left"), (600.0, "10 min left")]
)
def test_times_are_words(seconds: float | None, text: str) -> None:
    assert time_text(seconds) == text


def test_a_table_aligns_its_columns() -> None:
    assert table([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"
    assert table([]) == ""


def test_reports_are_lines_for_people() -> None:
    report = {
        "device": None,
        "ok": True,
        "limits": {"max_bytes": 4096},
        "problems": [],
        "parts": [{"a": 1.5}, "x"],
        "rate": 1234.5,
    }
    assert report_lines(report) == [
        "device: not known",
        "ok: yes",
        "limits:",
        "  max bytes: 4,096",
        "problems: none",
        "parts:",
        "  -",
        "    a: 1.5",
        "  - x",
        "rate: 1,234",
    ]
