"""One picture large, or two to compare, with everything one can do with it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QSlider, QVBoxLayout, QWidget

from app.images.facts import facts_of, ingredients_of
from app.images.zoom import NOTCH, ZoomView
from app.storage.pictures import Picture
from app.theme import SPACE
from app.widgets import (
    ElidedLabel,
    danger_button,
    icon_button,
    label,
    page_head,
    plain_button,
    quiet_button,
)
from app.widgets.base import name_widget

SPLITS = 100


class Viewer(QWidget):
    """The large view. Attributes: zoom (the ZoomView), picture, other.

    Signals: closed(), step_wanted(-1 or 1), action_wanted(name, [path]).
    """

    closed = Signal()
    step_wanted = Signal(int)
    action_wanted = Signal(str, list)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("viewer")
        self.picture: Picture | None = None
        self.other: Picture | None = None
        self._actions: list[QWidget] = []
        self.zoom = ZoomView()
        self.prompt = ElidedLabel("", "", "viewer_prompt")
        self.facts = ElidedLabel("", "small", "viewer_facts")
        self.ingredients = ElidedLabel("", "small", "viewer_ingredients")
        self.problem = label("", "bad", "viewer_problem", wrap=True)
        self.problem.setVisible(False)
        self.split = QSlider(Qt.Orientation.Horizontal)
        name_widget(self.split, "viewer_split", "How much of the first picture is shown")
        self.split.setRange(0, SPLITS)
        self.split.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.split.valueChanged.connect(lambda value: self.zoom.set_split(value / SPLITS))
        self.zoom.split_changed.connect(self._follow_split)
        self.zoom.zoom_changed.connect(self._follow_zoom)
        self.zoom.step_wanted.connect(self.step_wanted)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._head())
        column.addWidget(self.zoom, 1)
        column.addLayout(self._foot())

    def show_picture(self, picture: Picture, place: str) -> None:
        """Say what will be seen; the pixels follow by :meth:`show_image`."""
        self.picture, self.other = picture, None
        self.place.setText(place)
        self.prompt.set_text(picture.prompt or picture.path.name)
        self.facts.set_text(facts_of(picture))
        self.ingredients.set_text(ingredients_of(picture))
        self._set_compares(False)

    def show_two(self, first: Picture, second: Picture) -> None:
        """Two pictures in one place."""
        self.picture, self.other = first, second
        self.place.setText("Compare")
        self.prompt.set_text(f"Left: {_short(first)}")
        self.facts.set_text(f"Right: {_short(second)}")
        self._set_compares(True)

    def show_image(self, image: QImage, other: QImage | None = None) -> None:
        """The pixels."""
        self.problem.setVisible(False)
        self.zoom.show_image(image, other)
        self.zoom.setAccessibleName(f"Picture: {self.prompt.full_text()}")

    def show_problem(self, text: str) -> None:
        """Why there is nothing to see."""
        self.zoom.clear()
        self.problem.setText(text)
        self.problem.setVisible(True)

    def set_narrow(self, narrow: bool) -> None:
        """Leave the less needed out of the head, in a small window."""
        self.place.setVisible(not narrow)

    def foot_height(self) -> int:
        """How high the part below the picture is."""
        return self.height() - self.zoom.geometry().bottom() - 1

    def keyPressEvent(self, event: QKeyEvent) -> None:
        control = event.modifiers() & Qt.KeyboardModifier.ControlModifier
        names = {Qt.Key.Key_C: "copy", Qt.Key.Key_S: "save"}
        if event.key() == Qt.Key.Key_Delete:
            self._act("delete")
        elif control and event.key() in names:
            self._act(names[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def _head(self) -> QWidget:
        head, row = page_head("", "viewer_head")
        row.setSpacing(SPACE.small)
        back = quiet_button("Gallery", "viewer_back", "chevron-left", "Back to the gallery (Esc)")
        back.clicked.connect(self.closed)
        row.addWidget(back)
        self.place = label("", "small", "viewer_place")
        row.addWidget(self.place)
        row.addStretch(1)
        self.earlier = icon_button("chevron-left", "viewer_earlier", "Picture before", size=16)
        self.later = icon_button("chevron-right", "viewer_later", "Next picture", size=16)
        self.earlier.clicked.connect(lambda: self.step_wanted.emit(-1))
        self.later.clicked.connect(lambda: self.step_wanted.emit(1))
        smaller = quiet_button("\N{EN DASH}", "viewer_smaller", None, "Smaller (-)")
        self.percent = quiet_button("", "viewer_percent", None, "Show at 100 % (1)")
        larger = quiet_button("+", "viewer_larger", None, "Larger (+)")
        fit = quiet_button("Fit", "viewer_fit", None, "Show all of it (0)")
        smaller.setAccessibleName("Smaller")
        larger.setAccessibleName("Larger")
        smaller.clicked.connect(lambda: self.zoom.set_zoom(self.zoom.zoom / NOTCH))
        larger.clicked.connect(lambda: self.zoom.set_zoom(self.zoom.zoom * NOTCH))
        self.percent.clicked.connect(lambda: self.zoom.set_zoom(1.0))
        fit.clicked.connect(self.zoom.fit)
        for widget in (self.earlier, self.later, smaller, self.percent, larger, fit):
            row.addWidget(widget)
        return head

    def _foot(self) -> QVBoxLayout:
        foot = QVBoxLayout()
        foot.setContentsMargins(SPACE.group + 4, SPACE.inner, SPACE.group + 4, SPACE.group)
        foot.setSpacing(SPACE.small)
        foot.addWidget(self.split)
        foot.addWidget(self.problem)
        foot.addLayout(self._words_and_icons())
        foot.addSpacing(SPACE.small)
        row = QHBoxLayout()
        row.setSpacing(SPACE.row)
        tips = {
            "use": ("Use settings", "Put this picture's settings into the form"),
            "vary": ("Vary", "Draw it again with another seed, the rest kept"),
        }
        for name, (words, tip) in tips.items():
            button = plain_button(words, f"viewer_{name}", None, tip)
            button.clicked.connect(lambda _=False, one=name: self._act(one))
            row.addWidget(button)
            self._actions.append(button)
        row.addStretch(1)
        delete = danger_button("Delete", "viewer_delete", None, "Delete this picture (Del)")
        delete.clicked.connect(lambda: self._act("delete"))
        row.addWidget(delete)
        self._actions.append(delete)
        foot.addLayout(row)
        return foot

    def _words_and_icons(self) -> QHBoxLayout:
        """What the picture is, and the small actions at the right of it."""
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(self.prompt)
        words.addWidget(self.facts)
        words.addWidget(self.ingredients)
        row = QHBoxLayout()
        row.setSpacing(SPACE.small)
        row.addLayout(words, 1)
        icons = {
            "save": ("save", "Save a copy as… (Ctrl+S)"),
            "copy": ("copy", "Copy the picture (Ctrl+C)"),
            "start": ("images", "Use as start picture"),
            "reveal": ("folder", "Show in file manager"),
        }
        for name, (icon, tip) in icons.items():
            button = icon_button(icon, f"viewer_{name}", tip)
            button.clicked.connect(lambda _=False, one=name: self._act(one))
            row.addWidget(button)
            self._actions.append(button)
        return row

    def _act(self, name: str) -> None:
        if self.picture is not None:
            self.action_wanted.emit(name, [Path(self.picture.path)])

    def _set_compares(self, compares: bool) -> None:
        self.split.setVisible(compares)
        self.split.setValue(SPLITS // 2)
        self.ingredients.setVisible(not compares and bool(self.ingredients.full_text()))
        for widget in (self.earlier, self.later, *self._actions):  # which of two would be unclear
            widget.setVisible(not compares)

    def _follow_zoom(self, zoom: float) -> None:
        self.percent.setText(f"{zoom:.0%}".replace("%", "\N{NARROW NO-BREAK SPACE}%"))

    def _follow_split(self, split: float) -> None:
        self.split.blockSignals(True)
        self.split.setValue(round(split * SPLITS))
        self.split.blockSignals(False)


def _short(picture: Picture) -> str:
    words = [picture.prompt or picture.path.name, facts_of(picture), ingredients_of(picture)]
    return " · ".join(part for part in words if part)
