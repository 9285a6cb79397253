"""What happens with the start picture: it is read, shown, and a mask is painted on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog

from app.images.background import Background
from app.images.decode import PictureError, load_picture
from app.images.form import Form
from app.images.known import KnownFiles
from app.images.mask import MaskDialog
from app.images.mask_model import MOST_SIDE
from app.images.start import SIDE
from app.images.values import fitted_size
from app.shell.page import AppContext
from app.storage.files import StorageError

PICTURES = "Pictures (*.png *.jpg *.jpeg *.webp)"


class StartControl(QObject):
    """Joins the form's start box to files. Attributes: dialog (the mask's, while it is open)."""

    def __init__(
        self, context: AppContext, form: Form, model_size: Callable[[], int], known: KnownFiles
    ) -> None:
        super().__init__(form)
        self._known = known
        self._context = context
        self._form = form
        self._model_size = model_size  # pixels that the model makes best
        self._background = Background(self)
        self._shown = ""
        self.dialog: MaskDialog | None = None
        start = form.start
        start.file_dropped.connect(self.use)
        start.choose_wanted.connect(self.choose)
        start.mask_wanted.connect(self.paint)
        start.removed.connect(lambda: self._put("", ""))
        start.mask_removed.connect(lambda: self._put(start.init_file, ""))

    def choose(self) -> None:
        """Ask for a file."""
        dialog = QFileDialog(self._form, "Choose a start picture")
        dialog.setObjectName("image_start_dialog")
        dialog.setNameFilters([PICTURES, "All files (*)"])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.use)
        dialog.open()

    def use(self, path: str) -> None:
        """Start from this file, if it is a picture; the size follows its shape."""

        def take(result: object) -> None:
            if not isinstance(result, QImage):
                self._context.messages.error(_words_of(result))
                return
            width, height = fitted_size(result.width(), result.height(), self._model_size())
            self._form.set_size(width, height)
            self._form.more.set_open(True)
            self._shown = path
            self._known.remember("init", path)
            self._form.start.picture.set_image(result)
            self._put(path, "")

        self._background.run(lambda: load_picture(Path(path), SIDE * 4), take)

    def show_small(self) -> None:
        """The form was filled: show its start picture, or do without one that is gone."""
        path = self._form.start.init_file
        self._show_mask()
        if not path or path == self._shown:
            return

        def take(result: object) -> None:
            if isinstance(result, QImage):
                self._shown = path
                self._form.start.picture.set_image(result)
            elif self._form.start.init_file == path:
                self._put("", "")

        self._form.more.set_open(True)
        self._background.run(lambda: load_picture(Path(path), SIDE * 4), take)

    def paint(self) -> None:
        """Open the window to paint the mask in."""
        init, mask = self._form.start.init_file, self._form.start.mask_file

        def work() -> tuple[QImage, QImage | None]:
            picture = load_picture(Path(init), MOST_SIDE)
            try:
                return picture, load_picture(Path(mask)) if mask else None
            except PictureError:
                return picture, None  # the old mask is gone: begin with a new one

        def take(result: object) -> None:
            if isinstance(result, tuple):
                self._open(init, *result)
            else:
                self._context.messages.error(_words_of(result))

        self._background.run(work, take)

    def shut_down(self) -> None:
        """The program ends."""
        self._background.close()

    def _open(self, init: str, picture: QImage, mask: QImage | None) -> None:
        dialog = self.dialog = MaskDialog(self._form.window(), picture, mask)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.accepted.connect(lambda: self._keep(init, dialog))
        dialog.finished.connect(self._forget_dialog)
        dialog.open()

    def _forget_dialog(self) -> None:
        self.dialog = None

    def _keep(self, init: str, dialog: MaskDialog) -> None:
        model = dialog.canvas.model
        if model.is_empty:
            self._put(init, "")
            return
        path = self._context.places.cache / "masks" / f"{time.time_ns():x}.png"
        try:
            model.save(path)
        except StorageError as error:
            self._context.messages.error(str(error))
            return
        self._put(init, str(path))

    def _put(self, init: str, mask: str) -> None:
        if not init:
            self._shown = ""
        self._form.start.show_start(init, mask)
        self._show_mask()
        self._form.changed.emit()

    def _show_mask(self) -> None:
        """Show the mask on the small picture."""
        path = self._form.start.mask_file

        def take(result: object) -> None:
            if isinstance(result, QImage) and self._form.start.mask_file == path:
                self._form.start.picture.set_mask(result)

        if path:
            self._background.run(lambda: load_picture(Path(path), SIDE * 4), take)


def _words_of(result: object) -> str:
    return str(result) if isinstance(result, PictureError) else "This picture cannot be opened."
