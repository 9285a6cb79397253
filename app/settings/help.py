"""The help section: the doctor's report, versions, the log folder and the keys."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QWidget

from app.settings.report import Report, problems_of, rows_of, verdict_of
from app.settings.rows import Column, RowsCard, button_row
from app.theme import SPACE
from app.widgets import label, plain_button, set_look

KEYS = (
    ("Ctrl+1 to Ctrl+4", "Chat, Images, Models, Settings"),
    ("Ctrl+N", "New chat"),
    ("Ctrl+K", "Search"),
    ("Enter, Shift+Enter", "Send, new line"),
    ("Esc", "Stop"),
    ("Ctrl+, and F1", "Settings, this help"),
)


class HelpColumn(Column):
    """What was found on this computer, and what to do when something is missing.

    Attributes: verdict, rows (the report's grid), again, copy, open_log (buttons).
    """

    def __init__(self) -> None:
        super().__init__("settings_help_column")
        self._doctor = RowsCard("Doctor", "doctor_card")
        self.verdict = label("Looking at the GPU.", "dim", "doctor_verdict", wrap=True)
        self._problems = QGridLayout()
        self._problems.setVerticalSpacing(SPACE.small)
        self.rows = _grid()
        self.again = plain_button(
            "Check again", "doctor_again", "refresh", "Looks anew; a loaded model is unloaded"
        )
        self.copy = plain_button("Copy report", "doctor_copy", "copy", "For a question to others")
        self.copy.setEnabled(False)
        self._doctor.body.addWidget(self.verdict)
        self._doctor.body.addLayout(self._problems)
        self._doctor.body.addLayout(self.rows)
        self._doctor.body.addLayout(button_row(self.again, self.copy))
        self._versions = RowsCard("This program", "versions_card")
        self.version_rows = _grid()
        self.open_log = plain_button(
            "Open log folder",
            "help_open_log",
            "folder",
            "The log says what happened, without chats",
        )
        self._versions.body.addLayout(self.version_rows)
        self._versions.body.addLayout(button_row(self.open_log))
        keys = RowsCard("Keys", "keys_card")
        grid = _grid()
        fill(grid, KEYS, "key")
        keys.body.addLayout(grid)
        self.add(self._doctor, self._versions, keys)

    def show_waiting(self) -> None:
        """The doctor is looking."""
        self._say("Looking at the GPU. This takes a moment the first time.", "dim")
        self.again.setEnabled(False)

    def show_report(self, report: Report) -> None:
        """Show what the doctor found."""
        look, words = verdict_of(report)
        self._say(words, look)
        self.again.setEnabled(True)
        self.copy.setEnabled(True)
        _empty(self._problems)
        for number, problem in enumerate(problems_of(report)):
            text = label(problem, "warning", f"doctor_problem_{number}", wrap=True)
            self._problems.addWidget(text, number, 0)
        fill(self.rows, rows_of(report), "doctor")

    def show_failure(self, words: str) -> None:
        """The doctor could not look."""
        self._say(words, "bad")
        self.again.setEnabled(True)

    def show_versions(self, versions: Sequence[tuple[str, str]]) -> None:
        """Show the versions of what the program is made of."""
        fill(self.version_rows, versions, "version")

    def _say(self, words: str, look: str) -> None:
        self.verdict.setText(words)
        set_look(self.verdict, kind=look)


def fill(grid: QGridLayout, rows: Sequence[tuple[str, str]], prefix: str) -> None:
    """Replace the rows of a grid by names and values; values can be selected."""
    _empty(grid)
    top = Qt.AlignmentFlag.AlignTop
    for number, (name, value) in enumerate(rows):
        text = label(value, "", f"{prefix}_{name.lower().replace(' ', '_')}", wrap=True)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        text.setAccessibleName(f"{name}: {value}")
        grid.addWidget(label(name, "dim"), number, 0, top)
        grid.addWidget(text, number, 1, top)


def _grid() -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(SPACE.page)
    grid.setVerticalSpacing(SPACE.row)
    grid.setColumnMinimumWidth(0, 140)
    grid.setColumnStretch(1, 1)
    return grid


def _empty(grid: QGridLayout) -> None:
    while (item := grid.takeAt(0)) is not None:
        widget: QWidget | None = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
