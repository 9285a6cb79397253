"""The theme in use: follows the system or a choice, and tells everyone when it changes."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QIcon, QPalette
from PySide6.QtWidgets import QApplication, QStyle

from app.theme.assets import assets_folder
from app.theme.icons import icon
from app.theme.style import style_sheet
from app.theme.tokens import DARK, LIGHT, TYPE, Tokens, points

MODES = ("system", "light", "dark")

_installed: list[Theme] = []


class ThemeError(RuntimeError):
    """Something asked for the theme before install() was called."""


class Theme(QObject):
    """The theme of the running application.

    Attributes: mode ("system", "light" or "dark"), tokens (the colours in use).
    Signals: changed(tokens) after the style sheet and palette were replaced.
    """

    changed = Signal(object)

    def __init__(self, application: QApplication, mode: str = "system") -> None:
        super().__init__(application)
        self._application = application
        self.mode = mode
        self.tokens: Tokens = LIGHT
        application.setStyle("Fusion")
        application.setFont(interface_font())
        self._hints = application.styleHints()
        accessibility = getattr(self._hints, "accessibility", None)  # since Qt 6.10
        self._accessibility = accessibility() if accessibility is not None else None
        self._hints.colorSchemeChanged.connect(self._follow_system)
        self.set_mode(mode)

    def set_mode(self, mode: str) -> None:
        """Use "light", "dark", or what the system says ("system", also for unknown words)."""
        self.mode = mode if mode in MODES else "system"
        if self.mode == "system":
            self._hints.unsetColorScheme()
        else:  # title bars and the system's own dialogs follow as well
            self._hints.setColorScheme(
                Qt.ColorScheme.Dark if self.mode == "dark" else Qt.ColorScheme.Light
            )
        self._apply()

    def icon(self, name: str, role: str = "dim", size: int = 18) -> QIcon:
        """The icon in the colour of a token named `role`, faint when disabled."""
        return icon(name, getattr(self.tokens, role), size, disabled=self.tokens.faint)

    def motion(self, milliseconds: int) -> int:
        """How long an animation may take: 0 where the system asks for reduced motion."""
        preference = getattr(self._accessibility, "motionPreference", None)  # since Qt 6.12
        if preference is not None and "Reduced" in str(preference()):
            return 0
        hint = QStyle.StyleHint.SH_Widget_Animation_Duration
        return milliseconds if self._application.style().styleHint(hint) > 0 else 0

    def _follow_system(self) -> None:
        if self.mode == "system":
            self._apply()

    def _wanted(self) -> Tokens:
        if self.mode != "system":
            return DARK if self.mode == "dark" else LIGHT
        is_dark = self._hints.colorScheme() == Qt.ColorScheme.Dark
        return DARK if is_dark else LIGHT

    def _apply(self) -> None:
        self.tokens = self._wanted()
        self._application.setPalette(palette(self.tokens))
        self._application.setStyleSheet(
            style_sheet(self.tokens, (assets_folder() / "icons").as_posix())
        )
        self.changed.emit(self.tokens)


def install(application: QApplication, mode: str = "system") -> Theme:
    """Give the application its theme; a second call only sets the mode."""
    if _installed and _installed[0].parent() is application:
        _installed[0].set_mode(mode)
        return _installed[0]
    _installed[:] = [Theme(application, mode)]
    return _installed[0]


def current() -> Theme:
    """The installed theme; raises ThemeError before install()."""
    if not _installed:
        raise ThemeError("The theme is not installed yet. Call app.theme.install first.")
    return _installed[0]


def interface_font(size: float = TYPE.body, *, semibold: bool = False) -> QFont:
    """The system's interface font at `size` points."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPointSizeF(points(size))
    if semibold:
        font.setWeight(QFont.Weight.DemiBold)
    return font


def mono_font(size: float = TYPE.mono) -> QFont:
    """The system's fixed-width font at `size` points."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPointSizeF(points(size))
    return font


def palette(tokens: Tokens) -> QPalette:
    """The palette for what the style sheet does not reach: selections, links, native parts."""
    role = QPalette.ColorRole
    colours = {
        role.Window: tokens.background,
        role.WindowText: tokens.text,
        role.Base: tokens.panel,
        role.AlternateBase: tokens.sunken,
        role.Text: tokens.text,
        role.Button: tokens.panel,
        role.ButtonText: tokens.text,
        role.BrightText: tokens.bad,
        role.PlaceholderText: tokens.dim,
        role.Highlight: tokens.accent,
        role.HighlightedText: tokens.on_accent,
        role.Link: tokens.accent,
        role.LinkVisited: tokens.accent,
        role.ToolTipBase: tokens.panel,
        role.ToolTipText: tokens.text,
        role.Mid: tokens.line,
        role.Accent: tokens.accent,
    }
    result = QPalette()
    for name, colour in colours.items():
        result.setColor(name, QColor(colour))
    for name in (role.Text, role.WindowText, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, name, QColor(tokens.faint))
    return result
