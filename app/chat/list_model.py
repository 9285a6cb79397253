"""The list of chats with its headings as a Qt model."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt

from app.chat.words import group_of
from app.storage.records import Chat

Index = QModelIndex | QPersistentModelIndex
GROUPS = ("Pinned", "Today", "Yesterday", "Last week", "Older")
CHAT_ROLE = Qt.ItemDataRole.UserRole  # a Chat, or None for a heading


@dataclass(frozen=True)
class Row:
    """A chat, or a heading."""

    heading: str = ""
    chat: Chat | None = None


def rows_of(chats: list[Chat], now: float | None = None) -> list[Row]:
    """Chats below their headings, in the headings' order; empty headings are left out."""
    groups: dict[str, list[Chat]] = {name: [] for name in GROUPS}
    for chat in chats:
        groups["Pinned" if chat.pinned else group_of(chat.updated, now)].append(chat)
    rows: list[Row] = []
    for name, members in groups.items():
        if members:
            rows += [Row(heading=name), *(Row(chat=one) for one in members)]
    return rows


class ChatListModel(QAbstractListModel):
    """Rows of headings and chats. Attributes: rows, busy (id of the chat being answered, or 0)."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.busy = 0

    def show_chats(self, chats: list[Chat]) -> None:
        """Replace everything."""
        rows = rows_of(chats)
        if rows == self.rows:
            return
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def set_busy(self, chat: int) -> None:
        """Mark the chat whose answer is being written."""
        self.busy = chat
        if self.rows:
            self.dataChanged.emit(self.index(0), self.index(len(self.rows) - 1))

    def index_of(self, chat: int) -> QModelIndex:
        """Where a chat is; invalid if it is not listed."""
        for number, row in enumerate(self.rows):
            if row.chat is not None and row.chat.id == chat:
                return self.index(number)
        return QModelIndex()

    def chat_at(self, index: Index) -> Chat | None:
        """The chat at a place, None for a heading."""
        return self.rows[index.row()].chat if index.isValid() else None

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self.rows[index.row()]
        words = row.chat.title if row.chat else row.heading
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return words
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return words if row.chat else f"Heading: {words}"
        if role == Qt.ItemDataRole.ToolTipRole and row.chat:
            return words
        if role == CHAT_ROLE:
            return row.chat
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        if self.chat_at(index) is None:
            return Qt.ItemFlag.NoItemFlags
        flag = Qt.ItemFlag
        return flag.ItemIsEnabled | flag.ItemIsSelectable | flag.ItemIsEditable
