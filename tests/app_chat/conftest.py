"""The chat page over the fake worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from app_common.qt import (
    close_context,
    make_context,
    press,
    show,
    wait_until,
)
from PySide6.QtCore import Qt

from app.chat.message_views import AnswerView, UserView
from app.chat.page import ChatPage, create_page
from app.shell.page import AppContext


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
