"""A line of chips that hides the last ones where it has no room, instead of cutting words."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.widgets.labels import Chip

GAP = 6


class ChipRow(QWidget):
    """Shows words as chips. Attributes: words."""

    def __init__(self, tip: Callable[[str], str] = str) -> None:
        super().__init__()
        self._tip = tip
        self._chips: list[Chip] = []
        self.words: tuple[str, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def show_words(self, words: tuple[str, ...]) -> None:
        """Show these words; the same ones again change nothing."""
        if words == self.words:
            return
        self.words = words
        for chip in self._chips:
            chip.hide()
            chip.deleteLater()
        self._chips = [Chip(word, tip=self._tip(word)) for word in words]
        for chip in self._chips:
            chip.setParent(self)
        self.setAccessibleName(", ".join(words))
        self.updateGeometry()
        self._place()

    def sizeHint(self) -> QSize:
        """As wide as all chips, as high as one."""
        hints = [chip.sizeHint() for chip in self._chips]
        width = sum(hint.width() for hint in hints) + GAP * max(0, len(hints) - 1)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSizeHint(self) -> QSize:
        """Any width will do."""
        return QSize(0, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Place the chips again."""
        super().resizeEvent(event)
        self._place()

    def _place(self) -> None:
        left = 0
        has_room = True
        for chip in self._chips:
            chip.ensurePolished()
            hint = chip.sizeHint()
            has_room = has_room and left + hint.width() <= self.width()
            chip.setGeometry(left, 0, hint.width(), hint.height())
            chip.setVisible(has_room)
            left += hint.width() + GAP
