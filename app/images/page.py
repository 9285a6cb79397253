"""The Images page: the studio where this engine draws, else a page that says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.images.controller import StudioController
from app.images.models import PictureModels
from app.images.studio import Studio
from app.shell.page import AppContext
from app.theme import SPACE
from app.widgets import EmptyState, label, page_head, plain_button

TITLE = "Pictures come in the next version"
TEXT = (
    "Here you will describe a picture in words and watch it appear, made on this computer like "
    "your chats. This version talks; it cannot draw yet."
)
PLANNED = (
    "A picture from a sentence, with size, steps and seed",
    "A picture made from another one, or only a part of it",
    "A gallery that remembers how each was made",
)
NO_MODEL_TITLE = "No model for pictures is here"
NO_MODEL_TEXT = (
    "A picture model is the file that draws, on this computer. Add one on the Models page, or "
    "install Driftwood again to get the small one that comes with it."
)
WAIT_WORDS_MS = 600
WEIGHTS = ".safetensors"


class ImagesPage(QWidget):
    """Attributes: studio and controller (None until the engine said that it can draw)."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self.setObjectName("images_page")
        self.setProperty("kind", "page")
        self._context = context
        self.studio: Studio | None = None
        self.controller: StudioController | None = None
        self.models = PictureModels(context)
        self.models.unable.connect(lambda: self._show_empty(self.unable()))
        self.models.missing.connect(lambda: self._show_empty(self.no_model()))
        self.models.changed.connect(self._show_studio)
        self.models.failed.connect(lambda text: context.messages.error(text))
        context.engine.worker_started.connect(self._ask_again)
        self._asked = self._building = False
        self._dropped: list[Path] = []
        self._stack = QStackedWidget()
        self._stack.setObjectName("images_stack")
        self._waiting = label("", "dim", "images_waiting")
        self._waiting.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._stack.addWidget(self._waiting)
        self._empty: QWidget | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._stack)

    def page_shown(self) -> None:
        """The window brought the page to the front: ask what is here, and look into the folder."""
        self._asked = True
        self.models.refresh()
        if self.controller is not None:
            self.controller.page_shown()
        elif self._empty is None:
            QTimer.singleShot(WAIT_WORDS_MS, self, self._say_wait)

    def open_search(self) -> None:
        """Ctrl+K: find a picture by its words."""
        if self.studio is not None:
            self.studio.show_gallery()
            self.studio.gallery.search.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def open_files(self, paths: list[Path]) -> None:
        """Pictures were dropped on the window."""
        if self.controller is not None:
            self.controller.open_files(paths)
        else:
            self._dropped = paths  # the engine has not answered yet

    def claim_files(self, paths: list[Path]) -> list[Path]:
        """Which of the files dropped on the window are kept here: a LoRA goes to the form, and
        what turns out to be a whole model goes on to the Models page."""
        if self.controller is None:
            return []
        mine = [path for path in paths if path.suffix.lower() == WEIGHTS]
        for path in mine:
            self.controller.files.claim(str(path), self._pass_on)
        return mine

    def stop_work(self) -> bool:
        """Esc."""
        return self.controller is not None and self.controller.stop_work()

    def toast_centre(self) -> int:
        """Toasts stand in the middle of the gallery, clear of the form's button."""
        if self.studio is None:
            return (self.window().width() + SPACE.rail) // 2
        right = self.studio.stack
        return right.mapTo(self.window(), right.rect().center()).x()

    def bottom_clearance(self) -> int:
        """Toasts keep clear of the buttons below a large picture."""
        if self.studio is None or not self.studio.shows_viewer:
            return 0
        return self.studio.viewer.foot_height()

    def shut_down(self) -> None:
        """The program ends."""
        if self.controller is not None:
            self.controller.shut_down()

    def unable(self) -> QWidget:
        """What is shown where this engine cannot draw."""
        button = plain_button("Go to chat", "images_go_to_chat", "chat")
        button.clicked.connect(lambda: self._context.go_to("chat"))
        return _page_of(_with_plans(EmptyState("images", TITLE, TEXT, button, "images_empty")))

    def no_model(self) -> QWidget:
        """What is shown without any picture model."""
        button = plain_button("Go to Models", "images_go_to_models", "models")
        button.clicked.connect(lambda: self._context.go_to("models"))
        return _page_of(
            EmptyState("images", NO_MODEL_TITLE, NO_MODEL_TEXT, button, "images_no_model")
        )

    def _pass_on(self, path: str) -> None:
        self._context.go_to("models", add=[path])

    def _show_empty(self, page: QWidget) -> None:
        if self._empty is not None:
            self._stack.removeWidget(self._empty)
            self._empty.deleteLater()
        self._empty = page
        self._stack.addWidget(page)
        self._stack.setCurrentWidget(page)

    def _show_studio(self) -> None:
        if self.controller is not None:
            self.controller.show_models()
            self._bring_studio()
        elif not self._building:
            self._building = True
            studio = Studio()
            self._stack.addWidget(studio)
            self._build(studio, studio.steps())

    def _build(self, studio: Studio, steps: list[Callable[[], None]]) -> None:
        """Build the studio a step at a time, so that the window goes on answering."""
        if steps:
            steps[0]()
            QTimer.singleShot(0, self, lambda: self._build(studio, steps[1:]))
            return
        self.studio = studio
        self.controller = StudioController(self._context, studio, self.models)
        self.controller.gallery.refresh()
        self.controller.show_models()
        self.controller.open_files(self._dropped)
        QTimer.singleShot(0, self, self._bring_studio)

    def _bring_studio(self) -> None:
        if self.studio is not None and self._stack.currentWidget() is not self.studio:
            self._stack.setCurrentWidget(self.studio)
            if self.isVisible():
                self.studio.form.prompt.setFocus()

    def _ask_again(self) -> None:
        if self._asked:
            self.models.refresh()

    def _say_wait(self) -> None:
        self._waiting.setText("Waiting for the engine")


def create_page(context: AppContext) -> ImagesPage:
    """The page; it asks the engine when it is shown for the first time."""
    return ImagesPage(context)


def _page_of(empty: EmptyState) -> QWidget:
    """An empty state below the page's head."""
    page = QWidget()
    head, row = page_head("Images", "images_head")
    row.addStretch()
    column = QVBoxLayout(page)
    column.setContentsMargins(0, 0, 0, SPACE.head)
    column.setSpacing(0)
    column.addWidget(head)
    column.addWidget(empty, 1)
    return page


def _with_plans(empty: EmptyState) -> EmptyState:
    """With what will be here, above the button."""
    empty.text.setFixedWidth(440)
    place = empty.column.count() - 2
    plans = QVBoxLayout()
    plans.setSpacing(SPACE.small)
    plans.setContentsMargins(0, SPACE.inner, 0, SPACE.inner)
    for number, words in enumerate(PLANNED):
        line = label(words, "small", f"images_plan_{number}")
        plans.addWidget(line, 0, Qt.AlignmentFlag.AlignHCenter)
    empty.column.insertLayout(place, plans)
    return empty
