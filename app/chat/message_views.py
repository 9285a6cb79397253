"""One message of the conversation: the person's in a bubble, the answer on the page itself."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QEnterEvent, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QSizePolicy, QVBoxLayout, QWidget

from app.chat.actions import ActionRow
from app.chat.answer_body import AnswerBody
from app.chat.blocks import without_thought
from app.chat.text_views import TextView, say_copied
from app.chat.words import stats_tip, stats_words
from app.storage.records import Message, State
from app.theme import SPACE
from app.widgets import (
    IconLabel,
    ProgressBar,
    frame,
    h_line,
    label,
    plain_button,
    primary_button,
    quiet_button,
)
from app.widgets.messages import copy_details

BUBBLE = 520  # widest bubble, device-independent pixels
UNFINISHED = (State.STOPPED, State.LENGTH, State.FAILED)


class MessageView(QFrame):
    """What both kinds of message share.

    Signals: action_chosen(message id, action), version_chosen(message id, index),
    edited(message id, new text).
    """

    action_chosen = Signal(int, str)
    version_chosen = Signal(int, int)
    edited = Signal(int, str)

    def __init__(self, message: Message, row: ActionRow) -> None:
        super().__init__()
        self.message = message
        self.action_row = row
        self._editor: InlineEditor | None = None
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(SPACE.small)
        row.action_chosen.connect(self._act)
        row.versions.version_chosen.connect(
            lambda index: self.version_chosen.emit(self.message.id, index)
        )

    def enterEvent(self, event: QEnterEvent) -> None:
        self.action_row.set_near(True)
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self.action_row.set_near(False)
        super().leaveEvent(event)

    def copied_text(self) -> str:
        """What Copy copies."""
        return without_thought(self.message.text)

    def content(self) -> QWidget:
        """The widget that the editor takes the place of."""
        return self

    def _act(self, name: str) -> None:
        if name == "copy":
            QGuiApplication.clipboard().setText(self.copied_text())
            say_copied(self.action_row.buttons["copy"])
        elif name == "edit":
            self.begin_edit()
        else:
            self.action_chosen.emit(self.message.id, name)

    def begin_edit(self) -> None:
        """Let the person change the text in place."""
        if self._editor is not None:
            return
        words = "Send" if self.message.role == "user" else "Save"
        self._editor = InlineEditor(self.message.text, words)
        self._editor.accepted.connect(self._finish_edit)
        self._editor.cancelled.connect(self.end_edit)
        self.column.insertWidget(0, self._editor)
        self.content().hide()
        self.action_row.hide()
        self._editor.text.setFocus()

    def end_edit(self) -> None:
        """Put the message back in place of its editor."""
        if self._editor is not None:
            self._editor.hide()
            self._editor.deleteLater()
            self._editor = None
            self.content().show()
            self.action_row.show()
            self.action_row.buttons["edit"].setFocus(Qt.FocusReason.OtherFocusReason)

    def _finish_edit(self, text: str) -> None:
        self.end_edit()
        if text.strip() and text != self.message.text:
            self.edited.emit(self.message.id, text)


class InlineEditor(QFrame):
    """A text field with two buttons. Signals: accepted(text), cancelled()."""

    accepted = Signal(str)
    cancelled = Signal()

    def __init__(self, text: str, accept: str) -> None:
        super().__init__()
        self.setObjectName("inline_editor")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, SPACE.group)
        self.text = QPlainTextEdit(text)
        self.text.setObjectName("edit_text")
        self.text.setAccessibleName("Change the message")
        self.text.setTabChangesFocus(True)
        lines = min(12, max(3, text.count("\n") + 1 + len(text) // 80))
        self.text.setFixedHeight(self.text.fontMetrics().lineSpacing() * lines + 24)
        column.addWidget(self.text)
        row = QHBoxLayout()
        row.addStretch(1)
        no = plain_button("Cancel", "edit_cancel")
        yes = primary_button(accept, "edit_accept")
        no.clicked.connect(self.cancelled)
        yes.clicked.connect(lambda: self.accepted.emit(self.text.toPlainText()))
        row.addWidget(no)
        row.addWidget(yes)
        column.addLayout(row)


class UserView(MessageView):
    """A prompt, on the right, with its attached files."""

    def __init__(self, message: Message) -> None:
        super().__init__(message, ActionRow(("edit", "copy", "branch"), align_right=True))
        self.setObjectName("user_message")
        self.setAccessibleName("Your message")
        self.bubble = frame("bubble", "bubble")
        inner = QVBoxLayout(self.bubble)
        inner.setContentsMargins(SPACE.group, 12, SPACE.group, 7)
        inner.setSpacing(SPACE.row)
        for file in message.attachments:
            inner.addWidget(_attachment_line(file.name), 0, Qt.AlignmentFlag.AlignLeft)
        self.text = TextView("user_text")
        inner.addWidget(self.text)
        self.text.setVisible(bool(message.text))
        self.column.addWidget(self.bubble, 0, Qt.AlignmentFlag.AlignRight)
        self.column.addWidget(self.action_row)
        self.show_message(message, 0, 1)

    def content(self) -> QWidget:
        return self.bubble

    def show_message(self, message: Message, at: int, count: int) -> None:
        """Show the message and which version of how many it is."""
        self.message = message
        self.text.show_plain(message.text)
        self.action_row.versions.show_versions(at, count)
        self.action_row.set_near(False)
        self._fit_bubble()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._fit_bubble()

    def _fit_bubble(self) -> None:
        margins = 2 * SPACE.group
        widest = max(160, min(BUBBLE, self.width() - 40))
        width = min(widest, max(self.text.natural_width() + margins, 56))
        files = [w for w in self.bubble.children() if isinstance(w, QFrame) and w is not self.text]
        width = min(widest, max([width, *(w.sizeHint().width() + margins for w in files)]))
        self.bubble.setFixedWidth(width)


class AnswerView(MessageView):
    """An answer with its state, its actions and its figures."""

    def __init__(self, message: Message) -> None:
        names = ("regenerate", "continue", "edit", "copy", "branch")
        super().__init__(message, ActionRow(names))
        self.setObjectName("answer")
        self.body = AnswerBody()
        self.status = StatusLine()
        self.note = Note()
        self.note.retry.clicked.connect(lambda: self.action_chosen.emit(self.message.id, "retry"))
        for widget in (self.body, self.status, self.note, self.action_row):
            self.column.addWidget(widget)
        self.show_message(message, 0, 1)

    def content(self) -> QWidget:
        return self.body

    def show_message(self, message: Message, at: int, count: int) -> None:
        """Show the answer as it stands."""
        self.message = message
        is_streaming = message.state is State.STREAMING
        if is_streaming:
            self.body.show_growing(message.text)
        else:
            self.body.show_whole(message.text)
            self.status.hide()
        self.setAccessibleName("Answer, being written" if is_streaming else "Answer")
        self.note.show_note(message)
        is_empty = message.state is State.FAILED and not message.text and count == 1
        self.action_row.setVisible(not (is_streaming or is_empty) and self._editor is None)
        for name in ("edit", "copy", "branch"):
            self.action_row.buttons[name].setVisible(bool(message.text))
        self.action_row.versions.show_versions(at, count)
        can_continue = message.state in UNFINISHED and bool(message.text)
        self.action_row.buttons["continue"].setVisible(can_continue)
        self.action_row.stats.set_text(stats_words(message))
        self.action_row.stats.set_tip(stats_tip(message))

    def grow(self, message: Message) -> None:
        """Show more of an answer that is being written; nothing else has changed."""
        self.message = message
        if message.text:
            self.status.hide()
        self.body.show_growing(message.text)


class StatusLine(QWidget):
    """What the engine does before the first word."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("answer_status")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, SPACE.small, 0, SPACE.small)
        row.setSpacing(SPACE.inner)
        self.text = label("", "dim", "answer_status_text")
        self.bar = ProgressBar("answer_status_bar")
        self.bar.setFixedWidth(140)
        row.addWidget(self.text)
        row.addWidget(self.bar)
        row.addStretch(1)
        self.hide()

    def say(self, text: str, fraction: float | None) -> None:
        """Show a phase and how far it is, if that is known."""
        self.text.setText(text)
        self.bar.set_fraction(fraction)
        self.show()


class Note(QFrame):
    """What went wrong with an answer, in words, with Retry; or a quiet remark without."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("note")
        self.setProperty("kind", "note")
        row = QHBoxLayout(self)
        row.setContentsMargins(SPACE.inner, SPACE.row, SPACE.row, SPACE.row)
        row.setSpacing(SPACE.row)
        self.icon = IconLabel("warning", "bad")
        self.text = label("", "", "note_text", wrap=True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.details = quiet_button("Copy details", "note_details", "copy")
        self.retry = plain_button("Retry", "note_retry", "refresh")
        self._message: Message | None = None
        self.details.clicked.connect(self._copy_details)
        row.addWidget(self.icon)
        row.addWidget(self.text, 1)
        row.addWidget(self.details)
        row.addWidget(self.retry)
        self.hide()

    def show_note(self, message: Message) -> None:
        """Show a message's note, if it has one."""
        self._message = message
        failed = message.state is State.FAILED
        self.icon.set_icon("warning" if failed else "info", "bad" if failed else "dim")
        cut_off = message.state is State.STOPPED and not message.text  # by a crash of the program
        words = message.note or ("Stopped before the first word." if cut_off else "")
        self.text.setText(words)
        self.text.setAccessibleName(words)
        self.details.setVisible(bool(message.details))
        self.retry.setVisible(failed)
        self.setVisible(bool(words))

    def _copy_details(self) -> None:
        if self._message is not None:
            copy_details(self._message.note, self._message.details)
            say_copied(self.details)


class Divider(QWidget):
    """A quiet line across the conversation with a few words in it."""

    def __init__(self, text: str, tip: str = "") -> None:
        super().__init__()
        self.setObjectName("dropped_divider")
        self.setToolTip(tip)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACE.inner)
        row.addWidget(h_line(), 1)
        row.addWidget(label(text, "small", "dropped_text"))
        row.addWidget(h_line(), 1)


def _attachment_line(name: str) -> QFrame:
    """A file's name in a small frame."""
    box = frame("attachment", "message_attachment")
    row = QHBoxLayout(box)
    row.setContentsMargins(SPACE.row, SPACE.small, SPACE.row, SPACE.small)
    row.addWidget(IconLabel("file", "dim", 16))
    row.addWidget(label(name, "small_text"))
    return box
