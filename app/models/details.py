"""The details of one model: what the list knows at once, what is inside the file when it comes."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from app.memory.units import count
from app.models.model import ModelCard, detail_rows
from app.theme import SPACE
from app.widgets import label, plain_button, title_label
from engine.worker.protocol import Event

INSIDE = (
    ("architecture", "Architecture"),
    ("layers", "Layers"),
    ("channels", "Channels"),
    ("heads", "Attention heads"),
    ("kv_heads", "KV heads"),
    ("vocabulary", "Vocabulary"),
    ("tensors", "Tensors"),
    ("tensor_types", "Kinds of tensors"),
    ("chat_template", "Chat template"),
)


class DetailsDialog(QDialog):
    """Rows of names and values. Signals: reveal_asked()."""

    reveal_asked = Signal()

    def __init__(self, parent: QWidget | None, card: ModelCard) -> None:
        super().__init__(parent)
        self.setObjectName("model_details")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(card.title)
        self.setMinimumWidth(480)
        self._rows = QGridLayout()
        self._rows.setHorizontalSpacing(SPACE.page)
        self._rows.setVerticalSpacing(SPACE.row)
        self._rows.setColumnStretch(1, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(SPACE.page, SPACE.page - 4, SPACE.page, SPACE.page - 4)
        column.setSpacing(SPACE.inner)
        column.addWidget(title_label(card.title, "model_details_title"))
        if card.problem:
            column.addWidget(label(card.problem, "bad", "model_details_problem", wrap=True))
        column.addLayout(self._rows)
        buttons = QHBoxLayout()
        show = plain_button("Show in file manager", "model_details_reveal", "folder")
        close = plain_button("Close", "model_details_close")
        show.clicked.connect(self.reveal_asked)
        close.clicked.connect(self.accept)
        close.setDefault(True)
        buttons.addWidget(show)
        buttons.addStretch()
        buttons.addWidget(close)
        column.addSpacing(SPACE.row)
        column.addLayout(buttons)
        for name, value in detail_rows(card):
            self.add_row(name, value)

    def add_row(self, name: str, value: str) -> None:
        """One more row; its value can be selected and copied."""
        row = self._rows.rowCount()
        top = Qt.AlignmentFlag.AlignTop
        self._rows.addWidget(label(name, "dim"), row, 0, top)
        text = label(value, "", f"model_details_{name.lower().replace(' ', '_')}", wrap=True)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        text.setAccessibleName(f"{name}: {value}")
        self._rows.addWidget(text, row, 1, top)

    def take_event(self, event: Event) -> None:
        """The worker's answer to model_info."""
        info = event.get("info")
        if event.event == "done" and isinstance(info, Mapping):
            for key, name in INSIDE:
                if key in info:
                    self.add_row(name, inside_words(info[key]))


def inside_words(value: object) -> str:
    """A value of the file for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{number} of {kind}" for kind, number in value.items())
    return str(value)
