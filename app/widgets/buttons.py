"""Buttons: primary (one a page), plain, danger, quiet, icon and pill."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app import theme
from app.theme import Tokens
from app.widgets.base import name_widget, wire_theme


class Button(QPushButton):
    """A button whose icon follows the theme.

    Attributes: kind ("primary", "plain", "danger", "quiet", "icon", "pill", "rail").
    Mouse clicks do not take the focus, so a focus ring shows only to who works by keyboard.
    """

    def __init__(
        self,
        text: str,
        kind: str,
        icon: str | None = None,
        *,
        icon_role: str = "dim",
        icon_size: int = 18,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(text, parent)
        self.kind = kind
        self._icon = icon
        self._role = icon_role
        self._checked_role = "accent"
        self.setProperty("kind", kind)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setIconSize(QSize(icon_size, icon_size))
        self.setAutoDefault(False)
        wire_theme(self, self.recolour)
        self.toggled.connect(self._follow_check)

    def set_icon(self, name: str | None, role: str | None = None) -> None:
        """Show another icon, in the colour of another token if `role` is given."""
        self._icon = name
        self._role = role or self._role
        self.recolour(theme.current().tokens)

    def recolour(self, tokens: Tokens) -> None:
        """Draw the icon in the theme's colour."""
        if self._icon is None:
            return
        role = self._checked_role if self.isChecked() else self._role
        size = self.iconSize().width()
        disabled = tokens.dim if self.kind == "primary" else tokens.faint
        self.setIcon(theme.icon(self._icon, getattr(tokens, role), size, disabled))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):  # as well as Space
            self.click()
            return
        super().keyPressEvent(event)

    def _follow_check(self) -> None:
        self.recolour(theme.current().tokens)


def _named(button: Button, object_name: str, tip: str, accessible: str = "") -> Button:
    name_widget(button, object_name, accessible or button.text() or tip, tip)
    return button


def primary_button(text: str, object_name: str, icon: str | None = None, tip: str = "") -> Button:
    """The one thing to do on a page."""
    return _named(Button(text, "primary", icon, icon_role="on_accent"), object_name, tip)


def plain_button(text: str, object_name: str, icon: str | None = None, tip: str = "") -> Button:
    """An ordinary action."""
    return _named(Button(text, "plain", icon), object_name, tip)


def danger_button(text: str, object_name: str, icon: str | None = None, tip: str = "") -> Button:
    """An action that takes something away; its words must say what."""
    return _named(Button(text, "danger", icon, icon_role="bad"), object_name, tip)


def quiet_button(text: str, object_name: str, icon: str | None = None, tip: str = "") -> Button:
    """A small action in a row of actions, without a frame."""
    return _named(Button(text, "quiet", icon, icon_size=14), object_name, tip)


def icon_button(icon: str, object_name: str, tip: str, *, size: int = 18) -> Button:
    """An icon alone; the tooltip is required and is also its accessible name."""
    return _named(Button("", "icon", icon, icon_size=size), object_name, tip)


def pill_button(
    text: str, object_name: str, icon: str | None = None, tip: str = "", *, checkable: bool = False
) -> Button:
    """A rounded button that shows a state, opens a menu, or (checkable) filters a page."""
    button = _named(Button(text, "pill", icon, icon_size=16), object_name, tip)
    button.setCheckable(checkable)
    return button
