"""Scrolling, long chats, narrow windows, the keyboard and themes."""

from __future__ import annotations

import pytest
from app_common.qt import (
    click,
    fake_worker,
    find,
    wait_until,
)
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton

from app.storage.records import State
from app_chat.conftest import Room


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
