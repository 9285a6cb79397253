"""Asking, answering and what goes wrong on the chat page: what a person does and sees."""

from __future__ import annotations

import re

import pytest
from app_common.qt import (
    click,
    find,
    wait_signal,
    wait_until,
)
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QLabel

from app.storage.files import StorageError
from app.storage.records import State
from app.widgets import ConfirmDialog
from app_chat.conftest import Room

# ---- asking and answering ------------------------------------------------------------------------


def test_a_question_is_answered_and_kept(room: Room) -> None:
    room.ask("Why is the sea salty? Tell me.")
    assert room.texts()[0] == "Why is the sea salty? Tell me."
    assert "That is all I know." in room.texts()[1]
    assert room.titles() == ["Why is the sea salty?"]
    assert room.page.head.title.full_text() == "Why is the sea salty?"
    answer = room.answer()
    assert answer.message.state is State.DONE
    assert re.match(
        r"68 tok/s · first token [\d.]+ s · \d+ tokens", answer.action_row.stats.full_text()
    )
    assert find(answer, "code_language", QLabel).text() == "python"


def test_the_answer_streams(room: Room) -> None:
    room.ask("/words 40", wait=False)
    view = room.streaming()
    assert view.message.state is State.STREAMING
    assert room.page.composer.send_button.text() == "Stop"
    room.idle()
    assert room.page.composer.send_button.text() == "Send"
    assert room.texts()[-1].endswith("word39")


def test_copy_of_a_code_block(room: Room) -> None:
    room.ask("hello")
    click(room.answer(), "code_copy")
    assert QGuiApplication.clipboard().text() == "print('hello')"


def test_stop_keeps_the_partial_answer_and_continue_goes_on(room: Room) -> None:
    room.ask("/words 400", wait=False)
    room.streaming()
    assert room.page.stop_work()
    room.idle()
    partial = room.texts()[-1]
    assert partial.startswith("word0")
    assert room.answer().message.state is State.STOPPED
    assert room.answer().action_row.buttons["continue"].isVisibleTo(room.answer())
    room.page.controller.act(room.answer().message.id, "continue")
    wait_until(lambda: len(room.texts()[-1]) > len(partial))
    room.page.stop_work()
    room.idle()
    assert room.texts()[-1].startswith(partial)
    assert len(room.texts()) == 2


def test_stop_while_loading_leaves_a_sentence(room: Room) -> None:
    room.ask("/hang", wait=False)
    wait_until(lambda: room.context.engine.busy)
    room.page.stop_work()
    room.idle()
    assert "Stopped before the first word." in find(room.answer(), "note_text", QLabel).text()
    assert not room.page.stop_work()


def test_regenerate_keeps_both_versions(room: Room) -> None:
    room.ask("hello")
    first = room.answer().message.id
    click(room.answer(), "action_regenerate")
    room.idle()
    assert room.answer().message.id != first
    assert find(room.answer(), "version_text", QLabel).text() == "2 / 2"
    click(room.answer(), "version_back")
    assert room.answer().message.id == first
    assert find(room.answer(), "version_text", QLabel).text() == "1 / 2"


def test_editing_a_prompt_answers_anew(room: Room) -> None:
    room.ask("first words")
    click(room.prompt(), "action_edit")
    field = room.prompt()._editor
    assert field is not None
    field.text.setPlainText("other words")
    click(room.prompt(), "edit_accept")
    room.idle()
    assert room.texts()[0] == "other words"
    assert find(room.prompt(), "version_text", QLabel).text() == "2 / 2"
    click(room.prompt(), "version_back")
    assert room.texts()[0] == "first words"
    assert "first words" in room.texts()[1]


def test_editing_an_answer_only_keeps_it(room: Room) -> None:
    room.ask("hello")
    room.page.controller.edit(room.answer().message.id, "My own answer.")
    assert room.page.controller.generation is None
    assert room.texts() == ["hello", "My own answer."]


def test_cancelling_an_edit_changes_nothing(room: Room) -> None:
    room.ask("hello")
    before = room.texts()
    click(room.prompt(), "action_edit")
    click(room.prompt(), "edit_cancel")
    assert room.texts() == before
    assert room.prompt().bubble.isVisibleTo(room.prompt())


def test_branch_is_a_new_chat(room: Room) -> None:
    room.ask("one")
    room.ask("two")
    first_answer = room.page.controller.path()[1].id
    room.page.controller.act(first_answer, "branch")
    assert len(room.texts()) == 2
    assert room.titles()[0] == "one (branch)"
    assert len(room.titles()) == 2


def test_thoughts_are_folded(make: object) -> None:
    room = make("--delay", "0")  # type: ignore[operator]
    room.ask("/think")
    toggle = find(room.answer(), "thought_toggle", QAbstractButton)
    assert toggle.text() == "Thoughts"
    body = find(room.answer(), "thought_body")
    assert not body.isVisibleTo(room.answer())
    toggle.click()
    wait_until(lambda: body.isVisibleTo(room.answer()))
    room.answer()._act("copy")
    assert QGuiApplication.clipboard().text() == "The answer is **42**."


def test_dropped_messages_are_shown_by_a_line(room: Room) -> None:
    room.ask("one")
    assert room.page.findChild(QLabel, "dropped_text") is None
    room.ask("/drop it")
    assert "were left out" in find(room.page.conversation, "dropped_text", QLabel).text()


def test_a_warning_of_the_template_is_told_quietly(room: Room) -> None:
    room.ask("/warn")
    assert find(room.answer(), "note_text", QLabel).text() == "This model has no chat template."
    assert not find(room.answer(), "note_retry").isVisibleTo(room.answer())


def test_a_warning_is_told_once_in_a_chat(room: Room) -> None:
    room.ask("/warn")
    room.ask("/warn again")
    assert not room.answer().note.isVisibleTo(room.answer())


# ---- what goes wrong -----------------------------------------------------------------------------


def test_an_error_is_told_in_place_and_retry_uses_the_same_answer(room: Room) -> None:
    room.ask("/error out_of_memory")
    view = room.answer()
    assert find(view, "note_text", QLabel).text() == "A scripted failure (out_of_memory)."
    assert find(view, "note_details").isVisibleTo(view)
    number = view.message.id
    click(view, "note_retry")
    room.idle()
    assert room.answer().message.id == number
    assert len(room.texts()) == 2


def test_a_killed_worker_leaves_the_chat_and_offers_retry(room: Room) -> None:
    room.ask("/crash now please and thanks")
    assert room.answer().message.state is State.FAILED
    assert room.texts()[-1]  # the words that had come
    wait_until(lambda: any("Your chat is safe" in text for text in room.messages))
    wait_signal(room.context.engine.worker_started)
    room.ask("hello again")
    assert room.answer().message.state is State.DONE


def test_no_gpu_is_told_with_what_the_doctor_found(room: Room) -> None:
    room.ask("/error no_adapter")
    wait_until(lambda: any("driver of your graphics card" in text for text in room.messages))
    dialog = room.page.findChild(ConfirmDialog, "confirm_dialog")
    assert dialog is not None
    assert dialog.windowTitle() == "No usable GPU was found"
    dialog.reject()


def test_an_engine_that_does_not_stop_is_ended(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.generation.PATIENCE_MS", 50)
    monkeypatch.setattr(room.context.engine, "stop", lambda _number: None)
    room.ask("/hang", wait=False)
    wait_until(lambda: room.context.engine.busy)
    room.page.stop_work()
    room.idle()
    assert room.answer().message.state is State.STOPPED


def test_a_full_disk_gives_the_words_back(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise StorageError("The disk is full.")

    monkeypatch.setattr(room.context.storage, "add_chat", fail)
    room.ask("precious words", wait=False)
    assert room.page.composer.text() == "precious words"
    assert room.messages == ["The disk is full."]


def test_words_are_saved_while_they_come(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.generation.SAVE_MS", 20)
    room.ask("/words 300", wait=False)
    room.streaming()
    number = room.page.controller.path()[-1].id
    chat = room.page.controller.busy_chat
    wait_until(lambda: room.context.storage.messages(chat)[number].text)
    kept = room.context.storage.messages(chat)[number]
    assert kept.state is State.STREAMING
    assert kept.text.startswith("word0")
    room.page.stop_work()
    room.idle()


def test_closing_in_mid_answer_keeps_it(room: Room) -> None:
    room.ask("/words 300", wait=False)
    room.streaming()
    number = room.page.controller.path()[-1].id
    chat = room.page.controller.busy_chat
    room.page.shut_down()
    kept = room.context.storage.messages(chat)[number]
    assert kept.state is State.STOPPED
    assert kept.text
