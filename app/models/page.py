"""The Models page: layout only. What happens is the controller's business."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QMimeData, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.memory import create_memory_panel
from app.models.cards import RowCard
from app.models.more import MoreCard
from app.shell.page import AppContext
from app.theme import SPACE
from app.widgets import (
    Button,
    EmptyState,
    frame,
    label,
    page_head,
    pill_button,
    plain_button,
    primary_button,
)
from app.widgets.base import name_widget

TABS = ("installed", "discover", "downloads")
PANEL_FROM = 900  # pixels of page width from which the memory panel has room
DISK_FROM = 720  # from which the words about the disk have room
SEARCH_FROM = 4  # installed models from which a search helps
GAP = 10
TEXT_WIDTH = 420

C = TypeVar("C", bound=RowCard)


class CardList(QScrollArea):
    """A column of cards that are kept, moved and dropped by name, so that focus survives.

    Attributes: top and bottom (layouts above and below the cards), cards (by name), before (the
    widget from which Tab goes to the first card).
    """

    def __init__(self, object_name: str) -> None:
        super().__init__()
        self.setObjectName(object_name)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        inner = QWidget()
        inner.setProperty("kind", "scroll")
        column = self._whole = QVBoxLayout(inner)
        self.set_right_margin(SPACE.row)
        column.setSpacing(GAP)
        self.top, self._column, self.bottom = QVBoxLayout(), QVBoxLayout(), QVBoxLayout()
        for layout in (self.top, self._column, self.bottom):
            layout.setSpacing(GAP)
            column.addLayout(layout)
        column.addStretch(1)
        self.setWidget(inner)
        self.cards: dict[str, RowCard] = {}
        self.before: QWidget | None = None

    def set_right_margin(self, right: int) -> None:
        """Room at the right: little where the memory panel stands there."""
        self._whole.setContentsMargins(SPACE.page + 4, SPACE.page - 2, right, SPACE.page)

    def arrange(self, names: Iterable[str], make: Callable[[str], RowCard]) -> None:
        """Have exactly the cards of ``names``, in this order."""
        wanted = list(names)
        moved = False
        for name in [name for name in self.cards if name not in wanted]:
            card = self.cards.pop(name)
            self._column.removeWidget(card)
            card.hide()
            card.deleteLater()
        for place, name in enumerate(wanted):
            if name not in self.cards:
                self.cards[name] = make(name)
            if self._column.indexOf(self.cards[name]) != place:
                self._column.insertWidget(place, self.cards[name])
                moved = True
        if moved:
            self._order_tabs(wanted)

    def _order_tabs(self, names: list[str]) -> None:
        """Tab goes down the cards as the eye does, then to what is below them."""
        stops: list[QWidget] = [] if self.before is None else [self.before]
        for name in names:
            stops += self.cards[name].findChildren(Button)
        for place in range(self.bottom.count()):
            item = self.bottom.itemAt(place)
            if item is not None and (widget := item.widget()) is not None:
                stops += [*widget.findChildren(QLineEdit), *widget.findChildren(Button)]
        for before, after in pairwise(stops):
            QWidget.setTabOrder(before, after)


class ModelsPage(QWidget):
    """Three tabs of cards, the memory panel beside them, and a place to drop files.

    Signals: tab_chosen(name), add_asked(), files_dropped(paths), search_changed(text),
    starter_asked(), network_asked() to allow downloads, stop_asked(), shown(), wished(dict).
    """

    tab_chosen = Signal(str)
    add_asked = Signal()
    files_dropped = Signal(list)
    search_changed = Signal(str)
    starter_asked = Signal()
    network_asked = Signal()
    stop_asked = Signal()
    shown = Signal()
    wished = Signal(dict)

    def __init__(self, memory_panel: QWidget) -> None:
        super().__init__()
        self.setObjectName("models_page")
        self.setProperty("kind", "page")
        self.setAcceptDrops(True)
        self.panel = memory_panel
        self.tabs: dict[str, Button] = {}
        self.installed = CardList("installed_list")
        self.discover = CardList("discover_list")
        self.downloads = CardList("downloads_list")
        self.search = QLineEdit()
        self.empty = self._empty_installed()
        self.no_match = label("", "dim", "models_no_match", wrap=True)
        self.no_downloads = EmptyState(
            "download",
            "No downloads",
            "What you get from Discover shows up here with its speed and the time left, "
            "and can be paused and resumed.",
            object_name="downloads_empty",
        )
        self.no_downloads.column.insertSpacing(0, 64)
        self.no_downloads.text.setFixedWidth(TEXT_WIDTH)
        self.offline = self._offline_note()
        self.more = MoreCard()
        self.stack = QStackedWidget()
        self.stack.setObjectName("models_tabs")
        self._fill_lists()
        self._lay_out()
        self.drop_veil = self._veil()

    def show_tab(self, name: str) -> None:
        """Bring a tab to the front."""
        if name in TABS:
            self.stack.setCurrentIndex(TABS.index(name))
            self.tabs[name].setChecked(True)

    @property
    def tab(self) -> str:
        """The tab in front."""
        return TABS[self.stack.currentIndex()]

    def show_counts(self, models: int, downloads: int, disk: str) -> None:
        """The words of the head: how many downloads there are, and what the disk holds."""
        text = f"Downloads {downloads}" if downloads else "Downloads"
        if self.tabs["downloads"].text() != text:
            self.tabs["downloads"].setText(text)
        self.disk.setText(disk)
        searching = bool(self.search.text()) or self.search.hasFocus()
        self.search.setVisible(models >= SEARCH_FROM or searching)

    def page_shown(self) -> None:
        """The window brought the page to the front; Tab goes to its first control from here."""
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        self.shown.emit()

    def open_search(self) -> None:
        """Ctrl+K: find a model within the installed ones."""
        self.show_tab("installed")
        self.search.setVisible(True)
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def open_files(self, paths: list[Path]) -> None:
        """Files were dropped on the window."""
        self.files_dropped.emit([str(path) for path in paths])

    def take_wishes(self, **wishes: object) -> None:
        """Another page wants a tab (tab=), a model (get=) or files added (add=)."""
        self.wished.emit(wishes)

    def stop_work(self) -> bool:
        """Esc empties the search; without one it stops what is being loaded."""
        if self.search.text():
            self.search.clear()
            return True
        self.stop_asked.emit()
        return False

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Files may be dropped; say so."""
        if _files_of(event.mimeData()):
            event.acceptProposedAction()
            self.drop_veil.setGeometry(self.rect().adjusted(12, 12, -12, -12))
            self.drop_veil.raise_()
            self.drop_veil.show()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """They went away again."""
        self.drop_veil.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        """They were dropped."""
        self.drop_veil.hide()
        paths = _files_of(event.mimeData())
        if paths:
            event.acceptProposedAction()
            self.files_dropped.emit(paths)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave the room to the cards where it is narrow; the rail's meter stays."""
        has_room = self.width() >= PANEL_FROM
        self._panel_column.setVisible(has_room)
        self.disk.setVisible(self.width() >= DISK_FROM)
        for one in (self.installed, self.discover, self.downloads):
            one.set_right_margin(SPACE.row if has_room else SPACE.page + 4)
        super().resizeEvent(event)

    def _lay_out(self) -> None:
        head, row = page_head("Models", "models_head")
        group = QButtonGroup(self)
        for name in TABS:
            button = pill_button(name.capitalize(), f"models_tab_{name}", checkable=True)
            button.setAccessibleName(f"{name.capitalize()} models".replace("ads models", "ads"))
            button.clicked.connect(lambda _=False, name=name: self.tab_chosen.emit(name))
            group.addButton(button)
            row.addWidget(button)
            self.tabs[name] = button
        row.addStretch()
        self.disk = label("", "small", "models_disk")
        self.disk.setToolTip("What your models take on this disk, and what is left on it")
        row.addWidget(self.disk)
        add = plain_button(
            "Add file…",
            "models_add",
            None,
            "Add a .gguf or .safetensors file from this computer (or drop it here)",
        )
        add.clicked.connect(self.add_asked)
        row.addWidget(add)
        for one in (self.installed, self.discover, self.downloads):
            one.before = add
        self._panel_column = QWidget()
        side = QVBoxLayout(self._panel_column)
        side.setContentsMargins(SPACE.row, SPACE.page - 2, SPACE.page + 4, SPACE.page)
        side.addWidget(self.panel)
        side.addStretch()
        body = QHBoxLayout()
        body.setSpacing(0)
        body.addWidget(self.stack, 1)
        body.addWidget(self._panel_column)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(head)
        column.addLayout(body, 1)
        self.show_tab("installed")

    def _fill_lists(self) -> None:
        name_widget(self.search, "models_search", "Search installed models")
        self.search.setPlaceholderText("Search installed models")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self.search_changed)
        self.search.setVisible(False)
        self.installed.top.addWidget(self.search)
        self.installed.bottom.addWidget(self.no_match)
        self.installed.bottom.addWidget(self.empty)
        self.discover.top.addWidget(self.offline)
        self.more.add_asked.connect(self.add_asked)
        self.discover.bottom.addWidget(self.more)
        self.downloads.bottom.addWidget(self.no_downloads)
        for widget in (self.no_match, self.empty):
            widget.setVisible(False)
        for one in (self.installed, self.discover, self.downloads):
            self.stack.addWidget(one)

    def _empty_installed(self) -> EmptyState:
        button = primary_button("Get the starter model", "models_get_starter", "download")
        button.clicked.connect(self.starter_asked)
        empty = EmptyState(
            "models",
            "Your models will be here",
            "A model is the file that does the answering, on this computer. The starter is small "
            "and quick; Discover has stronger ones. You can also drop a model file here.",
            button,
            "models_empty",
        )
        empty.column.insertSpacing(0, 64)
        empty.text.setFixedWidth(TEXT_WIDTH)
        return empty

    def _offline_note(self) -> QWidget:
        note = frame("note", "discover_offline")
        row = QHBoxLayout(note)
        row.setContentsMargins(SPACE.group, SPACE.row, SPACE.row, SPACE.row)
        row.addWidget(label("Downloads are switched off in Settings.", "dim"), 1)
        button = plain_button("Open settings", "discover_open_settings")
        button.clicked.connect(self.network_asked)
        row.addWidget(button)
        note.setVisible(False)
        return note

    def _veil(self) -> QFrame:
        veil = frame("composer", "models_drop_veil")
        veil.setParent(self)
        veil.setProperty("dropping", "true")
        veil.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        column = QVBoxLayout(veil)
        words = label("Drop a model file to add it to your models", "title")
        column.addWidget(words, 0, Qt.AlignmentFlag.AlignCenter)
        veil.hide()
        return veil


def create_page(context: AppContext) -> ModelsPage:
    """The page, joined to the worker."""
    from app.models.controller import ModelsController  # it knows this module

    page = ModelsPage(create_memory_panel(context))
    ModelsController(context, page)  # the page owns it
    return page


def _files_of(mime: QMimeData) -> list[str]:
    """The local files of a drag."""
    return [url.toLocalFile() for url in mime.urls() if url.isLocalFile()]
