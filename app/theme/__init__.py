"""How the program looks: colour tokens, a style sheet made from them, and recoloured icons."""

from app.theme.icons import icon, pixmap
from app.theme.theme import MODES, Theme, current, install
from app.theme.tokens import DARK, LIGHT, RADIUS, SPACE, Tokens, points

__all__ = [
    "DARK",
    "LIGHT",
    "MODES",
    "RADIUS",
    "SPACE",
    "Theme",
    "Tokens",
    "current",
    "icon",
    "install",
    "pixmap",
    "points",
]
