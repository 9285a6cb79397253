from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.worker import client
from engine.worker.client import Protocol, WorkerError, WorkerProcess, worker_command
from engine.worker.protocol import Event, ProtocolError, encode_event

FAKE = [sys.executable, str(Path(__file__).parents[1] / "fake_worker.py"), "--delay", "0.001"]


def start(*options: str) -> WorkerProcess:
    return WorkerProcess([*FAKE, *options])


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    with start() as one:
        yield one


def say(text: str) -> dict[str, Any]:
    return {"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": text}]}


def test_requests_get_ids_of_their_own() -> None:
    protocol = Protocol()
    first, line = protocol.request("hello")
    second, _ = protocol.request("chat", continue_=False, **say("hi"))
    assert first != second
    assert line == b'{"id":1,"do":"hello"}\n'
    assert protocol.open == {first: "hello", second: "chat"}


def test_events_are_told_once_their_line_is_whole() -> None:
    protocol = Protocol()
    protocol.request("hello")
    sent = encode_event(Event(1, "text", {"text": "a"})) + encode_event(Event(1, "done"))
    assert protocol.feed(sent[:20]) == []
    assert [event.event for event in protocol.feed(sent[20:])] == ["text", "done"]
    assert protocol.open == {}


def test_what_is_no_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError, match="not JSON"):
        Protocol().feed(b"Segmentation fault\n")
    monkeypatch.setattr(client, "MAX_LINE", 100)
    with pytest.raises(ProtocolError, match="does not end"):
        Protocol().feed(b"x" * 101)


def test_abort_ends_every_open_request() -> None:
    protocol = Protocol()
    protocol.request("hello")
    protocol.request("memory")
    assert [(e.id, e["code"]) for e in protocol.abort("It died.")] == [
        (1, "internal"),
        (2, "internal"),
    ]
    assert protocol.abort("Again.") == []


def test_the_worker_s_command_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(client.COMMAND_VARIABLE, raising=False)
    assert worker_command()[-2:] == ["-m", "engine.worker"]
    monkeypatch.setenv(client.COMMAND_VARIABLE, "other 'with space' --now")
    assert worker_command() == ["other", "with space", "--now"]
    monkeypatch.delenv(client.COMMAND_VARIABLE)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert worker_command() == [sys.executable, "--worker"]


def test_an_answer_streams(worker: WorkerProcess) -> None:
    events = list(worker.request("chat", **say("/words 3")))
    assert "".join(e["text"] for e in events if e.event == "text") == events[-1]["text"]
    assert events[-1].event == "done"


def test_call_returns_the_end_or_raises_the_error(worker: WorkerProcess) -> None:
    assert worker.call("hello")["version"] == 1
    with pytest.raises(WorkerError, match="no model") as caught:
        worker.call("load", model="nothing")
    assert caught.value.code == "not_found"


def test_a_running_request_can_be_stopped(worker: WorkerProcess) -> None:
    running = worker.send("chat", **say("/hang"))
    events = worker.events(running)
    while next(events).event != "prefill":
        continue
    worker.stop(running)
    assert next(events)["stop_reason"] == "stopped"


def test_a_worker_that_dies_ends_its_requests_and_refuses_more(worker: WorkerProcess) -> None:
    waiting = worker.send("chat", **say("/hang"))
    last = list(worker.request("chat", **say("/crash")))[-1]
    assert last.event == "error"
    assert "exit status 3" in last["message"]
    assert list(worker.events(waiting))[-1].event == "error"
    with pytest.raises(WorkerError, match="stopped unexpectedly"):
        worker.call("hello")
    assert not worker.alive


def test_a_worker_that_talks_nonsense_is_ended(worker: WorkerProcess) -> None:
    with pytest.raises(WorkerError, match="cannot be read"):
        worker.call("chat", **say("/garbage"))


def test_the_last_words_of_a_worker_that_fails_to_start_are_kept() -> None:
    with start("--fail-start", "4") as worker:
        with pytest.raises(WorkerError) as caught:
            worker.call("hello")
        assert "exit status 4" in str(caught.value)
        assert "scripted start failure" in worker.stderr_tail()


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(WorkerError, match="could not be started"):
        WorkerProcess(["/no/such/program"])


def test_closing_ends_the_process() -> None:
    worker = start()
    worker.call("hello")
    began = time.monotonic()
    worker.close()
    assert time.monotonic() - began < 2
    assert not worker.alive
    if os.name == "posix":
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)
