"""What a person does, with the real engine and a tiny model: ask, stop, go on, quit, come back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from app_common.qt import click, close_context, make_context, wait_until

from app.chat.page import create_page
from app.models.page import create_page as create_models_page
from app.storage.chats import ChatStore
from app.storage.records import State
from app_journey.conftest import PATIENCE_MS, Room, copy_model, with_full_disk


def test_asking_stopping_and_coming_back(room: Room) -> None:
    grown: list[int] = []
    room.page.controller.grew.connect(lambda message: grown.append(len(message.text)))
    first = room.ask("Hello", tokens=40)
    assert (first.state, first.stats["completion_tokens"]) == (State.LENGTH, 40)
    assert "no chat template" in first.note
    assert grown == sorted(grown)
    assert first.stats["context_size"] == 2048

    room.begin("Tell me more")
    assert room.page.stop_work()
    room.until(lambda: room.page.controller.generation is None)
    assert room.last.state is State.STOPPED
    assert room.last.note == "", "what was said above is not said again"
    stopped = room.last.text
    room.page.controller.set_values({**room.page.controller.values(), "max_tokens": 8})
    room.page.controller.act(room.last.id, "continue")
    room.until(lambda: room.page.controller.generation is None)
    assert room.last.text.startswith(stopped)
    assert len(room.last.text) > len(stopped)

    room.page.create_new()
    room.ask("A second chat")
    room.page.shut_down()
    kept = ChatStore(room.context.places.chats_file)
    assert [chat.title for chat in kept.chats()] == ["A second chat", "Hello"]
    kept.close()
    again = create_page(room.context)
    assert again.controller.path()[0].text == "A second chat"


def test_a_template_without_end_is_replaced_and_the_person_told(room: Room) -> None:
    room.context.settings.set("chat.model", "loops")
    room.page.create_new()
    answer = room.ask("Hello")
    assert answer.state is State.LENGTH
    assert answer.note.endswith("form is used instead, and answers may suffer.")
    assert "no chat template" not in answer.note


def test_half_a_model_says_so_and_is_not_offered(room: Room) -> None:
    page = create_models_page(room.context)
    room.until(lambda: "cut" in page.installed.cards)
    card = page.installed.cards["cut"]
    assert card.headline.text() == "Cannot be used"
    assert "cut off" in card.detail.text()
    usable = [model["name"] for model in room.page.controller.models.state.usable]
    assert sorted(usable) == ["loops", "tiny"]


@pytest.mark.parametrize("name", ["half.gguf", "words.gguf"])
def test_a_broken_file_dropped_on_the_window_is_refused_in_words(
    room: Room, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    whole = copy_model(tmp_path / "whole.gguf").read_bytes()
    path.write_bytes(whole[:5000] if name == "half.gguf" else b"only words")
    create_models_page(room.context).open_files([path])
    room.until(lambda: any(text.startswith(name) for text in room.told))
    assert not any("Traceback" in text or "Error" in text for text in room.told)


def test_a_full_disk_is_told_with_numbers(qt: object, home: Path, tmp_path: Path) -> None:
    context = make_context(tmp_path, command=with_full_disk())
    told: list[str] = []
    context.messages.told.connect(lambda _kind, text: told.append(text))
    another = copy_model(tmp_path / "another.gguf", **{"general.name": "Another"})
    create_models_page(context).open_files([another])
    wait_until(lambda: any("1 MiB are free" in text for text in told), patience=PATIENCE_MS)
    assert not (home / "models" / "another.gguf").exists()
    close_context(context)


def test_a_killed_engine_is_told_and_comes_back(room: Room) -> None:
    room.begin("Tell me a story")
    kept = room.last.text
    os.kill(room.context.engine.pid, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
    room.until(lambda: room.page.controller.generation is None)
    assert room.last.state is State.FAILED
    assert room.last.text.startswith(kept)
    assert room.last.note == "The engine stopped unexpectedly."
    room.until(lambda: any("the engine is back" in text for text in room.told))
    room.page.controller.set_values({**room.page.controller.values(), "max_tokens": 8})
    click(room.page, "note_retry")
    room.until(lambda: room.last.state is State.LENGTH)
