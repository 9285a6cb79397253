"""What an empty chat shows: examples to begin with, or the way to the first model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.chat.models import ModelsState
from app.memory.units import join_words, size
from app.models.downloads import MOVING, Download, whole_words
from app.theme import SPACE
from app.widgets import (
    Button,
    EmptyState,
    ProgressBar,
    label,
    plain_button,
    primary_button,
    quiet_button,
)

EXAMPLES = (
    ("Explain something", "Explain why the sea is salty to a ten-year-old."),
    ("Write a letter", "Write a short, friendly letter to my landlord about a dripping tap."),
    ("Plan a day", "Plan a rainy Sunday in a city I have never been to."),
    ("Help with code", "Write a Python function that finds dates in a text, with an example."),
)


class Examples(EmptyState):
    """Four prompts to begin with. Signals: chosen(prompt)."""

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__(
            "chat",
            "What would you like to know?",
            "Answers are made on this computer. Nothing leaves it.",
            object_name="examples",
        )
        holder = QWidget()
        grid = QGridLayout(holder)
        grid.setContentsMargins(0, SPACE.group, 0, 0)
        grid.setSpacing(SPACE.row)
        for number, (title, prompt) in enumerate(EXAMPLES):
            grid.addWidget(self._example(number, title, prompt), number // 2, number % 2)
        self.column.addWidget(holder, 0, Qt.AlignmentFlag.AlignHCenter)

    def _example(self, number: int, title: str, prompt: str) -> Button:
        button = plain_button("", f"example_{number}")
        button.setAccessibleName(f"{title}: {prompt}")
        button.setToolTip("Put this into your message")
        button.setFixedSize(256, 3 * button.fontMetrics().lineSpacing() + 28)
        inner = QVBoxLayout(button)
        inner.setContentsMargins(14, 10, 14, 10)
        inner.setSpacing(SPACE.small)
        for text, kind in ((title, "strong"), (prompt, "small")):
            words = label(text, kind, wrap=True)
            words.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            inner.addWidget(words)
        inner.addStretch(1)
        button.clicked.connect(lambda: self.chosen.emit(prompt))
        return button


class FirstModel(EmptyState):
    """The first run: one button gets a model, then one can type.

    Signals: get_wanted() to begin or to go on, pause_wanted(), cancel_wanted(), others_wanted().
    """

    get_wanted = Signal()
    pause_wanted = Signal()
    cancel_wanted = Signal()
    others_wanted = Signal()

    def __init__(self) -> None:
        self.get = primary_button("Get the starter model", "get_starter", "download")
        super().__init__(
            "spark",
            "One model, then you can chat",
            "A model is a file that knows how to answer. It is downloaded once; after that "
            "everything happens on this computer, without the network.",
            object_name="first_model",
        )
        self.get.clicked.connect(self.get_wanted)
        self.facts = label("", "small", "starter_facts")
        self.bar = ProgressBar("starter_progress", "Download")
        self.bar.setFixedWidth(320)
        self.progress = label("", "small", "starter_progress_text")
        self.pause = plain_button(
            "Pause", "starter_pause", None, "Go on later, even after a restart"
        )
        self.pause.clicked.connect(self.pause_wanted)
        self.cancel = plain_button(
            "Cancel", "starter_cancel", None, "Stop, and delete what has come"
        )
        self.cancel.clicked.connect(self.cancel_wanted)
        self.problem = label("", "bad", "starter_problem", wrap=True)
        self.problem.setFixedWidth(420)
        self.problem.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.others = quiet_button("Choose another model", "other_models", "models")
        self.others.clicked.connect(self.others_wanted)
        centre = Qt.AlignmentFlag.AlignHCenter
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(SPACE.row)
        for button in (self.get, self.pause, self.cancel):
            self._buttons.addWidget(button)
        self.column.addSpacing(SPACE.row)
        for widget in (self.problem, self.bar, self.progress):
            self.column.addWidget(widget, 0, centre)
        self.column.addLayout(self._buttons)
        self.column.setAlignment(self._buttons, centre)
        for widget in (self.facts, self.others):
            self.column.addWidget(widget, 0, centre)
        self.show_download(None, None)

    def show_download(
        self, starter: Mapping[str, Any] | None, item: Download | None, problem: str = ""
    ) -> None:
        """Offer the download, show how far it is, or why it stopped and how to go on."""
        moving = item is not None and item.status in MOVING
        has_begun = item is not None and (item.done > 0 or not problem)
        self.get.setVisible(not moving)
        self.get.setEnabled(starter is not None)
        self.get.setText(_get_words(starter, has_begun, problem))
        self.get.setAccessibleName(self.get.text())
        self.facts.setText(_facts(starter))
        self.facts.setVisible(item is None and not problem and bool(self.facts.text()))
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem) and not moving)
        for widget in (self.bar, self.progress):
            widget.setVisible(moving or has_begun)
        self.pause.setVisible(moving)
        self.cancel.setVisible(item is not None)
        self.others.setVisible(not moving)
        if item is not None:
            self.bar.set_fraction(item.share if item.phase or not moving else None)
            self.progress.setText(whole_words(item))

    def show_loading(self, words: str, fraction: float | None) -> None:
        """The download is complete and the model is being loaded."""
        for widget in (self.bar, self.progress):
            widget.show()
        for widget in (self.get, self.facts, self.problem, self.pause, self.cancel, self.others):
            widget.hide()
        self.bar.set_fraction(fraction)
        self.progress.setText(words)


def _get_words(starter: Mapping[str, Any] | None, has_begun: bool, problem: str) -> str:
    if has_begun:
        return "Go on with the download"
    if problem:
        return "Try again"
    words = "Get the starter model"
    return words if starter is None else f"{words} ({size(starter.get('bytes', 0))})"


def _facts(starter: Mapping[str, Any] | None) -> str:
    if starter is None:
        return ""
    return join_words(str(starter.get("title", starter["name"])), str(starter.get("licence", "")))


class Welcome(QStackedWidget):
    """Examples or the first model. Attributes: examples, first."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("welcome")
        self.examples = Examples()
        self.first = FirstModel()
        self.waiting = QWidget()
        for page in (self.waiting, self.examples, self.first):
            self.addWidget(page)

    def show_state(self, state: ModelsState, *, getting: bool) -> None:
        """Show what fits what is known; nothing flashes up before the engine has answered."""
        if not state.known:
            self.setCurrentWidget(self.waiting)
        elif state.needs_first_model or getting:
            self.setCurrentWidget(self.first)
        else:
            self.setCurrentWidget(self.examples)
