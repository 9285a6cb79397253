"""The engine's client over a real process: answers, stops, deaths and restarts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from app_common.qt import fake_worker, wait_signal, wait_until
from PySide6.QtWidgets import QApplication

from app.shell import engine as module
from app.shell.engine import EngineClient
from engine.worker.protocol import Event

MODEL = "smollm2-135m-instruct"
Make = Callable[..., EngineClient]


@pytest.fixture
def make(qt: QApplication) -> Iterator[Make]:
    made: list[EngineClient] = []

    def start(*options: str, command: list[str] | None = None) -> EngineClient:
        made.append(EngineClient(command or fake_worker(*options)))
        return made[-1]

    yield start
    for client in made:
        client.close()


def ask(client: EngineClient, prompt: str) -> tuple[int, list[Event]]:
    """Send a chat; its id and the list its events go to."""
    events: list[Event] = []
    message = {"role": "user", "content": prompt}
    return client.request("chat", events.append, model=MODEL, messages=[message]), events


def ended(events: list[Event]) -> Callable[[], bool]:
    """True once the last event has come."""
    return lambda: bool(events) and events[-1].final


def test_a_worker_greets(make: Make) -> None:
    client = make()
    wait_signal(client.worker_started, client.start)
    assert client.engine_version == "fake"
    assert client.pid > 0


def test_a_chat_streams_and_ends(make: Make) -> None:
    client = make("--answer", "one two three")
    _, events = ask(client, "hello")
    wait_until(ended(events))
    assert "".join(e["text"] for e in events if e.event == "text") == "one two three"
    assert events[-1]["stop_reason"] == "end"


def test_busy_while_it_computes(make: Make) -> None:
    client = make()
    seen: list[bool] = []
    client.busy_changed.connect(seen.append)
    _, events = ask(client, "hello")
    assert client.busy
    wait_until(ended(events))
    assert seen == [True, False]


def test_stop_keeps_what_was_written(make: Make) -> None:
    client = make("--delay", "0.02")
    number, events = ask(client, "/words 1000")
    wait_until(lambda: any(e.event == "text" for e in events))
    client.stop(number)
    wait_until(ended(events))
    assert events[-1]["stop_reason"] == "stopped"
    assert events[-1]["text"].startswith("word0")


def test_many_requests_at_once(make: Make) -> None:
    client = make("--delay", "0")
    logs = [ask(client, f"/words {n}")[1] for n in range(1, 9)]
    wait_until(lambda: all(ended(events)() for events in logs))
    assert [e[-1]["completion_tokens"] for e in logs] == list(range(1, 9))


def test_a_death_ends_every_request_and_another_worker_starts(make: Make) -> None:
    client = make()
    wait_signal(client.worker_started, client.start)
    first = client.pid
    _, hanging = ask(client, "/hang")
    wait_until(lambda: any(e.event == "started" for e in hanging))
    _, crashing = ask(client, "/crash")
    (reason,) = wait_signal(client.worker_died)
    assert reason == "The engine stopped unexpectedly."
    assert "exit status 3" in crashing[-1]["details"]
    assert [hanging[-1].event, crashing[-1].event] == ["error", "error"]
    assert not client.busy
    wait_signal(client.worker_started)
    assert client.pid != first
    _, again = ask(client, "hello")
    wait_until(ended(again))
    assert again[-1].event == "done"


def test_garbage_on_stdout_ends_the_worker(make: Make) -> None:
    client = make()
    _, events = ask(client, "/garbage")
    (reason,) = wait_signal(client.worker_died)
    assert "cannot be read" in reason
    assert events[-1].event == "error"


def test_restarts_wait_longer_after_each_early_death(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKOFF_MS", (10, 20, 60_000))
    client = make("--fail-start", "4")
    deaths: list[str] = []
    client.worker_died.connect(deaths.append)
    client.start()
    wait_until(lambda: len(deaths) == 3)
    assert client._retry.remainingTime() > 10_000
    assert "a scripted start failure" in client.stderr_tail()
    client.restart()
    wait_until(lambda: len(deaths) > 3)


def test_requests_wait_for_the_next_start(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_MS", (300,))
    client = make()
    wait_signal(client.worker_started, client.start)
    _, crashing = ask(client, "/crash")
    wait_signal(client.worker_died)
    assert crashing[-1].event == "error"
    _, events = ask(client, "hello")
    assert not client.running
    wait_until(ended(events))
    assert events[-1].event == "done"


def test_a_missing_program_is_told(make: Make) -> None:
    client = make(command=["/nowhere/driftwood-engine"])
    events: list[Event] = []
    client.request("hello", events.append)
    wait_until(lambda: bool(events))
    assert "could not be started" in events[-1]["message"]


def test_startup_settings_come_before_everything_else(make: Make, tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    client = make("--log", str(log))
    client.startup_settings = lambda: {"backend": "wgpu"}
    _, events = ask(client, "hello")
    wait_until(ended(events))
    lines = log.read_text().splitlines()
    assert ['"hello"' in lines[0], '"settings"' in lines[1], '"chat"' in lines[2]] == [True] * 3


def test_a_forgotten_request_is_heard_no_more(make: Make) -> None:
    client = make()
    number, events = ask(client, "/words 50")
    wait_until(lambda: any(e.event == "text" for e in events))
    client.forget(number)
    count = len(events)
    done: list[Event] = []
    client.request("models_list", done.append)
    wait_until(ended(done))
    assert len(events) == count


def test_close_leaves_no_process(make: Make) -> None:
    client = make("--mute")
    client.start()
    wait_until(lambda: client.pid > 0)
    client.close()
    assert client.pid == 0
    assert not client.running


def test_the_usual_command_is_this_python(qt: QApplication) -> None:
    assert EngineClient()._command[0] == sys.executable
