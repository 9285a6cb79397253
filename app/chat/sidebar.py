"""The list of chats: search, rename, pin, export and delete."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QPoint, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.chat.list_model import ChatListModel, Index
from app.storage.records import Chat
from app.theme import SPACE
from app.theme.theme import interface_font
from app.theme.tokens import TYPE
from app.widgets import label, plain_button
from app.widgets.base import name_widget, wire_theme

WIDTH = 250
MORE = 30  # pixels at the right end of a row that open its menu


class RowPainter(QStyledItemDelegate):
    """Draws headings and chats, and edits titles in place."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        is_chat = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
        line = option.fontMetrics.lineSpacing()
        return QSize(100, line + 19 if is_chat else line + (14 if index.row() == 0 else 22))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        model = index.model()
        assert isinstance(model, ChatListModel)
        chat = model.chat_at(index)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if chat is None:
            self._paint_heading(painter, option.rect, str(index.data()))
        else:
            self._paint_chat(painter, option, chat, chat.id == model.busy)
        painter.restore()

    def _paint_heading(self, painter: QPainter, rect: QRect, words: str) -> None:
        painter.setFont(interface_font(TYPE.small, semibold=True))
        painter.setPen(QColor(theme.current().tokens.dim))
        painter.drawText(
            rect.adjusted(SPACE.row, 0, 0, -5),
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom,
            words,
        )

    def _paint_chat(
        self, painter: QPainter, option: QStyleOptionViewItem, chat: Chat, is_busy: bool
    ) -> None:
        tokens = theme.current().tokens
        state = option.state
        selected = bool(state & QStyle.StateFlag.State_Selected)
        hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        box = QRectF(option.rect).adjusted(1, 1, -1, -1)
        if selected or hovered:
            painter.setBrush(QColor(tokens.panel if selected else tokens.sunken))
            painter.setPen(QPen(QColor(tokens.line), 1) if selected else Qt.PenStyle.NoPen)
            painter.drawRoundedRect(box, 8, 8)
        if selected and state & QStyle.StateFlag.State_HasFocus and _by_keyboard(option.widget):
            painter.setPen(QPen(QColor(tokens.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(box, 8, 8)
        right = 10
        if hovered:
            self._paint_more(painter, option.rect)
            right += MORE - 10
        elif is_busy:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens.accent))
            painter.drawEllipse(QRectF(box.right() - 16, box.center().y() - 3, 6, 6))
            right += 14
        painter.setFont(interface_font())
        painter.setPen(QColor(tokens.text if selected or hovered else tokens.dim))
        rect = option.rect.adjusted(10, 0, -right, 0)
        words = painter.fontMetrics().elidedText(
            chat.title.replace("\n", " "), Qt.TextElideMode.ElideRight, rect.width()
        )
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)

    def _paint_more(self, painter: QPainter, rect: QRect) -> None:
        """Three dots where a click opens the menu, as a right click anywhere on the row does."""
        ratio = painter.device().devicePixelRatio()
        dots = theme.pixmap("more", theme.current().tokens.text, 16, ratio)
        painter.drawPixmap(rect.right() - MORE + 7, rect.center().y() - 8, dots)

    def createEditor(
        self, parent: QWidget, _option: QStyleOptionViewItem, _index: Index
    ) -> QLineEdit:
        editor = QLineEdit(parent)
        name_widget(editor, "rename_field", "Title of the chat")
        editor.setMaxLength(200)
        return editor

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, _index: Index
    ) -> None:
        editor.setGeometry(option.rect)


class ChatList(QListView):
    """The view. Signals: chosen(id), menu_wanted(id, place), delete_wanted(id)."""

    chosen = Signal(int)
    menu_wanted = Signal(int, QPoint)
    delete_wanted = Signal(int)

    def __init__(self, model: ChatListModel) -> None:
        super().__init__()
        self.chats = model
        self.setModel(model)
        self.painter_of_rows = RowPainter(self)
        self.setItemDelegate(self.painter_of_rows)
        name_widget(self, "chat_list", "Chats")
        self.setMouseTracking(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setEditTriggers(QListView.EditTrigger.EditKeyPressed)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.clicked.connect(self._choose)
        wire_theme(self, self.recolour)

    def recolour(self, _tokens: object) -> None:
        """Draw again in the theme's colours."""
        self.viewport().update()

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        if self.hasFocus() and current.isValid():
            self._choose(current)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        chat = self.chats.chat_at(self.currentIndex())
        if event.key() == Qt.Key.Key_Delete and chat is not None:
            self.delete_wanted.emit(chat.id)
            return
        super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        index = self.indexAt(event.pos()) if by_mouse else self.currentIndex()
        chat = self.chats.chat_at(index)
        if chat is not None:
            place = event.pos() if by_mouse else self.visualRect(index).center()
            self.menu_wanted.emit(chat.id, self.viewport().mapToGlobal(place))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        chat = self.chats.chat_at(self.indexAt(event.position().toPoint()))
        at_dots = event.position().x() >= self.viewport().width() - MORE
        if chat is not None and at_dots and event.button() == Qt.MouseButton.LeftButton:
            self.menu_wanted.emit(chat.id, event.globalPosition().toPoint())
            return
        super().mousePressEvent(event)

    def _choose(self, index: Index) -> None:
        chat = self.chats.chat_at(index)
        if chat is not None:
            self.chosen.emit(chat.id)


class Sidebar(QFrame):
    """New chat, search, and the list.

    Signals: new_wanted(), chat_chosen(id), renamed(id, title), pinned(id, bool), deleted(id),
    exported(id, "md" or "json"), searched(text).
    """

    new_wanted = Signal()
    chat_chosen = Signal(int)
    renamed = Signal(int, str)
    pinned = Signal(int, bool)
    deleted = Signal(int)
    exported = Signal(int, str)
    searched = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "side")
        self.setObjectName("sidebar")
        self.setFixedWidth(WIDTH)
        column = QVBoxLayout(self)
        column.setContentsMargins(SPACE.inner, 14, SPACE.inner, SPACE.row)
        column.setSpacing(10)
        self.new_button = plain_button("New chat", "new_chat", "plus", "New chat (Ctrl+N)")
        self.new_button.clicked.connect(self.new_wanted)
        self.search = QLineEdit()
        name_widget(self.search, "search", "Search chats", "Search titles and messages (Ctrl+K)")
        self.search.setPlaceholderText("Search chats")
        self.search.setClearButtonEnabled(True)
        self._wait = QTimer(self)
        self._wait.setSingleShot(True)
        self._wait.setInterval(120)
        self._wait.timeout.connect(lambda: self.searched.emit(self.search.text()))
        self.search.textChanged.connect(lambda: self._wait.start())
        self.model = ChatListModel()
        self.list = ChatList(self.model)
        self.list.chosen.connect(self.chat_chosen)
        self.list.menu_wanted.connect(self.open_menu)
        self.list.delete_wanted.connect(self.deleted)
        self.list.painter_of_rows.commitData.connect(self._rename)
        self.nothing = label("", "dim", "nothing_found", wrap=True)
        self.nothing.setContentsMargins(SPACE.row, SPACE.row, SPACE.row, 0)
        for widget in (self.new_button, self.search, self.nothing):
            column.addWidget(widget)
        column.addWidget(self.list, 1)

    def show_chats(self, chats: list[Chat], current: int, searching: str) -> None:
        """Show these chats with one of them marked."""
        self.model.show_chats(chats)
        self.mark(current)
        words = f'No chat contains "{searching}".' if searching else "Your chats will be here."
        self.nothing.setText(words)
        self.nothing.setVisible(not chats)

    def mark(self, chat: int) -> None:
        """Mark the chat on show."""
        index = self.model.index_of(chat)
        if index.isValid():
            self.list.setCurrentIndex(index)
            self.list.scrollTo(index)
        else:
            self.list.clearSelection()
            self.list.setCurrentIndex(QModelIndex())

    def open_menu(self, number: int, place: QPoint) -> QMenu:
        """The actions for one chat."""
        chat = self.model.chat_at(self.model.index_of(number))
        menu = QMenu(self)
        menu.setObjectName("chat_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if chat is not None:
            words = "Unpin" if chat.pinned else "Pin"
            menu.addAction("Rename", lambda: self.list.edit(self.model.index_of(number)))
            menu.addAction(words, lambda: self.pinned.emit(number, not chat.pinned))
            menu.addSeparator()
            menu.addAction("Export as Markdown…", lambda: self.exported.emit(number, "md"))
            menu.addAction("Export as JSON…", lambda: self.exported.emit(number, "json"))
            menu.addSeparator()
            menu.addAction("Delete", lambda: self.deleted.emit(number))
        menu.popup(place)
        return menu

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.FontChange:
            self.list.doItemsLayout()
        super().changeEvent(event)

    def _rename(self, editor: QWidget) -> None:
        chat = self.model.chat_at(self.list.indexAt(editor.geometry().center()))
        if isinstance(editor, QLineEdit) and chat is not None:
            title = editor.text().strip()
            if title and title != chat.title:
                self.renamed.emit(chat.id, title)


def _by_keyboard(widget: QWidget | None) -> bool:
    """A ring is drawn only where the focus is; the mouse shows by itself where it is."""
    return widget is not None and widget.hasFocus() and not widget.underMouse()
