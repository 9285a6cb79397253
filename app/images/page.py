"""The Images page, which says what will be here and offers what there is today."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.shell.page import AppContext
from app.theme import SPACE
from app.widgets import EmptyState, label, page_head, plain_button

TITLE = "Pictures come in the next version"
TEXT = (
    "Here you will describe a picture in words and watch it appear, made on this computer like "
    "your chats. This version talks; it cannot draw yet."
)
PLANNED = (
    "A picture from a sentence, with size, steps and seed",
    "A picture made from another one, or only a part of it",
    "A gallery that remembers how each was made",
)


class ImagesPage(QWidget):
    """An honest empty page. Attributes: empty."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("images_page")
        self.setProperty("kind", "page")
        head, row = page_head("Images", "images_head")
        row.addStretch()
        button = plain_button("Go to chat", "images_go_to_chat", "chat")
        self.empty = EmptyState("images", TITLE, TEXT, button, "images_empty")
        self.empty.text.setFixedWidth(440)
        self._add_plans()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, SPACE.head)
        column.setSpacing(0)
        column.addWidget(head)
        column.addWidget(self.empty, 1)

    def _add_plans(self) -> None:
        """What will be here, above the button."""
        place = self.empty.column.count() - 2
        plans = QVBoxLayout()
        plans.setSpacing(SPACE.small)
        plans.setContentsMargins(0, SPACE.inner, 0, SPACE.inner)
        for number, words in enumerate(PLANNED):
            line = label(words, "small", f"images_plan_{number}")
            plans.addWidget(line, 0, Qt.AlignmentFlag.AlignHCenter)
        self.empty.column.insertLayout(place, plans)


def create_page(context: AppContext) -> ImagesPage:
    """The page."""
    page = ImagesPage()
    button = page.empty.button
    if button is not None:
        button.clicked.connect(lambda: context.go_to("chat"))
    return page
