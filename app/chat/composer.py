"""Where the person writes: a field that grows to eight lines, files, and Send or Stop."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QFocusEvent,
    QInputMethodEvent,
    QKeyEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.chat.attachments import MOST, AttachmentError, read_attachment
from app.chat.drafts import Draft
from app.storage.records import Attachment
from app.theme import SPACE
from app.widgets import (
    IconLabel,
    frame,
    icon_button,
    label,
    primary_button,
    quiet_button,
    set_look,
)

LINES = 8  # tallest, in lines of text
NEW_LINE = "Shift+Enter for a new line"
PLACEHOLDER = "Ask anything. It stays on this computer."


class PromptField(QPlainTextEdit):
    """The text field.

    Signals: entered() on Enter, files_given(paths) for pasted files, focus_changed(bool).
    """

    entered = Signal()
    files_given = Signal(list)
    focus_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("prompt")
        self.setProperty("kind", "bare")
        self.setAccessibleName("Your message")
        self.setPlaceholderText(PLACEHOLDER)
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.document().setDocumentMargin(0)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._composing = False
        self.textChanged.connect(self._fit)
        self._fit()

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        breaks = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if is_enter and not breaks and not self._composing:
            event.accept()
            self.entered.emit()
            return
        super().keyPressEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return bool(local_files(source)) or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        files = local_files(source)
        if files:
            self.files_given.emit(files)
        else:
            self.insertPlainText(source.text())

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self._composing = False
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.fontMetrics().lineSpacing())

    def _fit(self) -> None:
        """As tall as the wrapped text, at most LINES lines."""
        line = self.fontMetrics().lineSpacing()
        lines = max(1, round(self.document().size().height()))  # a plain document counts lines
        height = min(lines, LINES) * line + 4
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)


class Composer(QFrame):
    """The prompt field with its files and buttons.

    Signals: sent(text, attachments), stopped(), refused(sentence) for a file that cannot go along,
    changed() when the text or the files change.
    """

    sent = Signal(str, tuple)
    changed = Signal()
    stopped = Signal()
    refused = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("composer")
        self.setProperty("kind", "composer")
        self.setAcceptDrops(True)
        self._files: list[Attachment] = []
        self._busy = False
        self._blocked = ""
        column = QVBoxLayout(self)
        column.setContentsMargins(SPACE.group - 2, SPACE.group - 2, SPACE.inner + 2, SPACE.inner)
        column.setSpacing(SPACE.inner)
        self._chips = QWidget()
        self._chips.setObjectName("attachments")
        self._chip_row = QHBoxLayout(self._chips)
        self._chip_row.setContentsMargins(0, 0, 0, 0)
        self._chip_row.setSpacing(SPACE.row)
        self._chip_row.addStretch(1)
        self._chips.hide()
        self.field = PromptField()
        column.addWidget(self._chips)
        column.addWidget(self.field)
        column.addLayout(self._buttons())
        self.field.entered.connect(self.send)
        self.field.files_given.connect(self.add_files)
        self.field.textChanged.connect(self._refresh)
        self.field.textChanged.connect(self.changed)
        self.field.focus_changed.connect(lambda on: set_look(self, active=on))
        self._refresh()

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(SPACE.row)
        self.file_button = quiet_button(
            "File", "add_file", "plus", "Add a text file to the message"
        )
        self.file_button.clicked.connect(self._pick_files)
        self.hint = label(NEW_LINE, "small", "composer_hint")
        self.send_button = primary_button("Send", "send", "send", "Send (Enter)")
        self.send_button.setLayoutDirection(Qt.LayoutDirection.RightToLeft)  # the icon after it
        self.send_button.clicked.connect(self._press_button)
        row.addWidget(self.file_button)
        row.addWidget(self.hint)
        row.addStretch(1)
        row.addWidget(self.send_button)
        return row

    def set_busy(self, busy: bool) -> None:
        """While an answer is written the button stops it."""
        self._busy = busy
        self.send_button.setText("Stop" if busy else "Send")
        self.send_button.set_icon("stop" if busy else "send")
        self.send_button.setToolTip("Stop (Esc)" if busy else "Send (Enter)")
        self.send_button.setAccessibleName(self.send_button.text())
        self._refresh()

    def set_blocked(self, reason: str) -> None:
        """Why nothing can be sent now; "" when it can."""
        self._blocked = reason
        self.say(NEW_LINE)
        self._refresh()

    def say(self, hint: str) -> None:
        """A few words beside the buttons; why nothing can be sent goes before them."""
        self.hint.setText(self._blocked or hint)

    def set_text(self, text: str) -> None:
        """Put a text into the field, with the cursor at its end."""
        self.field.setPlainText(text)
        self.field.moveCursor(self.field.textCursor().MoveOperation.End)
        self.field.setFocus()

    def show_draft(self, draft: Draft) -> None:
        """Replace text and files, without taking the focus."""
        self._files = list(draft.files)
        if draft.text != self.field.toPlainText():
            self.field.setPlainText(draft.text)
            self.field.moveCursor(self.field.textCursor().MoveOperation.End)
        self._show_files()

    def draft(self) -> Draft:
        """What is written and added so far."""
        return Draft(self.field.toPlainText(), tuple(self._files))

    def text(self) -> str:
        """What is in the field."""
        return self.field.toPlainText()

    def send(self) -> None:
        """Send what is written, if anything is and nothing stands against it."""
        text = self.field.toPlainText().strip()
        if self._busy or self._blocked or not (text or self._files):
            return
        files = tuple(self._files)
        self.field.clear()
        self._files.clear()
        self._show_files()
        self.sent.emit(text, files)

    def add_files(self, paths: list[Path]) -> None:
        """Add text files; those that cannot go along are refused in words."""
        for path in paths:
            if len(self._files) >= MOST:
                self.refused.emit(f"A message can have {MOST} files at most.")
                break
            try:
                self._files.append(read_attachment(path))
            except AttachmentError as error:
                self.refused.emit(str(error))
        self._show_files()
        self.field.setFocus()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if local_files(event.mimeData()):
            set_look(self, dropping=True)
            event.acceptProposedAction()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        set_look(self, dropping=False)
        super().dragLeaveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        set_look(self, dropping=False)
        self.add_files(local_files(event.mimeData()))
        event.acceptProposedAction()

    def _press_button(self) -> None:
        if self._busy:
            self.stopped.emit()
        else:
            self.send()

    def _pick_files(self) -> None:
        dialog = QFileDialog(self, "Add text files")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filesSelected.connect(lambda names: self.add_files([Path(n) for n in names]))
        dialog.open()

    def _show_files(self) -> None:
        while self._chip_row.count() > 1:
            item = self._chip_row.takeAt(0)
            if item is not None and (chip := item.widget()) is not None:
                chip.hide()
                chip.deleteLater()
        for number, file in enumerate(self._files):
            self._chip_row.insertWidget(number, self._chip(file))
        self._chips.setVisible(bool(self._files))
        self._refresh()
        self.changed.emit()

    def _chip(self, file: Attachment) -> QFrame:
        box = frame("attachment", "attachment")
        row = QHBoxLayout(box)
        row.setContentsMargins(SPACE.row, 2, SPACE.small, 2)
        row.setSpacing(SPACE.small)
        lines = file.text.count("\n") + 1
        words = label(file.name, "small_text", "attachment_name")
        box.setToolTip(f"{file.name}, {lines} lines. It is put before your message.")
        remove = icon_button("close", "attachment_remove", f"Remove {file.name}", size=12)
        remove.clicked.connect(lambda: self._remove(file))
        row.addWidget(IconLabel("file", "dim", 16))
        row.addWidget(words)
        row.addWidget(remove)
        return box

    def _remove(self, file: Attachment) -> None:
        self._files = [one for one in self._files if one is not file]
        self._show_files()
        self.field.setFocus()

    def _refresh(self) -> None:
        has_words = bool(self.field.toPlainText().strip() or self._files)
        self.send_button.setEnabled(self._busy or (has_words and not self._blocked))


def local_files(source: QMimeData) -> list[Path]:
    """The files that a paste or a drop brings."""
    return [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]
