"""The list of chats and drafts."""

from __future__ import annotations

from pathlib import Path

from app_common.qt import (
    click,
    find,
    press,
    wait_until,
)
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QLineEdit, QMenu

from app.chat.page import create_page
from app.shell.page import AppContext
from app_chat.conftest import Room

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
