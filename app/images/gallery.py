"""The gallery: a grid of tiles that stays smooth with thousands of pictures."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QKeyEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QListView,
    QMenu,
    QStackedWidget,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.images.gallery_model import PICTURE, GalleryModel, Sorting
from app.images.tiles import RADIUS, Tiles
from app.images.values import pictures_words
from app.storage.pictures import Picture
from app.theme import SPACE
from app.widgets import label, page_head, pill_button
from app.widgets.base import name_widget

TILE = 176  # pixels of the smallest tile with its gap
GAP = 14
SCROLL_BAR = 12
ROOMY = 480  # pixels of width from which the head has room for everything
# name -> words of the menu
ACTIONS = {
    "open": "Open",
    "use": "Use these settings",
    "vary": "Vary",
    "start": "Use as start picture",
    "save": "Save as…",
    "copy": "Copy",
    "copy_text": "Copy settings as text",
    "reveal": "Show in file manager",
    "delete": "Delete",
}


class TileDelegate(QStyledItemDelegate):
    """Paints a tile: the picture, or a quiet ground until it is there."""

    def __init__(self, tiles: Tiles, view: QListView) -> None:
        super().__init__(view)
        self._tiles = tiles
        self._view = view

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        return self._view.gridSize()

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        picture: Picture = index.data(PICTURE)
        place: QRect = option.rect  # type: ignore[attr-defined]
        side = min(place.width(), place.height()) - GAP
        area = QRect(place.left() + GAP // 2, place.top() + GAP // 2, side, side)
        tile = self._tiles.get(picture, side, self._view.devicePixelRatioF())
        tokens = theme.current().tokens
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if tile is not None:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.drawPixmap(area, tile)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens.sunken))
            painter.drawRoundedRect(area, RADIUS, RADIUS)
            if picture.path in self._tiles.problems:
                self._paint_broken(painter, area, picture)
        self._paint_ring(painter, area, option.state)  # type: ignore[attr-defined]
        painter.restore()

    def _paint_broken(self, painter: QPainter, area: QRect, picture: Picture) -> None:
        tokens = theme.current().tokens
        ratio = self._view.devicePixelRatioF()
        mark = theme.pixmap("warning", tokens.warning, 24, ratio)
        painter.drawPixmap(area.center().x() - 12, area.center().y() - 30, mark)
        painter.setPen(QColor(tokens.text))
        below = area.adjusted(8, area.height() // 2, -8, -8)
        wrap = Qt.TextFlag.TextWrapAnywhere | Qt.AlignmentFlag.AlignHCenter
        painter.drawText(below, int(wrap), f"{picture.path.name}\ncannot be shown")

    def _paint_ring(self, painter: QPainter, area: QRect, state: QStyle.StateFlag) -> None:
        tokens = theme.current().tokens
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        has_focus = bool(state & QStyle.StateFlag.State_HasFocus) and self._view.hasFocus()
        is_near = bool(state & QStyle.StateFlag.State_MouseOver)
        if not (is_selected or has_focus or is_near):
            return
        colour = tokens.accent if is_selected or has_focus else tokens.faint
        pen = QPen(QColor(colour), 2)
        if has_focus and not is_selected:
            pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(QRectF(area).adjusted(-3, -3, 3, 3), RADIUS + 2, RADIUS + 2)


class GalleryList(QListView):
    """The grid. Signals: key_action(name) for Delete, Ctrl+C and Ctrl+S."""

    key_action = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        name_widget(self, "gallery_list", "Pictures, newest first")
        self.setViewMode(QListView.ViewMode.IconMode)
        self.setMovement(QListView.Movement.Static)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setUniformItemSizes(True)
        self.setSpacing(0)
        self.setWordWrap(False)
        self.setMouseTracking(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalScrollBar().setSingleStep(40)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()
        super().resizeEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, control = event.key(), event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.key_action.emit("delete")
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.key_action.emit("open")
        elif control and key == Qt.Key.Key_C:
            self.key_action.emit("copy")
        elif control and key == Qt.Key.Key_S:
            self.key_action.emit("save")
        else:
            super().keyPressEvent(event)

    def _fit(self) -> None:
        """Tiles as wide as fill the width, in the columns it has room for."""
        width = max(1, self.width() - SCROLL_BAR)  # the same with and without it: nothing jumps
        side = max(TILE // 2, width // max(1, width // TILE))
        if self.gridSize().width() != side:
            self.setGridSize(QSize(side, side))


class Gallery(QWidget):
    """The grid with its head. Attributes: model, view, above (a layout for what is being drawn),
    stack (its second page is shown while there is no picture), is_known (the folder was read).

    Signals: action_wanted(name, paths) with a name of ACTIONS or "compare".
    """

    action_wanted = Signal(str, list)

    def __init__(self, tiles: Tiles) -> None:
        super().__init__()
        self.setObjectName("gallery")
        self.is_known = False
        self.model = GalleryModel(self)
        tiles.made.connect(self.model.note_made)
        self.view = GalleryList()
        self.view.setModel(self.model)
        self.view.setItemDelegate(TileDelegate(tiles, self.view))
        self.view.activated.connect(lambda _index: self._act("open"))
        self.view.key_action.connect(self._act)
        self.view.selectionModel().selectionChanged.connect(self._follow_selection)
        self.no_match = label("", "dim", "gallery_no_match")
        self.no_match.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.no_match.setVisible(False)
        self.above = QVBoxLayout()
        self.above.setContentsMargins(SPACE.group + 4, 0, SPACE.group + 4, 0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._head())
        column.addSpacing(SPACE.group)
        column.addLayout(self.above)
        column.addWidget(self.no_match)
        grid = QWidget()
        body = QVBoxLayout(grid)
        body.setContentsMargins(SPACE.group + 4 - GAP // 2, 0, 2, 0)
        body.addWidget(self.view)
        self.stack = QStackedWidget()  # the grid, or what is shown while there is no picture
        self.stack.setObjectName("gallery_stack")
        self.stack.addWidget(grid)
        column.addWidget(self.stack, 1)
        for signal in (self.model.rowsInserted, self.model.rowsRemoved, self.model.modelReset):
            signal.connect(self.show_counts)
        self.show_counts()

    def selected(self) -> list[Path]:
        """The chosen pictures, in the order shown."""
        rows = sorted(index.row() for index in self.view.selectedIndexes())
        return [self.model.shown[row].path for row in rows if row < len(self.model.shown)]

    def select(self, path: Path) -> None:
        """Choose a picture and bring it into view."""
        row = self.model.row_of(path)
        if row >= 0:
            self.view.setCurrentIndex(self.model.index(row))

    def show_counts(self, *_arguments: object) -> None:
        """How many pictures there are and were found."""
        every, shown = len(self.model.every), len(self.model.shown)
        found = f"{shown} of {every}" if self.model.words else pictures_words(every)
        self.count.setText(found if every else "")
        self.search.setVisible(every > 0)
        self.order.setVisible(every > 1 and self.width() >= ROOMY)
        self.count.setVisible(self.width() >= ROOMY)
        self.no_match.setVisible(bool(self.model.words) and not shown)
        self.no_match.setText(f"No picture was made from “{self.model.words}”.")
        is_empty = self.is_known and not every
        self.stack.setCurrentIndex(self.stack.count() - 1 if is_empty else 0)
        self._follow_selection()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.show_counts()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        paths = self.selected()
        if not paths:
            return
        menu = QMenu(self)
        menu.setObjectName("gallery_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if len(paths) == 2:
            menu.addAction("Compare").triggered.connect(lambda: self._act("compare"))
        for name, words in ACTIONS.items():
            if len(paths) > 1 and name != "delete":
                continue
            if name in ("save", "delete"):
                menu.addSeparator()
            text = f"Delete {len(paths)} pictures" if len(paths) > 1 else words
            menu.addAction(text).triggered.connect(lambda _=False, one=name: self._act(one))
        menu.popup(event.globalPos())

    def _head(self) -> QWidget:
        head, row = page_head("Gallery", "gallery_head")
        self.count = label("", "small", "gallery_count")
        row.addWidget(self.count)
        row.addStretch(1)
        self.compare = pill_button("Compare", "gallery_compare", None, "See both in one place")
        self.compare.clicked.connect(lambda: self._act("compare"))
        row.addWidget(self.compare)
        self.order = pill_button(Sorting.NEWEST, "gallery_order", None, "Newest or oldest first")
        self.order.clicked.connect(self._turn_round)
        row.addWidget(self.order)
        self.search = QLineEdit()
        name_widget(self.search, "gallery_search", "Search prompts", "Find pictures by their words")
        self.search.setPlaceholderText("Search prompts")
        self.search.setClearButtonEnabled(True)
        self.search.setProperty("kind", "compact")
        self.search.setMaximumWidth(190)
        self.search.setMinimumWidth(90)
        self.search.textChanged.connect(self.model.search)
        self.search.textChanged.connect(self.show_counts)
        row.addWidget(self.search)
        return head

    def _act(self, name: str) -> None:
        paths = self.selected()
        if paths:
            self.action_wanted.emit(name, paths)

    def _turn_round(self) -> None:
        is_newest = self.model.sorting is Sorting.NEWEST
        sorting = Sorting.OLDEST if is_newest else Sorting.NEWEST
        self.model.sort_by(sorting)
        self.order.setText(sorting)
        self.view.setAccessibleName(f"Pictures, {sorting.lower()} first")

    def _follow_selection(self, *_arguments: object) -> None:
        self.compare.setVisible(len(self.view.selectedIndexes()) == 2)
