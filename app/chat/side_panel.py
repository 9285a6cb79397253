"""The panel at the right of a chat: system prompt, sampling and context, each with a default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QSlider,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.chat.defaults import DIALS, Dial
from app.theme import SPACE
from app.widgets import guard_wheels_in, icon_button, label, quiet_button, title_label
from app.widgets.base import name_widget

WIDTH = 300


class DialRow(QWidget):
    """A word, a slider and a number that agree. Signals: changed(value)."""

    changed = Signal(float)

    def __init__(self, dial: Dial) -> None:
        super().__init__()
        self._scale = 10**dial.decimals
        self.setToolTip(dial.tip)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        head = QHBoxLayout()
        word = label(dial.word, "small", f"{dial.name}_label")
        self.number = QDoubleSpinBox() if dial.decimals else QSpinBox()
        self.number.setRange(dial.low, dial.high)  # type: ignore[arg-type]
        if isinstance(self.number, QDoubleSpinBox):
            self.number.setDecimals(dial.decimals)
            self.number.setSingleStep(1 / self._scale if dial.decimals < 2 else 0.05)
        self.number.setProperty("kind", "compact")
        self.number.setFixedWidth(68)
        self.number.setAlignment(Qt.AlignmentFlag.AlignRight)
        name_widget(self.number, dial.name, dial.word, dial.tip)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(round(dial.low * self._scale), round(dial.high * self._scale))
        name_widget(self.slider, f"{dial.name}_slider", f"{dial.word}, slider", dial.tip)
        self.slider.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        head.addWidget(word)
        head.addStretch(1)
        head.addWidget(self.number)
        column.addLayout(head)
        column.addWidget(self.slider)
        self.number.valueChanged.connect(self._follow_number)
        self.slider.valueChanged.connect(self._follow_slider)

    def set_value(self, value: float) -> None:
        """Show a value without telling anyone."""
        for widget in (self.number, self.slider):
            widget.blockSignals(True)
        self.slider.setValue(round(value * self._scale))
        self.number.setValue(value if self._scale > 1 else int(value))  # type: ignore[arg-type]
        for widget in (self.number, self.slider):
            widget.blockSignals(False)

    def _follow_number(self, value: float) -> None:
        self.set_value(value)
        self.changed.emit(float(value))

    def _follow_slider(self, steps: int) -> None:
        self.set_value(steps / self._scale)
        self.changed.emit(steps / self._scale)


class SidePanel(QFrame):
    """The panel. Signals: values_changed(dict), closed(), default_wanted(), reset_wanted().

    Values are those of app.chat.defaults.GENERAL with "system" (text) and "context" (0: as in the
    settings).
    """

    values_changed = Signal(dict)
    closed = Signal()
    default_wanted = Signal()
    reset_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "side_right")
        self.setObjectName("side_panel")
        self.setFixedWidth(WIDTH)
        self._values: dict[str, Any] = {}
        self._wait = QTimer(self)
        self._wait.setSingleShot(True)
        self._wait.setInterval(300)
        self._wait.timeout.connect(lambda: self.values_changed.emit(dict(self._values)))
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        inner = QWidget()
        inner.setProperty("kind", "scroll")
        scroll.setWidget(inner)
        outer.addWidget(scroll)
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(SPACE.group, SPACE.inner, SPACE.group, SPACE.group)
        self._column.setSpacing(SPACE.row)
        self._add_head()
        self._add_system()
        self._dials: dict[str, DialRow] = {}
        for dial in DIALS:
            self._add_dial(dial)
        self._add_numbers()
        self._add_foot()
        guard_wheels_in(inner)

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show a chat's values without telling anyone."""
        self.flush()
        self._values = dict(values)
        for name, row in self._dials.items():
            row.set_value(float(values[name]))
        for widget in (self.system, self.stop, *self._numbers.values()):
            widget.blockSignals(True)
        if self.system.toPlainText() != values["system"]:
            self.system.setPlainText(values["system"])
        self.stop.setText(values["stop"])
        for name, field in self._numbers.items():
            field.setValue(int(values[name]))
        for widget in (self.system, self.stop, *self._numbers.values()):
            widget.blockSignals(False)

    def flush(self) -> None:
        """Tell a change that is still waiting."""
        if self._wait.isActive():
            self._wait.stop()
            self.values_changed.emit(dict(self._values))

    def _set(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._wait.start()

    def _add_head(self) -> None:
        row = QHBoxLayout()
        row.addWidget(title_label("This chat", "side_title"))
        row.addStretch(1)
        close = icon_button("close", "side_close", "Close the panel", size=16)
        close.clicked.connect(self.closed)
        row.addWidget(close)
        self._column.addLayout(row)

    def _add_system(self) -> None:
        self._column.addWidget(label("System prompt", "small"))
        self.system = QPlainTextEdit()
        tip = "What the model is told before every chat message. It is never dropped."
        name_widget(self.system, "system_prompt", "System prompt", tip)
        self.system.setPlaceholderText("For example: answer in short sentences.")
        self.system.setTabChangesFocus(True)
        self.system.setFixedHeight(self.system.fontMetrics().lineSpacing() * 4 + 22)
        self.system.textChanged.connect(lambda: self._set("system", self.system.toPlainText()))
        self._column.addWidget(self.system)
        self._column.addSpacing(SPACE.row)

    def _add_dial(self, dial: Dial) -> None:
        row = DialRow(dial)
        row.changed.connect(lambda value: self._set(dial.name, value))
        self._dials[dial.name] = row
        self._column.addWidget(row)

    def _add_numbers(self) -> None:
        self._numbers = {
            "max_tokens": _number(0, 1_000_000, "No limit", "Longest answer in tokens"),
            "seed": _number(-1, 2**31 - 1, "Random", "The same seed and prompt repeat an answer"),
            "context": _number(
                0, 10_000_000, "Automatic", "Context in tokens. More needs more GPU memory"
            ),
        }
        words = {"max_tokens": "Longest answer", "seed": "Seed", "context": "Context"}
        for name, field in self._numbers.items():
            name_widget(field, name, words[name], field.toolTip())
            field.valueChanged.connect(lambda value, one=name: self._set(one, value))
            self._column.addLayout(_line(words[name], field))
        self._numbers["context"].setSingleStep(1024)
        self.stop = QLineEdit()
        name_widget(self.stop, "stop_words", "Stop words", "The answer ends before any of these")
        self.stop.setPlaceholderText("END, ###")
        self.stop.textChanged.connect(lambda text: self._set("stop", text))
        self.stop.setProperty("kind", "compact")
        self.stop.setFixedWidth(116)
        self._column.addLayout(_line("Stop words", self.stop))

    def _add_foot(self) -> None:
        self._column.addSpacing(SPACE.row)
        row = QHBoxLayout()
        keep = quiet_button("Use for new chats", "use_as_default", "check")
        keep.setToolTip("New chats begin with this system prompt and these values")
        back = quiet_button("Reset", "reset_values", "undo", "Back to this model's defaults")
        keep.clicked.connect(self.default_wanted)
        back.clicked.connect(self.reset_wanted)
        row.addWidget(keep)
        row.addWidget(back)
        row.addStretch(1)
        self._column.addLayout(row)
        self._column.addStretch(1)


def _number(low: int, high: int, lowest: str, tip: str) -> QSpinBox:
    field = QSpinBox()
    field.setRange(low, high)
    field.setSpecialValueText(lowest)
    field.setGroupSeparatorShown(True)
    field.setProperty("kind", "compact")
    field.setFixedWidth(116)
    field.setAlignment(Qt.AlignmentFlag.AlignRight)
    field.setToolTip(tip)
    return field


def _line(word: str, field: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    row.addWidget(label(word, "small"))
    row.addStretch(1)
    row.addWidget(field)
    return row
