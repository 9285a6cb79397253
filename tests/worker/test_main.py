from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.worker.client import WorkerError, WorkerProcess
from engine.worker.main import Output
from engine.worker.protocol import Event

MakeModel = Callable[..., Path]
REAL = [sys.executable, "-P", "-m", "engine.worker"]
posix = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")


@pytest.fixture(autouse=True)
def no_pytest_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTWOOD_VERBOSE", raising=False)


def test_the_real_worker_answers_and_ends_with_its_stdin(home: Path, make_model: MakeModel) -> None:
    make_model("tiny")
    with WorkerProcess(REAL) as worker:
        hello = worker.call("hello")
        assert hello["pid"] == worker.pid
        assert worker.call("models_list")["models"][0]["name"] == "tiny"
        with pytest.raises(WorkerError) as caught:
            worker.call("load", model="nothing")
        assert caught.value.code == "not_found"
    log = (home / "logs" / "worker.log").read_text()
    assert f"worker {hello['pid']} ends" in log


def test_quit_ends_the_process(home: Path) -> None:
    with WorkerProcess(REAL) as worker:
        assert worker.call("quit") == {}
        deadline = time.monotonic() + 5
        while worker.alive and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not worker.alive


@posix
def test_ctrl_c_is_left_to_the_parent(home: Path) -> None:
    with WorkerProcess(REAL) as worker:
        worker.call("hello")
        os.kill(worker.pid, signal.SIGINT)
        assert worker.call("hello")["version"] == 1


def test_what_anything_prints_never_reaches_the_events(home: Path, tmp_path: Path) -> None:
    program = tmp_path / "noisy.py"
    program.write_text(
        "import os\n"
        "from engine.worker import main, server\n"
        "def noisy(self, job):\n"
        "    print('hello from Python')\n"
        "    os.write(1, b'hello from C\\n')\n"
        "    job.done(version=1)\n"
        "server.Server._hello = noisy\n"
        "main.main()\n"
    )
    with WorkerProcess([sys.executable, str(program)]) as worker:
        assert worker.call("hello") == {"version": 1}
    assert "hello from Python" in worker.stderr_tail()
    assert "hello from C" in worker.stderr_tail()


def test_a_log_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with WorkerProcess(REAL, {"DRIFTWOOD_HOME": str(tmp_path / "file")}) as worker:
        assert worker.call("hello")["version"] == 1


def test_an_event_that_json_cannot_carry_becomes_an_error(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("wb") as stream:
        Output(stream).send(Event(4, "done", {"rate": float("nan")}))
    assert b'"id":4,"event":"error","code":"internal"' in path.read_bytes()
