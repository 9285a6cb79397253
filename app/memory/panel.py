"""The memory panel: device, split as a bar and in rows, what the next load needs, one minute."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy

from app.memory.model import (
    HINTS,
    History,
    MemoryState,
    looks_same,
    next_load_words,
    parts_of,
    split_words,
    used_words,
)
from app.memory.paint import HistoryGraph, StackBar, Swatch
from app.memory.units import gib
from app.theme import SPACE
from app.widgets import Card, label, title_label
from app.widgets.base import wire_theme

WIDTH = 300
NO_DEVICE = "The GPU is not open yet."
ROWS = (
    ("weights", "Weights"),
    ("kv_cache", "KV cache"),
    ("activations", "Activations"),
    ("ours", "Driftwood, other"),
    ("others", "Other programs"),
    ("free", "Free"),
)


class MemoryPanel(Card):
    """The card with the split. It shows what it is given; a feed gives it readings.

    Attributes: bar, graph, note (what the next load needs, or why there is nothing to show).
    """

    def __init__(
        self,
        object_name: str = "memory_panel",
        clock: Callable[[], float] = time.monotonic,
        history: History | None = None,
    ) -> None:
        super().__init__(object_name, padding=SPACE.group + 2)
        self.setFixedWidth(WIDTH)
        self.setAccessibleName("GPU memory")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Maximum)
        self.bar = StackBar()
        self.graph = HistoryGraph(clock, history)
        self.device = label("", "small", f"{object_name}_device", wrap=True)
        self.used = label("", "small_text", f"{object_name}_used")
        self.note = label("", "small", f"{object_name}_note", wrap=True)
        self._values: dict[str, tuple[Swatch, QLabel, QLabel]] = {}
        self._state: MemoryState | None = None
        self._needed: int | None = None
        self._lay_out(object_name)
        wire_theme(self, self.recolour)
        self.show_problem("Waiting for the engine.")

    def _lay_out(self, name: str) -> None:
        body = self.body
        body.addWidget(title_label("GPU memory", f"{name}_title"))
        body.addWidget(self.device)
        body.addSpacing(SPACE.row)
        body.addWidget(self.bar)
        body.addWidget(self.used)
        body.addSpacing(SPACE.small)
        body.addLayout(self._rows(name))
        body.addWidget(self.note)
        body.addSpacing(SPACE.row)
        body.addWidget(self.graph)
        ends = QHBoxLayout()
        ends.addWidget(label("1 min ago", "small"))
        ends.addStretch()
        ends.addWidget(label("now", "small"))
        body.addLayout(ends)

    def _rows(self, name: str) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(SPACE.inner)
        grid.setVerticalSpacing(SPACE.row + 1)
        grid.setColumnStretch(1, 1)
        for row, (key, title) in enumerate(ROWS):
            swatch, words = Swatch(key), label(title)
            value = label("", "", f"{name}_{key}")
            value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            for column, widget in enumerate((swatch, words, value)):
                widget.setToolTip(HINTS[key])
                widget.setVisible(False)
                grid.addWidget(widget, row, column)
            self._values[key] = (swatch, words, value)
        return grid

    def show_state(self, state: MemoryState) -> None:
        """Show one reading; text is only set again where it reads differently."""
        self.graph.push(state)
        self.bar.show_state(state)
        if looks_same(self._state, state):
            return
        self._state = state
        shared = " · shares the computer's memory" if state.unified else ""
        self.device.setText((state.device_name or NO_DEVICE) + shared)
        self.used.setText(used_words(state))
        shown = {part.key: part for part in parts_of(state)}
        for key, (swatch, words, value) in self._values.items():
            for widget in (swatch, words, value):
                widget.setVisible(key in shown)
            if key in shown:
                value.setText(gib(shown[key].nbytes))
                value.setAccessibleName(f"{words.text()}: {value.text()}")
        self.bar.setAccessibleName(split_words(state).replace("\n", ", "))
        self._show_note()

    def show_needed(self, needed: int | None) -> None:
        """Mark what the next load would need; None removes the mark."""
        self._needed = needed
        self.bar.show_needed(needed)
        self._show_note()

    def show_problem(self, words: str) -> None:
        """Say why there is nothing to show."""
        self._state = None
        for widgets in self._values.values():
            for widget in widgets:
                widget.setVisible(False)
        self.bar.show_state(MemoryState())
        self.device.setText(words)
        self.used.setText("")
        self.note.setVisible(False)

    def recolour(self, _tokens: object) -> None:
        """Draw again in the theme's colours."""
        self.bar.update()
        self.graph.update()

    def _show_note(self) -> None:
        has_note = self._state is not None and self._needed is not None
        self.note.setVisible(has_note)
        if self._state is not None and self._needed is not None:
            self.note.setText(next_load_words(self._state, self._needed))
