"""The page at work: the form at the left; what is drawn and the gallery, or one picture large."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QWidget

from app.images.examples import Examples
from app.images.form import Form
from app.images.gallery import Gallery
from app.images.running import Running
from app.images.tiles import Tiles
from app.images.viewer import Viewer

ROOMY = 800  # pixels of page width from which the form takes its full width


class Studio(QWidget):
    """Layout only. Attributes: form, gallery, running, examples, viewer, tiles.

    They are there once each of :meth:`steps` was called; together those would stop the window for
    longer than an eye's blink.
    """

    form: Form
    gallery: Gallery
    running: Running
    examples: Examples
    viewer: Viewer

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("studio")
        self.tiles = Tiles(self)
        self.is_built = False
        self.stack = QStackedWidget()
        self.stack.setObjectName("images_right")
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(0)
        self._row.addWidget(self.stack, 1)

    def steps(self) -> list[Callable[[], None]]:
        """What builds the page, in order, a step in each turn of the event loop."""
        return [self._add_form, self._add_gallery, self._add_running, self._add_viewer]

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
        super().resizeEvent(event)
        if self.is_built:
            self._fit()

    def _add_form(self) -> None:
        self.form = Form()
        self._row.insertWidget(0, self.form)

    def _add_gallery(self) -> None:
        self.gallery = Gallery(self.tiles)
        self.stack.addWidget(self.gallery)

    def _add_running(self) -> None:
        self.running = Running()
        self.examples = Examples()
        self.gallery.above.addWidget(self.running)
        self.gallery.stack.addWidget(self.examples)

    def _add_viewer(self) -> None:
        self.viewer = Viewer()
        self.stack.addWidget(self.viewer)
        self.is_built = True
        self._fit()

    def _fit(self) -> None:
        narrow = self.width() < ROOMY
        self.form.set_narrow(narrow)
        self.running.fit(self.width() - self.form.width())
        self.viewer.set_narrow(narrow)
