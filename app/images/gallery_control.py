"""What happens in the gallery: the folder is read, pictures are opened, saved, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QMimeData, QObject, Qt, QUrl, Signal
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QFileDialog

from app.images.background import Background
from app.images.decode import PictureError, load_picture
from app.images.studio import Studio
from app.images.values import pictures_words
from app.shell.page import AppContext
from app.storage.files import StorageError
from app.storage.pictures import (
    Picture,
    bring_back,
    copy_to,
    empty_bin,
    read_picture,
    scan,
    set_aside,
)
from app.widgets import Action
from app.widgets.reveal import reveal

ASKED_OF_FORM = ("use", "vary", "start")


class GalleryControl(QObject):
    """Joins gallery and large view to the folder of pictures.

    Signals: asked(name, path) for what concerns the form: "use", "vary" and "start".
    """

    asked = Signal(str, object)

    def __init__(self, context: AppContext, studio: Studio, folder: Path) -> None:
        super().__init__(studio)
        self._context = context
        self._studio = studio
        self._folder = folder
        self._background = Background(self)
        self._opening = 0
        self._scanned = False
        gallery, viewer = studio.gallery, studio.viewer
        gallery.action_wanted.connect(self.act)
        viewer.action_wanted.connect(self.act)
        viewer.closed.connect(studio.show_gallery)
        viewer.step_wanted.connect(self.step)

    def refresh(self) -> None:
        """Read the folder again: other programs may have put pictures there."""
        known = {one.path: one for one in self._studio.gallery.model.every}
        self._background.run(lambda: scan(self._folder, known), self._take_scan)

    def add(self, path: Path) -> None:
        """A picture was finished."""

        def take(picture: object) -> None:
            if isinstance(picture, Picture):
                self._studio.tiles.forget(path)
                self._studio.gallery.model.add(picture)

        self._background.run(lambda: read_picture(path), take, 1)

    def act(self, name: str, paths: Sequence[Path]) -> None:
        """Do what a menu or a button asks for."""
        actions: dict[str, Callable[[], Any]] = {
            "open": lambda: self.open(paths[0]),
            "compare": lambda: self.compare(paths[0], paths[1]),
            "save": lambda: self.save(paths[0]),
            "copy": lambda: self.copy(paths[0]),
            "copy_text": lambda: self.copy_text(paths[0]),
            "reveal": lambda: self._reveal(paths[0]),
            "delete": lambda: self.delete(paths),
        }
        if name in ASKED_OF_FORM:
            self.asked.emit(name, paths[0])
        elif name in actions:
            actions[name]()

    def open(self, path: Path) -> None:
        """Show one picture large."""
        model = self._studio.gallery.model
        row = model.row_of(path)
        picture = model.picture(row)
        if picture is None:
            return
        self._studio.viewer.show_picture(picture, f"{row + 1} of {len(model.shown)}")
        self._studio.gallery.select(path)
        self._studio.show_viewer()
        self._load([path])

    def compare(self, first: Path, second: Path) -> None:
        """Show two pictures in one place."""
        model = self._studio.gallery.model
        one, two = model.picture(model.row_of(first)), model.picture(model.row_of(second))
        if one is not None and two is not None:
            self._studio.viewer.show_two(one, two)
            self._studio.show_viewer()
            self._load([first, second])

    def step(self, way: int) -> None:
        """The picture before or after the one that is shown."""
        picture = self._studio.viewer.picture
        model = self._studio.gallery.model
        if picture is not None:
            following = model.picture(model.row_of(picture.path) + way)
            if following is not None:
                self.open(following.path)

    def save(self, path: Path) -> None:
        """Ask where to, then copy the file, settings and all."""
        dialog = QFileDialog(self._studio, "Save picture as", str(Path.home() / path.name))
        dialog.setObjectName("save_picture")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter("PNG picture (*.png)")
        dialog.setDefaultSuffix("png")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda target: self.save_to(path, Path(target)))
        dialog.open()

    def save_to(self, path: Path, target: Path) -> None:
        """Copy a picture and say so."""

        def tell(result: object) -> None:
            if isinstance(result, Exception):
                self._context.messages.error(_words_of(result, "The picture was not saved."))
            else:
                show = Action("Show", lambda: self._reveal(target))
                self._context.messages.toast(f"Saved as {target.name}.", show)

        self._background.run(lambda: copy_to(path, target), tell)

    def copy(self, path: Path) -> None:
        """Put a picture on the clipboard, as pixels and as a file."""

        def take(image: object) -> None:
            if not isinstance(image, QImage):
                text = "The picture was not copied."
                self._context.messages.error(_words_of(image, text))
                return
            data = QMimeData()
            data.setImageData(image)
            data.setUrls([QUrl.fromLocalFile(str(path))])
            QGuiApplication.clipboard().setMimeData(data)
            self._context.messages.toast("The picture is on the clipboard.")

        self._background.run(lambda: load_picture(path), take)

    def copy_text(self, path: Path) -> None:
        """Put what a picture was made from on the clipboard, as other tools write it."""
        model = self._studio.gallery.model
        picture = model.picture(model.row_of(path))
        if picture is None or not picture.text:
            self._context.messages.error(f"{path.name} carries no settings.")
            return
        QGuiApplication.clipboard().setText(picture.text)
        self._context.messages.toast("The settings are on the clipboard, as text.")

    def delete(self, paths: Sequence[Path]) -> None:
        """Delete pictures; a toast brings them back."""
        gone: list[tuple[Path, Path]] = []
        for path in paths:
            try:
                gone.append((path, set_aside(path)))
            except StorageError as error:
                self._context.messages.error(str(error))
                self.refresh()
        if not gone:
            return
        self._leave([path for path, _ in gone])
        undo = Action("Undo", lambda: self._undo(gone))
        words = pictures_words(len(gone))
        self._context.messages.toast(f"{words} deleted.", undo, seconds=8)

    def shut_down(self) -> None:
        """The program ends."""
        self._background.close()
        self._studio.tiles.close()

    def _leave(self, paths: Sequence[Path]) -> None:
        """Take pictures out of sight; the large view goes on to the next one."""
        viewer, model = self._studio.viewer, self._studio.gallery.model
        shown = viewer.picture.path if viewer.picture is not None else None
        row = model.row_of(shown) if shown in paths and shown is not None else -1
        for path in paths:
            model.remove(path)
            self._studio.tiles.forget(path)
        if row < 0 or not self._studio.shows_viewer:
            return
        following = model.picture(min(row, len(model.shown) - 1))
        if following is not None:
            self.open(following.path)
        else:
            self._studio.show_gallery()

    def _undo(self, gone: Sequence[tuple[Path, Path]]) -> None:
        for path, waiting in gone:
            try:
                bring_back(waiting, path)
            except StorageError as error:
                self._context.messages.error(str(error))
        self.refresh()

    def _load(self, paths: Sequence[Path]) -> None:
        self._opening += 1
        number = self._opening

        def work() -> list[QImage]:
            return [load_picture(path) for path in paths]

        def take(result: object) -> None:
            if number != self._opening:
                return
            if isinstance(result, list):
                self._studio.viewer.show_image(*result)
            else:
                text = _words_of(result, "This picture cannot be shown.")
                self._studio.viewer.show_problem(text)

        self._background.run(work, take, 2)

    def _take_scan(self, result: object) -> None:
        self._studio.gallery.is_known = True
        if isinstance(result, list):
            self._studio.gallery.model.set_pictures(result)
        elif isinstance(result, StorageError):
            self._context.messages.error(str(result))
        self._studio.gallery.show_counts()
        if not self._scanned:
            self._scanned = True
            self._background.run(lambda: empty_bin(self._folder), lambda _count: None, -1)

    def _reveal(self, path: Path) -> None:
        if not reveal(path):
            self._context.messages.error(f"The file manager could not be opened at {path.parent}.")


def _words_of(result: object, otherwise: str) -> str:
    """The sentence of an error that was made for people, or another one."""
    return str(result) if isinstance(result, PictureError | StorageError) else otherwise
