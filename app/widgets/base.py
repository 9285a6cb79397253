"""What all widgets share: the look chosen by a property, and following the theme."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app import theme
from app.theme import Tokens


def set_look(widget: QWidget, **properties: object) -> None:
    """Set dynamic properties that the style sheet selects by, and let the style look again."""
    changed = [(k, v) for k, v in properties.items() if widget.property(k) != v]
    for name, value in changed:
        widget.setProperty(name, value)
    if changed:
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def wire_theme(owner: QObject, recolour: Callable[[Tokens], None]) -> None:
    """Call `recolour` (a bound method of `owner`) now and after every change of the theme."""
    current = theme.current()
    current.changed.connect(recolour)
    recolour(current.tokens)


def name_widget(widget: QWidget, object_name: str, accessible: str = "", tip: str = "") -> None:
    """Give a widget the name tests find it by, the name a screen reader says, and its tooltip."""
    widget.setObjectName(object_name)
    if accessible or tip:
        widget.setAccessibleName(accessible or tip)
    if tip:
        widget.setToolTip(tip)
