"""The narrow rail on the left: the pages, and the memory meter at its foot."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QPainter, QPaintEvent
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QButtonGroup, QFrame, QToolButton, QVBoxLayout, QWidget

from app import theme
from app.theme import SPACE, Tokens
from app.theme.assets import asset
from app.theme.icons import RATIOS
from app.widgets.base import name_widget, wire_theme


@dataclass(frozen=True)
class PageName:
    """A page's name in the program, its word on the rail and its shortcut's key."""

    name: str
    word: str
    key: str


PAGES = (
    PageName("chat", "Chat", "Ctrl+1"),
    PageName("images", "Images", "Ctrl+2"),
    PageName("models", "Models", "Ctrl+3"),
    PageName("settings", "Settings", "Ctrl+4"),
)


class Logo(QWidget):
    """The program's icon, drawn at the screen's own resolution."""

    def __init__(self, size: int = 34) -> None:
        super().__init__()
        self.setFixedSize(size, size)
        self._renderer = QSvgRenderer(str(asset("app", "driftwood.svg")))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        self._renderer.render(painter, self.rect().toRectF())
        painter.end()


class RailButton(QToolButton):
    """An icon over a word."""

    def __init__(self, page: PageName) -> None:
        super().__init__()
        self._icon = page.name
        self.setProperty("kind", "rail")
        self.setText(page.word)
        self.setCheckable(True)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        self.setIconSize(QSize(20, 20))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setMinimumHeight(52)
        self.setFixedWidth(SPACE.rail - 2 * SPACE.row)
        name_widget(self, f"rail_{page.name}", page.word, f"{page.word} ({page.key})")
        wire_theme(self, self.recolour)

    def recolour(self, tokens: Tokens) -> None:
        """Draw the icon for both states in the theme's colours."""
        result = QIcon()
        for ratio in RATIOS:
            off = theme.pixmap(self._icon, tokens.text, 20, ratio)
            on = theme.pixmap(self._icon, tokens.accent, 20, ratio)
            result.addPixmap(off, QIcon.Mode.Normal, QIcon.State.Off)
            result.addPixmap(on, QIcon.Mode.Normal, QIcon.State.On)
        self.setIcon(result)


class Rail(QFrame):
    """The pages' buttons. Signals: page_chosen(name)."""

    page_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "rail")
        self.setObjectName("rail")
        self.setFixedWidth(SPACE.rail)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 14, 1, SPACE.row)
        self.column.setSpacing(6)
        centre = Qt.AlignmentFlag.AlignHCenter
        self.column.addWidget(Logo(), 0, centre)
        self.column.addSpacing(SPACE.inner)
        self._group = QButtonGroup(self)
        self._buttons = {page.name: RailButton(page) for page in PAGES}
        for name, button in self._buttons.items():
            self._group.addButton(button)
            self.column.addWidget(button, 0, centre)
            button.clicked.connect(lambda _checked=False, one=name: self.page_chosen.emit(one))
        self.column.addStretch(1)

    def show_page(self, name: str) -> None:
        """Mark the page that is in front."""
        self._buttons[name].setChecked(True)

    def add_meter(self, meter: QWidget) -> None:
        """Put the memory meter at the foot."""
        self.column.addWidget(meter, 0, Qt.AlignmentFlag.AlignHCenter)
