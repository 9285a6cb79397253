"""The jobs of dev.py: what they refuse, what they remember, and what they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jobs
import pytest

ROOT = Path(__file__).resolve().parents[2]


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run dev.py as a person without a screen would."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    command = [sys.executable, str(ROOT / "packaging" / "dev.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a screen")
def test_without_a_screen_the_window_is_refused_in_words() -> None:
    done = dev("run")
    assert done.returncode == 1
    assert "There is no screen" in done.stderr
    assert "dev.py run chat" in done.stderr


@pytest.mark.parametrize(("arguments", "status"), [((), 2), (("nonsense",), 2), (("--help",), 0)])
def test_without_a_job_the_jobs_are_listed(arguments: tuple[str, ...], status: int) -> None:
    done = dev(*arguments)
    assert done.returncode == status
    assert "dev.py run [ARGUMENTS]" in done.stderr


def test_jobs_without_arguments_refuse_them() -> None:
    done = dev("lock", "now")
    assert (done.returncode, done.stderr) == (1, "This job takes no arguments: now\n")


@pytest.mark.parametrize(
    ("arguments", "locks"),
    [
        ([], ["base"]),
        (["chat", "Hello"], ["base"]),
        (["chat", "Hello", "--backend", "dawn"], ["base", "dawn"]),
        (["doctor", "--backend=dawn"], ["base", "dawn"]),
    ],
)
def test_the_dawn_back_end_is_installed_when_asked_for(
    arguments: list[str], locks: list[str]
) -> None:
    assert jobs.locks_for(arguments) == locks


def test_a_model_that_was_fetched_is_remembered(tmp_path: Path) -> None:
    model, note = tmp_path / "model.gguf", tmp_path / "starter.json"
    model.write_bytes(b"12345")
    note.write_text(json.dumps({"path": str(model), "bytes": 5}))
    assert jobs.noted_model(note) == model


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"path": "/nowhere/model.gguf", "bytes": 5}', '{"path": 3}']
)
def test_a_note_that_no_longer_holds_is_not_believed(tmp_path: Path, text: str) -> None:
    (tmp_path / "starter.json").write_text(text)
    assert jobs.noted_model(tmp_path / "starter.json") is None


def test_a_model_cut_short_is_not_believed(tmp_path: Path) -> None:
    model, note = tmp_path / "model.gguf", tmp_path / "starter.json"
    model.write_bytes(b"123")
    note.write_text(json.dumps({"path": str(model), "bytes": 5}))
    assert jobs.noted_model(note) is None


def test_continuous_integration_runs_the_test_job() -> None:
    text = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "python3 packaging/dev.py test" in text
    assert os.access(ROOT / ".ci" / "run", os.X_OK) or sys.platform == "win32"
