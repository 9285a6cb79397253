"""Frames that hold other widgets: cards, page heads, lines and empty states."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.theme import SPACE
from app.widgets.buttons import Button
from app.widgets.labels import IconLabel, label, title_label

WIDTH = 400  # of an empty state's text, device-independent pixels


def frame(kind: str, object_name: str = "") -> QFrame:
    """A bare frame with one of the style sheet's looks ("card", "note", "head", "side", ...)."""
    result = QFrame()
    result.setProperty("kind", kind)
    result.setObjectName(object_name)
    return result


def h_line() -> QFrame:
    """A thin line across."""
    return frame("line")


class Card(QFrame):
    """A raised panel. Attributes: body (its vertical layout)."""

    def __init__(self, object_name: str = "", *, padding: int = SPACE.group) -> None:
        super().__init__()
        self.setProperty("kind", "card")
        self.setObjectName(object_name)
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(padding, padding, padding, padding)
        self.body.setSpacing(SPACE.row)


def page_head(title: str, object_name: str = "page_head") -> tuple[QFrame, QHBoxLayout]:
    """The bar over a page with its title; add what follows to the returned layout."""
    head = frame("head", object_name)
    head.setMinimumHeight(SPACE.head)
    row = QHBoxLayout(head)
    row.setContentsMargins(SPACE.group + 4, 0, SPACE.group + 4, 0)
    row.setSpacing(SPACE.inner)
    if title:
        row.addWidget(title_label(title, f"{object_name}_title"))
    return head, row


class EmptyState(QWidget):
    """Says what will be here and offers the one thing to do.

    Attributes: column (its vertical layout, to add more below), button (or None).
    """

    def __init__(
        self,
        icon: str,
        title: str,
        text: str,
        button: Button | None = None,
        object_name: str = "empty_state",
    ) -> None:
        super().__init__()
        self.setObjectName(object_name)
        self.button = button
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(SPACE.page, SPACE.page, SPACE.page, SPACE.page)
        self.column.setSpacing(SPACE.row)
        self.column.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.title = title_label(title, f"{object_name}_title")
        self.text = label(text, "dim", f"{object_name}_text", wrap=True)
        self.text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.text.setFixedWidth(WIDTH)
        # a wrapped label tells its height only for the width it would like to have
        self.text.setMinimumHeight(self.text.heightForWidth(WIDTH))
        centre = Qt.AlignmentFlag.AlignHCenter
        self.column.addWidget(IconLabel(icon, "accent", 36), 0, centre)
        self.column.addSpacing(SPACE.small)
        self.column.addWidget(self.title, 0, centre)
        self.column.addWidget(self.text, 0, centre)
        if button is not None:
            self.column.addSpacing(SPACE.row)
            self.column.addWidget(button, 0, centre)
