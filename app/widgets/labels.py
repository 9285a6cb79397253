"""Texts: labels by kind, elided labels, chips and icons that follow the theme."""

from __future__ import annotations

import re

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app import theme
from app.theme import Tokens
from app.widgets.base import wire_theme

_LONG = re.compile(r"\S{24,}")
_PIECE = re.compile(r"[^\s._/\\-]{0,20}[._/\\-]|\S{1,20}")


def label(text: str, kind: str = "", object_name: str = "", *, wrap: bool = False) -> QLabel:
    """A plain-text label.

    kind: "" (body), "title", "strong", "dim", "small" (dim), "small_text", "group" (heading of a
    group), "accent", "warning", "small_warning", "bad" or "chip".
    """
    result = QLabel(text)
    result.setTextFormat(Qt.TextFormat.PlainText)
    result.setProperty("kind", kind)
    result.setWordWrap(wrap)
    result.setObjectName(object_name)
    return result


def breakable(text: str) -> str:
    """A text whose long words (paths, names of weights) may be broken over lines.

    A label that wraps is at least as wide as its longest word.
    """
    return _LONG.sub(lambda word: "\N{ZERO WIDTH SPACE}".join(_PIECE.findall(word[0])), text)


def title_label(text: str, object_name: str = "") -> QLabel:
    """The title of a page."""
    return label(text, "title", object_name)


class ElidedLabel(QLabel):
    """One line that ends in "…" where it has no room; the whole text is then the tooltip."""

    def __init__(self, text: str = "", kind: str = "", object_name: str = "") -> None:
        super().__init__()
        self._text = text
        self._tip = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("kind", kind)
        self.setObjectName(object_name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_text(text)

    def set_text(self, text: str) -> None:
        """Show another text."""
        self._text = text
        self.setAccessibleName(text)
        self.updateGeometry()
        self._elide()

    def set_tip(self, tip: str) -> None:
        """A tooltip for while the text is not shortened."""
        self._tip = tip
        self._elide()

    def full_text(self) -> str:
        """The text before it is shortened."""
        return self._text

    def minimumSizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance("…"), super().minimumSizeHint().height())

    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(self._text) + 4
        return QSize(width, super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        line = self._text.replace("\n", " ")
        shown = self.fontMetrics().elidedText(line, Qt.TextElideMode.ElideRight, self.width())
        self.setText(shown)
        tip = f"{self._text}\n{self._tip}".strip() if shown != line else self._tip
        self.setToolTip(tip)


class Chip(QLabel):
    """A small framed word, such as a quantisation or a licence."""

    def __init__(self, text: str, object_name: str = "", tip: str = "") -> None:
        super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("kind", "chip")
        self.setObjectName(object_name)
        self.setToolTip(tip)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)


class IconLabel(QWidget):
    """An icon in the colour of a token; decoration, so it has no accessible name."""

    def __init__(self, name: str, role: str = "dim", size: int = 18) -> None:
        super().__init__()
        self._name, self._role, self._size = name, role, size
        self.setFixedSize(size, size)
        wire_theme(self, self.recolour)

    def set_icon(self, name: str, role: str | None = None) -> None:
        """Show another icon or colour."""
        self._name, self._role = name, role or self._role
        self.update()

    def recolour(self, _tokens: Tokens) -> None:
        """Draw again in the theme's colour."""
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        colour = getattr(theme.current().tokens, self._role)
        painter = QPainter(self)
        ratio = self.devicePixelRatioF()
        painter.drawPixmap(0, 0, theme.pixmap(self._name, colour, self._size, ratio))
        painter.end()
