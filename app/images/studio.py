"""The page at work: the form at the left; what is drawn and the gallery, or one picture large."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QWidget

from app.images.examples import Examples
from app.images.form import Form
from app.images.gallery import Gallery
from app.images.running import Running
from app.images.tiles import Tiles
from app.images.viewer import Viewer


class Studio(QWidget):
    """Layout only. Attributes: form, gallery, running, examples, viewer, tiles."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("studio")
        self.tiles = Tiles(self)
        self.form = Form()
        self.gallery = Gallery(self.tiles)
        self.running = Running()
        self.examples = Examples()
        self.viewer = Viewer()
        self.gallery.above.addWidget(self.running)
        self.gallery.stack.addWidget(self.examples)
        self.stack = QStackedWidget()
        self.stack.setObjectName("images_right")
        self.stack.addWidget(self.gallery)
        self.stack.addWidget(self.viewer)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.form)
        row.addWidget(self.stack, 1)

    @property
    def shows_viewer(self) -> bool:
        """Whether one picture is shown large."""
        return self.stack.currentWidget() is self.viewer

    def show_viewer(self) -> None:
        """Bring the large view to the front."""
        self.stack.setCurrentWidget(self.viewer)
        self.viewer.zoom.setFocus()

    def show_gallery(self) -> None:
        """Back to the grid."""
        self.stack.setCurrentWidget(self.gallery)
        self.viewer.zoom.clear()
        self.gallery.view.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.running.fit(self.width() - self.form.width())
        super().resizeEvent(event)
