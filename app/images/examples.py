"""What an empty gallery shows: what the model is good at, and prompts to begin with."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QWidget

from app.theme import SPACE
from app.widgets import EmptyState, pill_button

MOST = 8
COLUMNS = 2
TEXT = (
    "Describe one at the left and press Draw. It is made on this computer, and you see it appear."
)


class Examples(EmptyState):
    """Chips with prompts. Signals: chosen(prompt)."""

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__("images", "Your pictures will be here", TEXT, object_name="image_empty")
        self._holder = QWidget()
        self._grid = QGridLayout(self._holder)
        self._grid.setContentsMargins(0, SPACE.group, 0, 0)
        self._grid.setSpacing(SPACE.row)
        self._prompts: tuple[str, ...] = ()
        self.column.addWidget(self._holder, 0, Qt.AlignmentFlag.AlignHCenter)

    def show_model(self, good_at: str, prompts: Sequence[str]) -> None:
        """Say what the model does well and offer its examples."""
        first = good_at.split(";")[0].rstrip(". ")
        self.text.setText(f"{TEXT} This model is good at {first}." if first else TEXT)
        self.text.setToolTip("\n".join(part.strip() for part in good_at.split(";")))
        self.text.setMinimumHeight(self.text.heightForWidth(self.text.width()))
        wanted = tuple(prompts[:MOST])
        if wanted == self._prompts:
            return
        self._prompts = wanted
        while (item := self._grid.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        for number, prompt in enumerate(wanted):
            chip = pill_button(prompt, f"image_example_{number}", None, "Put this into the prompt")
            chip.clicked.connect(lambda _=False, one=prompt: self.chosen.emit(one))
            self._grid.addWidget(chip, number // COLUMNS, number % COLUMNS)
