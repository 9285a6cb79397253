"""Toasts and dialogs: said once, seen, copied, undone."""

from __future__ import annotations

import pytest
from app_common.qt import click, find, press, show, wait_until
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QEnterEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.widgets import Action, Messages, confirm
from app.widgets.toasts import MOST


@pytest.fixture
def room(qt: QApplication) -> tuple[QWidget, Messages]:
    window = QWidget()
    messages = Messages()
    messages.attach(window)
    show(window, 900, 600)
    return window, messages


Room = tuple[QWidget, Messages]


def shown(messages: Messages) -> list[str]:
    """The texts of the toasts on show."""
    assert messages.host is not None
    return [toast.text.text() for toast in messages.host.toasts()]


def test_a_toast_shows_and_goes(room: Room) -> None:
    _, messages = room
    messages.toast("Saved.", seconds=0.05)
    assert shown(messages) == ["Saved."]
    wait_until(lambda: not shown(messages))


def test_a_toast_waits_while_hovered(room: Room) -> None:
    _, messages = room
    messages.toast("Read me.", seconds=0.05)
    assert messages.host is not None
    toast = messages.host.toasts()[0]
    spot = QPointF(5, 5)
    QApplication.sendEvent(toast, QEnterEvent(spot, spot, spot))
    assert not toast._timer.isActive()
    QApplication.sendEvent(toast, QEvent(QEvent.Type.Leave))
    wait_until(lambda: not shown(messages))


def test_an_action_runs_and_dismisses(room: Room) -> None:
    window, messages = room
    ran: list[str] = []
    messages.toast("Deleted.", Action("Undo", lambda: ran.append("undo")))
    click(window, "toast_action")
    assert ran == ["undo"]
    assert shown(messages) == []


def test_old_toasts_make_room(room: Room) -> None:
    _, messages = room
    for number in range(MOST + 2):
        messages.toast(f"number {number}")
    assert shown(messages) == ["number 2", "number 3", "number 4"]


def test_errors_offer_their_details(room: Room) -> None:
    window, messages = room
    told: list[tuple[str, str]] = []
    messages.told.connect(lambda kind, text: told.append((kind, text)))
    messages.error("It failed.", "Traceback: here")
    click(window, "toast_action")
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("It failed.")
    assert "Traceback: here" in copied
    assert told == [("error", "It failed.")]


def test_an_error_dialog_has_details_and_does_not_block(room: Room) -> None:
    _, messages = room
    dialog = messages.dialog("No GPU", "No GPU was found.", "details here")
    assert dialog.isVisible()
    assert find(dialog, "confirm_text", QLabel).text() == "No GPU was found."
    click(dialog, "copy_details")
    assert "details here" in QGuiApplication.clipboard().text()
    click(dialog, "confirm_yes")
    assert not dialog.isVisible()


def test_confirm_runs_only_on_yes(room: Room) -> None:
    window, _ = room
    ran: list[str] = []
    for button in ("confirm_no", "confirm_yes"):
        dialog = confirm(window, "Delete?", "It is gone then.", "Delete", lambda: ran.append("x"))
        click(dialog, button)
    assert ran == ["x"]


def test_enter_in_a_destructive_question_does_nothing_bad(room: Room) -> None:
    window, _ = room
    ran: list[str] = []
    dialog = confirm(
        window, "Delete?", "Gone.", "Delete", lambda: ran.append("x"), destructive=True
    )
    press(dialog, Qt.Key.Key_Return)
    assert ran == []
    assert not dialog.isVisible()


def test_words_without_a_window_are_not_lost(qt: QApplication) -> None:
    messages = Messages()
    told: list[str] = []
    messages.told.connect(lambda _kind, text: told.append(text))
    messages.toast("nobody sees this")
    assert told == ["nobody sees this"]
