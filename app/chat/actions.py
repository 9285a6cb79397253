"""The small row below a message: what can be done with it, and its other versions."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtWidgets import QGraphicsOpacityEffect, QHBoxLayout, QWidget

from app.theme import SPACE
from app.widgets import Button, ElidedLabel, icon_button, label, quiet_button

# name -> (word, icon, tooltip)
ACTIONS = {
    "regenerate": ("Regenerate", "refresh", "Write another answer; this one is kept"),
    "continue": ("Continue", "continue", "Go on where the answer ends"),
    "edit": ("Edit", "pencil", "Change this message; the old version is kept"),
    "copy": ("Copy", "copy", "Copy this message"),
    "branch": ("Branch", "branch", "Start a new chat from here"),
}


class VersionSwitch(QWidget):
    """Two arrows around "2 / 3". Signals: version_chosen(index) with an index from 0."""

    version_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("versions")
        self._at, self._count = 0, 1
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        self.back = icon_button("chevron-left", "version_back", "Earlier version", size=14)
        self.text = label("", "small", "version_text")
        self.forth = icon_button("chevron-right", "version_forth", "Later version", size=14)
        for one in (self.back, self.text, self.forth):
            row.addWidget(one)
        self.back.clicked.connect(lambda: self.version_chosen.emit(self._at - 1))
        self.forth.clicked.connect(lambda: self.version_chosen.emit(self._at + 1))
        self.hide()

    def show_versions(self, at: int, count: int) -> None:
        """Show which of how many versions this is; hidden when there is only one."""
        self._at, self._count = at, count
        self.text.setText(f"{at + 1} / {count}")
        self.setAccessibleName(f"Version {at + 1} of {count}")
        self.back.setEnabled(at > 0)
        self.forth.setEnabled(at < count - 1)
        self.setVisible(count > 1)


class ActionRow(QWidget):
    """The actions of a message; faded until the pointer or the focus comes near.

    Signals: action_chosen(name). Attributes: versions (a VersionSwitch), stats (a label).
    """

    action_chosen = Signal(str)

    def __init__(self, names: tuple[str, ...], *, align_right: bool = False) -> None:
        super().__init__()
        self.setObjectName("actions")
        self._steady = False
        self._near = False
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACE.small)
        if align_right:
            row.addStretch(1)
        self.buttons: dict[str, Button] = {}
        for name in names:
            word, icon, tip = ACTIONS[name]
            button = quiet_button(word, f"action_{name}", icon, tip)
            button.clicked.connect(lambda _checked=False, one=name: self.action_chosen.emit(one))
            button.installEventFilter(self)
            self.buttons[name] = button
            row.addWidget(button)
        if not align_right:  # the first icon stands below the text's edge
            self.buttons[names[0]].setProperty("flush", True)
        self.versions = VersionSwitch()
        for button in (self.versions.back, self.versions.forth):
            button.installEventFilter(self)
        row.addWidget(self.versions)
        self.stats = ElidedLabel("", "small", "stats")
        if not align_right:
            row.addStretch(1)
            row.addWidget(self.stats, 0)
        self._effect = QGraphicsOpacityEffect(self)
        self.setGraphicsEffect(self._effect)
        self._apply()

    def set_steady(self, steady: bool) -> None:
        """Always visible, as below the newest answer."""
        self._steady = steady
        self._apply()

    def set_near(self, near: bool) -> None:
        """The pointer is over the message, or not."""
        self._near = near
        self._apply()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self._apply(has_focus=event.type() == QEvent.Type.FocusIn)
        return super().eventFilter(watched, event)

    def _apply(self, has_focus: bool = False) -> None:
        visible = self._steady or self._near or has_focus or self.versions.isVisibleTo(self)
        self._effect.setOpacity(1.0 if visible else 0.0)
        self._effect.setEnabled(not visible)
