"""What an empty chat shows: examples to begin with, or the way to the first model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QStackedWidget, QVBoxLayout, QWidget

from app.chat.models import ModelsState
from app.memory.units import join_words, progress_pair, size, speed, time_left
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

    Signals: get_wanted(), cancel_wanted(), others_wanted(), file_wanted().
    """

    get_wanted = Signal()
    cancel_wanted = Signal()
    others_wanted = Signal()

    def __init__(self) -> None:
        self.get = primary_button("Get the starter model", "get_starter", "download")
        super().__init__(
            "spark",
            "One model, then you can chat",
            "A model is a file that knows how to answer. It is downloaded once; after that "
            "everything happens on this computer, without the network.",
            self.get,
            "first_model",
        )
        self.get.clicked.connect(self.get_wanted)
        self.facts = label("", "small", "starter_facts")
        self.bar = ProgressBar("starter_progress", "Download")
        self.bar.setFixedWidth(320)
        self.progress = label("", "small", "starter_progress_text")
        self.cancel = plain_button("Cancel", "starter_cancel")
        self.cancel.clicked.connect(self.cancel_wanted)
        self.problem = label("", "bad", "starter_problem", wrap=True)
        self.problem.setFixedWidth(420)
        self.problem.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.others = quiet_button("Choose another model", "other_models", "models")
        self.others.clicked.connect(self.others_wanted)
        centre = Qt.AlignmentFlag.AlignHCenter
        rows = (self.problem, self.facts, self.bar, self.progress, self.cancel, self.others)
        for widget in rows:
            self.column.addWidget(widget, 0, centre)
        self.show_idle(None)

    def show_idle(self, starter: Mapping[str, Any] | None, problem: str = "") -> None:
        """Offer the download; after a failure say why and offer to go on."""
        self._running(False)
        words = "Get the starter model"
        if starter is not None:
            words += f" ({size(starter.get('bytes', 0))})"
            family = str(starter.get("title", starter["name"]))
            licence = str(starter.get("licence", ""))
            self.facts.setText(join_words(family, licence))
        self.get.setText("Go on with the download" if problem else words)
        self.get.setAccessibleName(self.get.text())
        self.get.setEnabled(starter is not None)
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.facts.setVisible(bool(self.facts.text()) and not problem)

    def show_progress(self, fields: Mapping[str, Any]) -> None:
        """A `progress` event of the download."""
        self._running(True)
        done, total = fields.get("done_bytes", 0), fields.get("total_bytes") or 0
        self.bar.set_fraction(done / total if total else None)
        pair = progress_pair(done, total)
        left, rate = time_left(fields.get("seconds_left")), speed(fields.get("bytes_per_second"))
        self.progress.setText(join_words(pair, rate, left))

    def show_loading(self, words: str, fraction: float | None) -> None:
        """The download is complete and the model is being loaded."""
        self._running(True)
        self.cancel.hide()
        self.bar.set_fraction(fraction)
        self.progress.setText(words)

    def _running(self, on: bool) -> None:
        for widget in (self.bar, self.progress, self.cancel):
            widget.setVisible(on)
        self.get.setVisible(not on)
        self.others.setVisible(not on)
        if on:
            self.facts.hide()
            self.problem.hide()


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
