"""The pictures as a list for Qt."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QUrl,
)

from app.images.facts import tip_of
from app.storage.pictures import Picture, matching

Index = QModelIndex | QPersistentModelIndex
PICTURE = int(Qt.ItemDataRole.UserRole)


class Sorting(StrEnum):
    """The order of the gallery."""

    NEWEST = "Newest"
    OLDEST = "Oldest"


class GalleryModel(QAbstractListModel):
    """Pictures in the order shown; those that do not hold the searched words are left out.

    Attributes: every (all of them, newest first), shown, words, sorting.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.every: list[Picture] = []
        self.shown: list[Picture] = []
        self.words = ""
        self.sorting = Sorting.NEWEST

    def set_pictures(self, pictures: Sequence[Picture]) -> None:
        """Replace all; what is new at the front is only put there, so nothing jumps."""
        self.every = list(pictures)
        self._show(self._wanted())

    def search(self, words: str) -> None:
        """Show only what holds these words."""
        self.words = words
        self._show(self._wanted())

    def sort_by(self, sorting: Sorting) -> None:
        """Turn the order round."""
        self.sorting = sorting
        self._show(self._wanted())

    def add(self, picture: Picture) -> None:
        """A picture was made just now."""
        others = [one for one in self.every if one.path != picture.path]
        self.set_pictures([picture, *others])

    def remove(self, path: Path) -> None:
        """A picture is gone."""
        self.every = [one for one in self.every if one.path != path]
        row = self.row_of(path)
        if row >= 0:
            self.beginRemoveRows(QModelIndex(), row, row)
            del self.shown[row]
            self.endRemoveRows()

    def row_of(self, path: Path) -> int:
        """Where a picture is shown, -1 if it is not."""
        return next((row for row, one in enumerate(self.shown) if one.path == path), -1)

    def picture(self, row: int) -> Picture | None:
        """The picture of a row."""
        return self.shown[row] if 0 <= row < len(self.shown) else None

    def note_made(self, path: object) -> None:
        """A tile is ready: paint it."""
        row = self.row_of(path) if isinstance(path, Path) else -1
        if row >= 0:
            index = self.index(row)
            self.dataChanged.emit(index, index, [Qt.ItemDataRole.DecorationRole])

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self.shown)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        picture = self.picture(index.row()) if index.isValid() else None
        if picture is None:
            return None
        if role == PICTURE:
            return picture
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return picture.prompt or picture.path.stem
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip_of(picture)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        return super().flags(index) | Qt.ItemFlag.ItemIsDragEnabled

    def mimeTypes(self) -> list[str]:
        return ["text/uri-list"]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        """Pictures that are dragged out are files, for whoever takes them."""
        data = QMimeData()
        found = [self.picture(index.row()) for index in indexes]
        data.setUrls([QUrl.fromLocalFile(str(one.path)) for one in found if one is not None])
        return data

    def _wanted(self) -> list[Picture]:
        found = matching(self.every, self.words)
        return list(found) if self.sorting is Sorting.NEWEST else list(reversed(found))

    def _show(self, wanted: list[Picture]) -> None:
        more = len(wanted) - len(self.shown)
        if wanted == self.shown:
            return
        if more > 0 and wanted[more:] == self.shown:
            self.beginInsertRows(QModelIndex(), 0, more - 1)
            self.shown = wanted
            self.endInsertRows()
            return
        self.beginResetModel()
        self.shown = wanted
        self.endResetModel()
