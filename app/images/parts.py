"""Small parts of the form: what folds out, and a seed with its lock and dice."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QRegularExpression, Qt, Signal
from PySide6.QtGui import QKeyEvent, QRegularExpressionValidator, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from app.images.values import MOST_SEED, random_seed
from app.theme import SPACE
from app.widgets import icon_button, quiet_button
from app.widgets.base import name_widget


class TextBox(QPlainTextEdit):
    """A few lines of text; Tab leaves it. Signals: draw_wanted() on Ctrl+Enter."""

    draw_wanted = Signal()

    def __init__(self, lines: int) -> None:
        super().__init__()
        self._lines = lines
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.draw_wanted.emit()
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()
        super().resizeEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Dropped files are the page's business: their names are no prompt."""
        return not source.hasUrls() and super().canInsertFromMimeData(source)

    def _fit(self) -> None:
        self.setFixedHeight(self.fontMetrics().lineSpacing() * self._lines + 24)


class Disclosure(QWidget):
    """A line of words that folds out what is below it.

    Attributes: body (the layout of what is folded away), button. Signals: toggled(is_open).
    """

    toggled = Signal(bool)

    def __init__(self, words: str, object_name: str, tip: str = "") -> None:
        super().__init__()
        self.button = quiet_button(words, object_name, "chevron-right", tip)
        self.button.setCheckable(True)
        self.button.setProperty("flush", True)
        self.button.toggled.connect(self._fold)
        self._holder = QWidget()
        self.body = QVBoxLayout(self._holder)
        self.body.setContentsMargins(0, SPACE.small, 0, 0)
        self.body.setSpacing(SPACE.row)
        self._holder.setVisible(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        row = QHBoxLayout()
        row.addWidget(self.button)
        row.addStretch(1)
        column.addLayout(row)
        column.addWidget(self._holder)

    @property
    def is_open(self) -> bool:
        """Whether it is folded out."""
        return self.button.isChecked()

    def set_open(self, is_open: bool) -> None:
        """Fold out or away."""
        self.button.setChecked(is_open)

    def _fold(self, is_open: bool) -> None:
        self.button.set_icon("chevron-down" if is_open else "chevron-right", "dim")
        self._holder.setVisible(is_open)
        self.toggled.emit(is_open)


class SeedField(QWidget):
    """A seed: locked it is used again, open another one is drawn for every order.

    Signals: changed().
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.number = QLineEdit()
        tip = "The same seed and settings make the same picture, on every computer"
        name_widget(self.number, "image_seed", "Seed", tip)
        self.number.setValidator(
            QRegularExpressionValidator(QRegularExpression("[0-9]{0,16}"), self.number)
        )
        self.lock = icon_button("unlock", "image_seed_lock", "Keep this seed", size=16)
        self.lock.setCheckable(True)
        self.dice = icon_button("dice", "image_seed_dice", "Another seed, and keep it", size=16)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACE.small)
        row.addWidget(self.number, 1)
        row.addWidget(self.lock)
        row.addWidget(self.dice)
        self._last: int | None = None
        self.number.textEdited.connect(self._follow_text)
        self.lock.clicked.connect(self._follow_lock)
        self.dice.clicked.connect(self._throw)
        self.set_seed(None)

    @property
    def seed(self) -> int | None:
        """The locked seed; None: another one each time."""
        text = self.number.text()
        return min(int(text), MOST_SEED) if text and self.lock.isChecked() else None

    def set_seed(self, seed: int | None) -> None:
        """Show a locked seed, or none."""
        self.number.setText("" if seed is None else str(seed))
        self._set_locked(seed is not None)

    def note_used(self, seed: int) -> None:
        """The last order had this seed; the lock would keep it."""
        self._last = seed
        self._say()

    def _set_locked(self, locked: bool) -> None:
        self.lock.setChecked(locked)
        self.lock.set_icon("lock" if locked else "unlock")
        words = "Use another seed each time" if locked else "Keep the last seed"
        self.lock.setToolTip(words)
        self.lock.setAccessibleName(words)
        self._say()

    def _say(self) -> None:
        last = f": {self._last}" if self._last is not None else ""
        self.number.setPlaceholderText(f"Random{last}")

    def _follow_text(self, text: str) -> None:
        self._set_locked(bool(text))
        self.changed.emit()

    def _follow_lock(self) -> None:
        if self.lock.isChecked():
            self.set_seed(random_seed() if self._last is None else self._last)
        else:
            self.set_seed(None)
        self.changed.emit()

    def _throw(self) -> None:
        self.set_seed(random_seed())
        self.changed.emit()
