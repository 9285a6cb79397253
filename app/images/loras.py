"""LoRA files on the form: a row each, with how strongly it acts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QHBoxLayout, QMenu, QSlider, QVBoxLayout, QWidget

from app.images.values import MOST_LORAS, MOST_WEIGHT, Lora
from app.theme import SPACE
from app.widgets import (
    ElidedLabel,
    breakable,
    frame,
    guard_wheel,
    icon_button,
    label,
    plain_button,
    set_look,
)
from app.widgets.base import name_widget

STEPS = 20  # of the slider, from nothing to 1
TIP = "How strongly it acts: 0 not at all, 1 as it was made; less than 0 does the opposite"
HINT = "A small file that adds a style or a thing to the model. Drop .safetensors files here."


class LoraRow(QWidget):
    """One file. Attributes: path, problem. Signals: changed(), removed()."""

    changed = Signal()
    removed = Signal()

    def __init__(self, lora: Lora) -> None:
        super().__init__()
        self.path, self.problem = lora.path, ""
        name = Path(lora.path).stem
        self.name = ElidedLabel(name)
        self.name.set_tip(lora.path)
        self.weight = QDoubleSpinBox()
        self.weight.setRange(-MOST_WEIGHT, MOST_WEIGHT)
        self.weight.setSingleStep(0.05)
        self.weight.setProperty("kind", "compact")
        self.weight.setFixedWidth(68)
        self.weight.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, round(MOST_WEIGHT * STEPS))
        self.slider.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.remove = icon_button("close", "", f"Remove {name}", size=14)
        self.note = label("", "small", "", wrap=True)
        name_widget(self.weight, "", f"Weight of {name}", TIP)
        name_widget(self.slider, "", f"Weight of {name}, slider", TIP)
        guard_wheel(self.weight, self.slider)
        self.note.setVisible(False)
        head = QHBoxLayout()
        head.setSpacing(SPACE.small)
        head.addWidget(self.name, 1)
        head.addWidget(self.weight)
        head.addWidget(self.remove)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(head)
        column.addWidget(self.slider)
        column.addWidget(self.note)
        self.show_weight(lora.weight)
        self.weight.valueChanged.connect(self._follow_number)
        self.slider.valueChanged.connect(lambda steps: self._follow_number(steps / STEPS))
        self.remove.clicked.connect(self.removed)

    @property
    def lora(self) -> Lora:
        """The file and its weight."""
        return Lora(self.path, round(self.weight.value(), 2))

    def set_place(self, place: int) -> None:
        """Name the widgets by where the row is."""
        self.setObjectName(f"image_lora_{place}")
        for part in ("name", "weight", "slider", "remove", "note"):
            getattr(self, part).setObjectName(f"image_lora_{place}_{part}")

    def tell(self, problem: str, hint: str) -> None:
        """Say why the model has no use for it, or what its maker says to write."""
        self.problem = problem
        self.note.setText(breakable(f"{problem} It is left out." if problem else hint))
        set_look(self.note, kind="small_warning" if problem else "small")
        self.note.setVisible(bool(self.note.text()))
        for widget in (self.weight, self.slider):
            widget.setEnabled(not problem)

    def show_weight(self, weight: float) -> None:
        """Show how strongly it acts, without telling anyone."""
        for widget in (self.weight, self.slider):
            widget.blockSignals(True)
        self.weight.setValue(weight)
        self.slider.setValue(round(max(0.0, weight) * STEPS))
        for widget in (self.weight, self.slider):
            widget.blockSignals(False)

    def _follow_number(self, weight: float) -> None:
        self.show_weight(weight)
        self.changed.emit()


class LoraBox(QWidget):
    """All of them, and the button to add one.

    Attributes: rows. Signals: changed(), choose_wanted(), file_chosen(path) from the menu of
    those used before.
    """

    changed = Signal()
    choose_wanted = Signal()
    file_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("image_loras")
        self.rows: list[LoraRow] = []
        self._recent: tuple[str, ...] = ()
        self.hint = label(HINT, "small", "image_lora_hint", wrap=True)
        self.add = plain_button("Add LoRA…", "image_lora_add", None, "Add a LoRA file")
        self.add.clicked.connect(self._offer)
        self.menu = QMenu(self)
        self.menu.setObjectName("image_lora_menu")
        self._column = QVBoxLayout()
        self._column.setSpacing(SPACE.row)
        row = QHBoxLayout()
        row.addWidget(self.add)
        row.addStretch(1)
        self.box = frame("composer", "image_lora_box")
        inner = QVBoxLayout(self.box)
        inner.setContentsMargins(SPACE.row, SPACE.row, SPACE.row, SPACE.row)
        inner.setSpacing(SPACE.row)
        inner.addWidget(self.hint)
        inner.addLayout(self._column)
        inner.addLayout(row)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACE.row)
        column.addWidget(label("LoRA", "small"))
        column.addWidget(self.box)

    @property
    def loras(self) -> tuple[Lora, ...]:
        """All files with their weights, in order."""
        return tuple(row.lora for row in self.rows)

    @property
    def usable(self) -> tuple[Lora, ...]:
        """Those that the model can use, as far as that is known."""
        return tuple(row.lora for row in self.rows if not row.problem and row.lora.weight)

    def show_loras(self, loras: Sequence[Lora]) -> None:
        """Show these files, without telling anyone."""
        old = {row.path: row for row in self.rows}
        self.rows = []
        for place, lora in enumerate(loras[:MOST_LORAS]):
            row = old.pop(lora.path, None) or self._new_row(lora)
            row.show_weight(lora.weight)
            row.set_place(place)
            self._column.insertWidget(place, row)
            self.rows.append(row)
        for row in old.values():
            row.hide()
            row.set_place(-1)
            row.deleteLater()
        self.hint.setVisible(not self.rows)
        self.add.setEnabled(len(self.rows) < MOST_LORAS)

    def put(self, path: str) -> None:
        """One more file, at its full weight; nothing where it is there already."""
        if path not in [row.path for row in self.rows]:
            self.show_loras([*self.loras, Lora(path)])
            self.changed.emit()

    def tell(self, path: str, problem: str, hint: str) -> None:
        """What is known of a file."""
        for row in self.rows:
            if row.path == path:
                row.tell(problem, hint)

    def offer(self, recent: Sequence[str]) -> None:
        """Files to offer again in the button's menu."""
        self._recent = tuple(recent)

    def _new_row(self, lora: Lora) -> LoraRow:
        row = LoraRow(lora)
        row.changed.connect(self.changed)
        row.removed.connect(lambda: self._remove(lora.path))
        return row

    def _remove(self, path: str) -> None:
        self.show_loras([one for one in self.loras if one.path != path])
        self.changed.emit()
        self.add.setFocus()

    def _offer(self) -> None:
        """The menu of those used before, or the dialog at once where there are none."""
        here = {row.path for row in self.rows}
        recent = [path for path in self._recent if path not in here]
        if not recent:
            self.choose_wanted.emit()
            return
        self.menu.clear()
        for path in recent:
            action = self.menu.addAction(Path(path).stem)
            action.setToolTip(path)
            action.triggered.connect(lambda _=False, one=path: self.file_chosen.emit(one))
        self.menu.addSeparator()
        self.menu.addAction("Choose a file…").triggered.connect(self.choose_wanted)
        self.menu.popup(self.add.mapToGlobal(self.add.rect().bottomLeft()))
