"""The last card of Discover: a model that the catalogue does not have."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit

from app.theme import SPACE
from app.widgets import Card, label, plain_button
from app.widgets.base import name_widget

TEXT = (
    "Any GGUF file of a family that the engine knows works the same way. Paste the address of a "
    "file on the model hub, or add a file from this computer. These are not tested."
)
PLACEHOLDER = "OWNER/REPO/FILE.gguf"


class MoreCard(Card):
    """A field for an address of the hub, and a button for a file.

    Signals: get_asked(text), add_asked().
    """

    get_asked = Signal(str)
    add_asked = Signal()

    def __init__(self) -> None:
        super().__init__("discover_more", padding=SPACE.group + 2)
        self.body.addWidget(label("Another model", "strong"))
        self.body.addWidget(label(TEXT, "small", "discover_more_text", wrap=True))
        self.field = QLineEdit()
        name_widget(self.field, "discover_address", "Address of a file on the model hub")
        self.field.setPlaceholderText(PLACEHOLDER)
        self.field.setClearButtonEnabled(True)
        self.get = plain_button("Get", "discover_get", None, "Download this file")
        add = plain_button("Add file…", "discover_add", None, "Add a .gguf file")
        self.problem = label("", "bad", "discover_problem", wrap=True)
        row = QHBoxLayout()
        row.setSpacing(SPACE.row)
        row.addWidget(self.field, 1)
        row.addWidget(self.get)
        row.addWidget(add)
        self.body.addSpacing(SPACE.small)
        self.body.addLayout(row)
        self.body.addWidget(self.problem)
        self.field.returnPressed.connect(self._ask)
        self.field.textChanged.connect(self._follow_text)
        self.get.clicked.connect(self._ask)
        add.clicked.connect(self.add_asked)
        self._follow_text("")

    def show_problem(self, words: str) -> None:
        """Say why what was pasted cannot be fetched; no words: it can."""
        self.problem.setText(words)
        self.problem.setVisible(bool(words))

    def clear(self) -> None:
        """Make room for another address."""
        self.field.clear()

    def _ask(self) -> None:
        if text := self.field.text().strip():
            self.get_asked.emit(text)

    def _follow_text(self, text: str) -> None:
        self.get.setEnabled(bool(text.strip()))
        self.show_problem("")
