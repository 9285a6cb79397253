"""The command line against the fake worker: ``drive("chat", "hi")`` -> exit status and outputs."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.main import main

FAKE = Path(__file__).parents[1] / "fake_worker.py"


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        return json.loads(self.out)


Drive = Callable[..., Ran]


class Pipe(io.StringIO):
    """A stdin that is no terminal."""


class Terminal(io.StringIO):
    """A stdin at which a person types."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Choose the fake worker's options."""

    def choose(*options: str) -> None:
        words = [sys.executable, str(FAKE), "--delay", "0.001", *options]
        monkeypatch.setenv("DRIFTWOOD_WORKER_COMMAND", shlex.join(words))

    monkeypatch.setenv("DRIFTWOOD_HOME", str(tmp_path / "home"))
    choose()
    return choose


@pytest.fixture
def drive(
    fake: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Drive:
    """Run a command in this process; ``stdin`` is what is piped, ``typed`` what a person types."""

    def run(*words: str, stdin: str = "", typed: list[str] | None = None) -> Ran:
        monkeypatch.setattr(sys, "stdin", Pipe(stdin) if typed is None else Terminal())
        lines = iter(typed or [])

        def read(mark: str = "") -> str:
            line = next(lines, None)
            if line is None:
                raise EOFError
            return line

        monkeypatch.setattr("builtins.input", read)
        status = main(words)
        out, err = capsys.readouterr()
        return Ran(status, out, err)

    return run
