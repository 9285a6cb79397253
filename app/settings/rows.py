"""Parts of the Settings page: a column of cards, a card of rows, a list to choose from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.settings.choices import Choice
from app.theme import SPACE
from app.widgets import Card, h_line, label, pill_button
from app.widgets.base import name_widget

COLUMN_WIDTH = 720
BOX_WIDTH = 260


class Column(QScrollArea):
    """A scrolling column of cards, no wider than reads well. Attributes: body (its layout)."""

    def __init__(self, object_name: str) -> None:
        super().__init__()
        self.setObjectName(object_name)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        inner, middle = QWidget(), QWidget()
        inner.setProperty("kind", "scroll")
        middle.setMaximumWidth(COLUMN_WIDTH)
        self.body = QVBoxLayout(middle)
        self.body.setContentsMargins(0, 0, 0, 0)
        self.body.setSpacing(SPACE.group)
        self.body.setAlignment(Qt.AlignmentFlag.AlignTop)
        row = self._row = QHBoxLayout(inner)
        row.addStretch(1)
        row.addWidget(middle, 1000)
        row.addStretch(1)
        self.setWidget(inner)
        self._centre()
        self.verticalScrollBar().rangeChanged.connect(self._centre)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._centre()

    def _centre(self, *_: int) -> None:
        """The column stands at the same place with a scroll bar and without."""
        side, bar = SPACE.page + 4, self.width() - self.viewport().width()
        self._row.setContentsMargins(side, SPACE.page - 2, max(0, side - bar), SPACE.page)

    def add(self, *cards: QWidget) -> None:
        """Add cards below those that are there."""
        for card in cards:
            self.body.addWidget(card)


class RowsCard(Card):
    """A card with a title and rows: a name with a sentence at the left, a control at the right."""

    def __init__(self, title: str, object_name: str, text: str = "") -> None:
        super().__init__(object_name, padding=SPACE.group + 4)
        self.setAccessibleName(title)
        self.body.setSpacing(SPACE.inner)
        head = QVBoxLayout()
        head.setSpacing(SPACE.small)
        head.addWidget(label(title, "strong"))
        if text:
            head.addWidget(label(text, "small", f"{object_name}_text", wrap=True))
        self.body.addLayout(head)
        self._has_rows = False

    def add_row(self, title: str, text: str | QWidget, *controls: QWidget) -> None:
        """One more row; a thin line keeps it apart from the one above. ``text`` may be a label."""
        if self._has_rows:
            self.body.addWidget(h_line())
        self._has_rows = True
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(label(title))
        if text:
            words.addWidget(label(text, "small", wrap=True) if isinstance(text, str) else text)
        row = QHBoxLayout()
        row.setSpacing(SPACE.group)
        row.addLayout(words, 1)
        for control in controls:
            row.addWidget(control, 0, Qt.AlignmentFlag.AlignVCenter)
        self.body.addLayout(row)


class ChoiceBox(QComboBox):
    """A list to choose one of. Signals: chosen(value), only when the person chose."""

    chosen = Signal(object)

    def __init__(self, object_name: str, accessible: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        name_widget(self, object_name, accessible)
        self.setFixedWidth(BOX_WIDTH)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._choices: tuple[Choice, ...] = ()
        self.show_choices(choices)
        self.activated.connect(lambda index: self.chosen.emit(self._choices[index].value))

    def show_choices(self, choices: Sequence[Choice]) -> None:
        """Offer these; the value that was shown stays if it is among them."""
        value = self.value
        self._choices = tuple(choices)
        self.clear()
        self.addItems([choice.words for choice in choices])
        self.show_value(value)

    @property
    def value(self) -> object:
        """The value that is shown; None before there is one."""
        index = self.currentIndex()
        return self._choices[index].value if 0 <= index < len(self._choices) else None

    def show_value(self, value: object) -> None:
        """Show a value; one that is not offered shows nothing."""
        values = [choice.value for choice in self._choices]
        self.setCurrentIndex(values.index(value) if value in values else -1)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling the page over a list must not change it."""
        event.ignore()


class ChoicePills(QWidget):
    """Two to four choices side by side. Signals: chosen(value)."""

    chosen = Signal(object)

    def __init__(self, object_name: str, accessible: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        name_widget(self, object_name, accessible)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACE.row)
        group = QButtonGroup(self)
        self._buttons: dict[object, Any] = {}
        for choice in choices:
            button = pill_button(choice.words, f"{object_name}_{choice.value}", checkable=True)
            button.setAccessibleName(f"{accessible}: {choice.words}")
            button.clicked.connect(lambda _=False, value=choice.value: self.chosen.emit(value))
            group.addButton(button)
            row.addWidget(button)
            self._buttons[choice.value] = button

    def show_value(self, value: object) -> None:
        """Mark a value."""
        if value in self._buttons:
            self._buttons[value].setChecked(True)


def button_row(*buttons: QWidget) -> QHBoxLayout:
    """Buttons from the left."""
    row = QHBoxLayout()
    row.setSpacing(SPACE.row)
    for button in buttons:
        row.addWidget(button)
    row.addStretch()
    return row


def connect_setting(
    control: ChoiceBox | ChoicePills, key: str, keep: Callable[[str, Any], None]
) -> None:
    """What is chosen in a control is kept under a key."""
    control.chosen.connect(lambda value: keep(key, value))
