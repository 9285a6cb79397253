"""The chat page over the fake worker: what a person does and sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_common.qt import (
    click,
    close_context,
    fake_worker,
    find,
    make_context,
    press,
    show,
    wait_signal,
    wait_until,
)
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QMenu

from app.chat.message_views import AnswerView, UserView
from app.chat.page import ChatPage, create_page
from app.models.page import create_page as create_models_page
from app.shell.page import AppContext
from app.storage.files import StorageError
from app.storage.records import State
from app.widgets import ConfirmDialog

MODEL = "smollm2-135m-instruct"


class Room:
    """A chat page on show, with a few words for what a person does."""

    def __init__(self, context: AppContext) -> None:
        self.context = context
        self.page: ChatPage = create_page(context)
        self.messages: list[str] = []
        context.messages.attach(self.page)
        context.messages.told.connect(lambda _kind, text: self.messages.append(text))
        show(self.page)
        context.engine.start()
        wait_until(lambda: self.page.controller.models.state.known)

    def ask(self, text: str, *, wait: bool = True) -> None:
        """Type and send; wait until the answer is complete."""
        self.page.composer.set_text(text)
        press(self.page.composer.field, Qt.Key.Key_Return)
        if wait:
            self.idle()

    def idle(self) -> None:
        """Wait until nothing is being written."""
        wait_until(lambda: self.page.controller.generation is None)

    def streaming(self) -> AnswerView:
        """Wait until an answer has some words."""
        wait_until(lambda: any(m.text for m in self.page.controller.path()[-1:]))
        wait_until(lambda: self.page.conversation.last_of("assistant") is not None)
        return self.answer()

    def answer(self) -> AnswerView:
        """The newest answer on show."""
        view = self.page.conversation.last_of("assistant")
        assert isinstance(view, AnswerView)
        return view

    def prompt(self) -> UserView:
        """The newest prompt on show."""
        view = self.page.conversation.last_of("user")
        assert isinstance(view, UserView)
        return view

    def texts(self) -> list[str]:
        """The branch on show."""
        return [m.text for m in self.page.controller.path()]

    def titles(self) -> list[str]:
        """The titles in the list of chats."""
        return [row.chat.title for row in self.page.sidebar.model.rows if row.chat]


@pytest.fixture
def room(context: AppContext) -> Iterator[Room]:
    made = Room(context)
    yield made
    made.page.shut_down()


@pytest.fixture
def make(qt: object, tmp_path: Path) -> Iterator[object]:
    contexts: list[AppContext] = []

    def build(*options: str) -> Room:
        contexts.append(make_context(tmp_path / str(len(contexts)), *options))
        return Room(contexts[-1])

    yield build
    for one in contexts:
        close_context(one)


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


# ---- drafts --------------------------------------------------------------------------------------


def test_what_was_not_sent_is_kept_for_each_chat_and_over_a_restart(room: Room) -> None:
    page = room.page
    room.ask("one")
    page.composer.set_text("half a thought")
    page.create_new()
    assert page.composer.text() == ""
    page.composer.set_text("another")
    page.controller.open_chat(1)
    assert page.composer.text() == "half a thought"
    page.shut_down()
    again = create_page(room.context)
    assert again.composer.text() == "half a thought"
    again.create_new()
    assert again.composer.text() == "another"


def test_what_was_sent_is_no_draft(room: Room) -> None:
    room.ask("one")
    room.page.create_new()
    assert room.page.composer.text() == ""


def test_a_broken_file_of_drafts_costs_nothing(context: AppContext) -> None:
    path = context.places.data / "drafts.json"
    for text in ("{", "[1]", '{"0": {"text": 1}}', '{"x": {}}'):
        path.write_text(text)
        assert create_page(context).composer.text() == ""


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


# ---- the list ------------------------------------------------------------------------------------


def test_new_chat_and_back(room: Room) -> None:
    room.ask("one")
    room.page.create_new()
    assert room.texts() == []
    room.ask("two")
    assert room.titles() == ["two", "one"]
    room.page.sidebar.chat_chosen.emit(room.page.sidebar.model.rows[2].chat.id)
    assert room.texts()[0] == "one"


def test_answers_go_on_in_a_chat_one_has_left(room: Room) -> None:
    room.ask("/words 60", wait=False)
    room.streaming()
    left = room.page.controller.busy_chat
    room.page.create_new()
    assert room.page.composer.send_button.text() == "Stop"
    assert room.page.sidebar.model.busy == left
    room.idle()
    room.page.controller.open_chat(left)
    assert room.texts()[-1].endswith("word59")


def test_search(room: Room) -> None:
    room.ask("about apples")
    room.page.create_new()
    room.ask("about pears")
    room.page.open_search()
    room.page.sidebar.search.setText("apples")
    wait_until(lambda: room.titles() == ["about apples"])
    room.page.sidebar.search.setText("plums")
    wait_until(lambda: room.titles() == [])
    assert "plums" in find(room.page, "nothing_found", QLabel).text()
    room.page.sidebar.search.clear()
    wait_until(lambda: len(room.titles()) == 2)


def test_rename_in_place(room: Room) -> None:
    room.ask("one")
    listed = room.page.sidebar.list
    listed.edit(listed.currentIndex())
    editor = find(listed, "rename_field", QLineEdit)
    editor.setText("A better name")
    press(editor, Qt.Key.Key_Return)
    wait_until(lambda: room.titles() == ["A better name"])
    assert room.page.head.title.full_text() == "A better name"


def test_the_dots_at_the_end_of_a_row_open_its_menu(room: Room) -> None:
    room.ask("one")
    listed = room.page.sidebar.list
    row = listed.visualRect(listed.currentIndex())
    spot = row.center()
    spot.setX(row.right() - 12)
    QTest.mouseClick(listed.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    menu = find(room.page.sidebar, "chat_menu", QMenu)
    words = [action.text() for action in menu.actions() if action.text()]
    assert words == ["Rename", "Pin", "Export as Markdown…", "Export as JSON…", "Delete"]
    menu.close()


def test_pin_puts_a_chat_first(room: Room) -> None:
    room.ask("one")
    number = room.page.controller.busy_chat or room.page.controller.chat.id  # type: ignore[union-attr]
    room.page.create_new()
    room.ask("two")
    room.page.sidebar.pinned.emit(number, True)
    assert room.titles() == ["one", "two"]
    assert room.page.sidebar.model.rows[0].heading == "Pinned"


def test_delete_can_be_undone(room: Room) -> None:
    room.ask("one")
    number = room.page.controller.chat.id  # type: ignore[union-attr]
    room.page.sidebar.list.setFocus()
    press(room.page.sidebar.list, Qt.Key.Key_Delete)
    assert room.titles() == []
    assert room.texts() == []
    click(room.page, "toast_action")
    assert room.titles() == ["one"]
    assert room.page.controller.chat.id == number  # type: ignore[union-attr]


def test_deleting_the_chat_that_is_being_answered(room: Room) -> None:
    room.ask("/words 500", wait=False)
    room.streaming()
    room.page.controller.delete(room.page.controller.busy_chat)
    room.idle()
    assert room.titles() == []


def test_export(room: Room, tmp_path: Path) -> None:
    room.ask("one")
    number = room.page.controller.chat.id  # type: ignore[union-attr]
    for suffix in ("md", "json"):
        room.page.export_to(number, tmp_path / f"chat.{suffix}", suffix)
    assert (tmp_path / "chat.md").read_text("utf-8").startswith("# one\n\n## You\n\none")
    assert '"driftwood-chat-1"' in (tmp_path / "chat.json").read_text("utf-8")
    room.page.export_to(number, tmp_path / "chat.md" / "below.md", "md")
    assert "could not be saved" in room.messages[-1]


def test_the_last_chat_is_open_again(room: Room) -> None:
    room.ask("one")
    again = create_page(room.context)
    assert next(m.text for m in again.controller.path()) == "one"


# ---- models and values ---------------------------------------------------------------------------


def test_the_first_run_is_one_click(make: object) -> None:
    room = make("--empty", "--delay", "0.01")  # type: ignore[operator]
    first = room.page.welcome.first
    assert room.page.welcome.currentWidget() is first
    assert first.get.text() == "Get the starter model (94 MiB)"
    assert not room.page.composer.send_button.isEnabled()
    click(room.page, "get_starter")
    wait_until(lambda: "MiB/s" in find(first, "starter_progress_text", QLabel).text())
    wait_until(lambda: room.page.controller.models.state.is_loaded)
    wait_until(lambda: room.page.welcome.currentWidget() is room.page.welcome.examples)
    room.ask("hello")
    assert room.answer().message.state is State.DONE


def test_no_download_against_the_settings(make: object) -> None:
    room = make("--empty")  # type: ignore[operator]
    room.context.settings.set("network.downloads", False)
    click(room.page, "get_starter")
    problem = find(room.page.welcome.first, "starter_problem", QLabel)
    assert "Downloads are switched off" in problem.text()
    assert not room.page.controller.models.getting


def test_the_first_download_can_be_paused_and_goes_on(make: object) -> None:
    room = make("--empty", "--delay", "0.05")  # type: ignore[operator]
    click(room.page, "get_starter")
    first = room.page.welcome.first
    words = find(first, "starter_progress_text", QLabel)
    wait_until(lambda: re.match(r"[1-9]\d* of 94 MiB", words.text()))
    click(room.page, "starter_pause")
    wait_until(lambda: first.get.isVisibleTo(first))
    assert first.get.text() == "Go on with the download"
    assert re.match(r"Paused · \d+ of 94 MiB are here", words.text())
    click(room.page, "get_starter")
    wait_until(lambda: room.page.controller.models.state.is_loaded)


def test_the_first_download_can_be_cancelled(make: object, tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    room = make("--empty", "--delay", "0.05", "--log", str(log))  # type: ignore[operator]
    click(room.page, "get_starter")
    first = room.page.welcome.first
    wait_until(lambda: "MiB/s" in find(first, "starter_progress_text", QLabel).text())
    click(room.page, "starter_cancel")
    wait_until(lambda: first.get.isVisibleTo(first))
    assert first.get.text() == "Get the starter model (94 MiB)"
    wait_until(lambda: '"model_forget"' in log.read_text())


def test_the_first_download_is_the_one_of_the_models_page(make: object) -> None:
    room = make("--empty", "--delay", "0.05")  # type: ignore[operator]
    models = create_models_page(room.context)
    show(models)
    click(room.page, "get_starter")
    name = f"download_{MODEL}_button"
    wait_until(lambda: models.findChild(QAbstractButton, name) is not None)
    room.context.settings.set("network.downloads", False)
    first = room.page.welcome.first
    wait_until(lambda: first.get.isVisibleTo(first))
    assert first.get.text() == "Go on with the download"
    click(room.page, "get_starter")
    assert "switched off" in first.problem.text()
    room.context.settings.set("network.downloads", True)
    click(models, name)
    wait_until(lambda: room.page.controller.models.state.is_loaded)


def test_the_model_pill_says_whether_it_is_loaded(room: Room) -> None:
    pill = room.page.head.model
    assert pill.text().startswith("SmolLM2 135M Instruct · Q4_1")
    assert "Not loaded" in pill.toolTip()
    room.page.controller.load_model()
    wait_until(lambda: "Loaded and ready" in pill.toolTip())
    assert [a.text() for a in room.page.head.menu.actions() if a.isCheckable()] == [
        "SmolLM2 135M Instruct · Q4_1"
    ]


def test_the_context_meter(room: Room) -> None:
    pill = room.page.head.context
    assert not pill.isVisibleTo(room.page)
    room.ask("hello")
    assert re.match(r"Context \d+ / 2\D048", pill.text())
    assert "never left out" in pill.toolTip()


def test_an_example_goes_into_the_message(room: Room) -> None:
    click(room.page, "example_0")
    assert "sea is salty" in room.page.composer.text()


def test_values_are_sent_and_kept_per_chat(make: object, tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    room = make("--log", str(log), "--delay", "0")  # type: ignore[operator]
    room.ask("one")
    panel = room.page.side_panel
    panel.system.setPlainText("Be brief.")
    panel._dials["temperature"].number.setValue(0.5)
    panel._numbers["seed"].setValue(7)
    room.ask("two")
    last = [line for line in log.read_text().splitlines() if '"chat"' in line][-1]
    for part in ('"temperature":0.5', '"seed":7', '"role":"system","content":"Be brief."'):
        assert part in last
    room.page.create_new()
    assert room.page.side_panel.system.toPlainText() == ""
    room.page.controller.open_chat(1)
    assert room.page.side_panel.system.toPlainText() == "Be brief."


def test_values_for_new_chats_and_reset(room: Room) -> None:
    panel = room.page.side_panel
    panel.system.setPlainText("Rhyme.")
    panel._dials["top_k"].number.setValue(7)
    click(room.page, "toggle_side_panel")
    click(panel, "use_as_default")
    room.page.create_new()
    assert panel.system.toPlainText() == "Rhyme."
    assert panel._dials["top_k"].number.value() == 7
    click(panel, "reset_values")
    assert panel.system.toPlainText() == ""
    assert panel._dials["top_k"].number.value() == 40


# ---- reading and access --------------------------------------------------------------------------


def test_the_view_follows_only_while_at_the_end(room: Room) -> None:
    room.page.resize(1000, 420)
    room.ask("/words 500", wait=False)
    view = room.page.conversation
    bar = view.verticalScrollBar()
    wait_until(lambda: bar.maximum() > 120)
    assert view.following
    bar.setValue(0)
    top = len(room.texts()[-1])
    wait_until(lambda: len(room.page.controller.path()[-1].text) > top + 200)
    assert bar.value() == 0
    assert view.jump.isVisible()
    click(view, "jump_to_newest")
    assert bar.value() == bar.maximum()
    room.page.stop_work()
    room.idle()
    wait_until(lambda: bar.value() == bar.maximum())
    assert not view.jump.isVisible()


def test_a_long_chat_opens_at_its_end_and_shows_earlier_on_request(room: Room) -> None:
    store = room.context.storage
    chat, parent = store.add_chat("long"), None
    for number in range(120):
        role = "assistant" if number % 2 else "user"
        parent = store.add_message(chat.id, parent, role, f"message {number}").id
    room.page.controller.open_chat(chat.id)
    wait_until(lambda: len(room.page.conversation._views) == 40)
    bar = room.page.conversation.verticalScrollBar()
    wait_until(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    click(room.page, "show_earlier")
    assert len(room.page.conversation._views) == 120


def test_a_narrow_page_hides_the_list(room: Room) -> None:
    room.page.resize(700, 600)
    assert not room.page.sidebar.isVisible()
    click(room.page, "show_list")
    assert room.page.sidebar.isVisible()
    room.page.open_search()
    assert room.page.sidebar.search.hasFocus()


def test_every_button_has_a_name(room: Room) -> None:
    room.ask("hello")
    nameless = [
        button.objectName()
        for button in room.page.findChildren(QAbstractButton)
        if not (button.accessibleName() or button.text())
        and not button.objectName().startswith("qt")
    ]
    icons = [b for b in room.page.findChildren(QAbstractButton) if b.property("kind") == "icon"]
    assert [name for name in nameless if name] == []
    assert all(button.toolTip() for button in icons)


def test_tab_goes_from_the_list_over_the_head_to_the_composer(room: Room) -> None:
    room.ask("hello")
    wait_until(lambda: find(room.page, "code_copy").isVisible())
    names: list[str] = []
    widget = room.page.sidebar.new_button.nextInFocusChain()
    while widget is not room.page.sidebar.new_button:
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisible():
            names.append(widget.objectName())
        widget = widget.nextInFocusChain()
    order = ["search", "chat_list", "model_pill", "context_pill", "toggle_side_panel", "prompt"]
    assert [name for name in names if name in order] == order
    assert {"action_regenerate", "action_edit", "code_copy"} <= set(names)


def test_an_engine_that_cannot_start_is_told_once(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.shell.engine.BACKOFF_MS", (5,))
    room.context.engine._command = fake_worker("--fail-start", "4")
    room.context.engine.restart()
    wait_until(lambda: room.context.engine.early_deaths >= 5)
    told = [text for text in room.messages if "in a row" in text]
    assert len(told) == 1
    assert len(room.messages) == 2


def test_the_theme_can_change_while_chatting(room: Room) -> None:
    room.ask("hello")
    room.context.theme.set_mode("dark")
    room.ask("again")
    room.context.theme.set_mode("light")
    assert room.answer().message.state is State.DONE
