"""The picture to start from: dropped or chosen, with its strength and the mask painted on it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QImage,
    QPainter,
    QPainterPath,
    QPaintEvent,
)
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app import theme
from app.chat.defaults import Dial
from app.chat.side_panel import DialRow
from app.images.mask_model import veil_of
from app.theme import SPACE
from app.widgets import ElidedLabel, frame, icon_button, label, plain_button, set_look

WEIGHTS = (".safetensors", ".ckpt", ".pt", ".pth", ".bin")
SIDE = 64  # of the small picture, device-independent pixels
STRENGTH = Dial(
    "image_strength",
    "Change",
    0.05,
    1,
    2,
    "How much of the start picture is made anew: low stays close to it, 1 keeps nothing of it",
)


class SmallPicture(QWidget):
    """A small picture with round corners, and the mask over it. Images are scaled when drawn."""

    def __init__(self, side: int = SIDE) -> None:
        super().__init__()
        self._image = QImage()
        self._mask = QImage()
        self.setFixedSize(side, side)

    def set_image(self, image: QImage) -> None:
        """Show another image; a null one shows nothing."""
        self._image = image
        self.update()

    def set_mask(self, mask: QImage) -> None:
        """Show which parts are marked; a null image marks nothing."""
        self._mask = mask
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._image.isNull():
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        path = QPainterPath()
        path.addRoundedRect(QRectF(self.rect()), 6, 6)
        painter.setClipPath(path)
        square = square_of(self._image)
        painter.drawImage(QRectF(self.rect()), self._image, square)
        if not self._mask.isNull():
            mask = self._mask.scaled(self._image.size())  # as it is for drawing, whatever its shape
            veil = veil_of(mask, QColor(theme.current().tokens.accent))
            painter.drawImage(QRectF(self.rect()), veil, square)
        painter.end()


class StartBox(QWidget):
    """Where a start picture is dropped, and what is done with it.

    Attributes: init_file and mask_file (paths, "" without).
    Signals: file_dropped(path), choose_wanted(), mask_wanted(), removed(), mask_removed(),
    strength_changed().
    """

    file_dropped = Signal(str)
    choose_wanted = Signal()
    mask_wanted = Signal()
    removed = Signal()
    mask_removed = Signal()
    strength_changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.init_file = self.mask_file = ""
        self.setAcceptDrops(True)
        self.box = frame("composer", "image_start_box")
        self.picture = SmallPicture()
        self.name = ElidedLabel("", "", "image_start_name")
        self.hint = label(
            "Drop a picture here to make another one from it.", "small", "image_start_hint"
        )
        self.hint.setWordWrap(True)
        self.choose = plain_button("Choose picture…", "image_start_choose")
        self.paint = plain_button(
            "Paint mask…", "image_mask_paint", None, "Mark the parts that shall be made anew"
        )
        self.remove = icon_button(
            "close", "image_start_remove", "Do without this start picture", size=14
        )
        self.unmask = icon_button("undo", "image_mask_remove", "Remove the mask", size=14)
        self.strength = DialRow(STRENGTH)
        self.strength.set_value(0.75)
        self.choose.clicked.connect(self.choose_wanted)
        self.paint.clicked.connect(self.mask_wanted)
        self.remove.clicked.connect(self.removed)
        self.unmask.clicked.connect(self.mask_removed)
        self.strength.changed.connect(lambda _value: self.strength_changed.emit())
        self._can_mask = True
        self._lay_out()
        self.show_start("", "")

    def show_start(self, init: str, mask: str) -> None:
        """Show which files are used, "" for none."""
        self.init_file, self.mask_file = init, mask if init else ""
        self.name.set_text(Path(init).name)
        self.hint.setVisible(not init)
        self.choose.setVisible(not init)
        for widget in (self.picture, self.name, self.remove, self.strength):
            widget.setVisible(bool(init))
        self.paint.setVisible(bool(init) and self._can_mask)
        self.paint.setText("Change mask…" if self.mask_file else "Paint mask…")
        self.unmask.setVisible(bool(self.mask_file))
        if not init:
            self.picture.set_image(QImage())
        if not self.mask_file:
            self.picture.set_mask(QImage())

    def set_can_mask(self, can_mask: bool) -> None:
        """Whether the model can make parts of a picture anew."""
        self._can_mask = can_mask
        self.show_start(self.init_file, self.mask_file if can_mask else "")

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_file(event) and not dropped_weights(event):  # which are the form's business
            event.acceptProposedAction()
            set_look(self.box, dropping="true")

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        set_look(self.box, dropping="false")

    def dropEvent(self, event: QDropEvent) -> None:
        set_look(self.box, dropping="false")
        path = dropped_file(event)
        if path:
            event.acceptProposedAction()
            self.file_dropped.emit(path)

    def _lay_out(self) -> None:
        box = QHBoxLayout(self.box)
        box.setContentsMargins(SPACE.row, SPACE.row, SPACE.row, SPACE.row)
        box.setSpacing(SPACE.row)
        box.addWidget(self.picture, 0, Qt.AlignmentFlag.AlignTop)
        inner = QVBoxLayout()
        inner.setSpacing(SPACE.row)
        head = QHBoxLayout()
        head.addWidget(self.name, 1)
        head.addWidget(self.remove)
        inner.addLayout(head)
        inner.addWidget(self.hint)
        buttons = QHBoxLayout()
        buttons.setSpacing(SPACE.small)
        for button in (self.choose, self.paint, self.unmask):
            buttons.addWidget(button)
        buttons.addStretch(1)
        inner.addLayout(buttons)
        box.addLayout(inner, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACE.row)
        column.addWidget(label("Start picture", "small"))
        column.addWidget(self.box)
        column.addWidget(self.strength)


def square_of(image: QImage) -> QRectF:
    """The square in an image's middle."""
    side = min(image.width(), image.height())
    return QRectF((image.width() - side) / 2, (image.height() - side) / 2, side, side)


def dropped_weights(event: QDropEvent) -> list[str]:
    """The local files of a drag that hold weights, or would in other programs."""
    files = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
    return [path for path in files if path.lower().endswith(WEIGHTS)]


def dropped_file(event: QDropEvent) -> str:
    """The first local file of a drag, "" without one."""
    urls = event.mimeData().urls()
    return next((url.toLocalFile() for url in urls if url.isLocalFile()), "")
