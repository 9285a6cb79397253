"""Questions to the person, in words; none of them blocks the event loop."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.theme import SPACE
from app.widgets.buttons import Button, danger_button, plain_button, primary_button
from app.widgets.labels import label, title_label


class ConfirmDialog(QDialog):
    """A title, a sentence, and buttons that say what they do.

    Attributes: buttons (its row, the last one confirms), confirm_button, cancel_button.
    `accepted` means the person said yes.
    """

    def __init__(
        self,
        parent: QWidget | None,
        title: str,
        text: str,
        action: str,
        *,
        destructive: bool = False,
        cancel: str = "Cancel",
    ) -> None:
        super().__init__(parent)
        self.setObjectName("confirm_dialog")
        self.setWindowTitle(title)
        self.setAccessibleName(title)
        self.setAccessibleDescription(text)
        self.setModal(True)
        self.setMinimumWidth(400)
        column = QVBoxLayout(self)
        column.setContentsMargins(SPACE.page, SPACE.page - 4, SPACE.page, SPACE.page - 4)
        column.setSpacing(SPACE.row)
        column.addWidget(title_label(title, "confirm_title"))
        self.text = label(text, "", "confirm_text", wrap=True)
        self.text.setMaximumWidth(520)
        column.addWidget(self.text)
        self.column = column
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(SPACE.row)
        self.buttons.addStretch(1)
        make = danger_button if destructive else primary_button
        self.cancel_button = plain_button(cancel, "confirm_no")
        self.confirm_button = make(action, "confirm_yes")
        self.cancel_button.clicked.connect(self.reject)
        self.confirm_button.clicked.connect(self.accept)
        self.buttons.addWidget(self.cancel_button)
        self.buttons.addWidget(self.confirm_button)
        column.addSpacing(SPACE.row)
        column.addLayout(self.buttons)
        safe = self.cancel_button if destructive else self.confirm_button
        safe.setDefault(True)
        safe.setFocus()

    def show_details(self, details: str) -> None:
        """Add a read-only box with technical details above the buttons."""
        box = QPlainTextEdit(details)
        box.setObjectName("confirm_details")
        box.setAccessibleName("Technical details")
        box.setReadOnly(True)
        box.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        box.setMinimumSize(460, 140)
        self.column.insertWidget(self.column.count() - 2, box)

    def add_button(self, button: Button) -> None:
        """Put a further button at the left of the row."""
        self.buttons.insertWidget(0, button)


def confirm(
    parent: QWidget | None,
    title: str,
    text: str,
    action: str,
    then: Callable[[], None],
    *,
    destructive: bool = False,
) -> ConfirmDialog:
    """Ask; `then` runs if the person agrees. Returns the open dialog at once."""
    dialog = ConfirmDialog(parent, title, text, action, destructive=destructive)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.accepted.connect(then)
    dialog.open()
    return dialog
