"""The Images page, opened over the scripted worker, and what tests ask of it."""

from __future__ import annotations

import json

from app_common.qt import click, find, show, wait_until
from PySide6.QtWidgets import (
    QLabel,
)

from app.images.controller import StudioController
from app.images.page import ImagesPage, create_page
from app.images.studio import Studio
from app.shell.page import AppContext
from app.widgets import ElidedLabel


class Opened:
    """The page, opened. Attributes: page, studio, controller, folder, told (messages)."""

    def __init__(self, context: AppContext) -> None:
        self.context = context
        self.told: list[str] = []
        context.messages.told.connect(lambda _kind, text: self.told.append(text))
        self.page: ImagesPage = create_page(context)
        show(self.page)
        self.page.page_shown()
        wait_until(lambda: self.page.controller is not None, "for the studio")
        assert self.page.studio is not None
        assert self.page.controller is not None
        self.studio: Studio = self.page.studio
        self.controller: StudioController = self.page.controller
        self.folder = context.places.data / "pictures"
        wait_until(lambda: self.studio.gallery.is_known and self.studio.form.tokens.text())

    def names(self) -> list[str]:
        return [one.path.name for one in self.studio.gallery.model.shown]

    def draw(self, prompt: str) -> None:
        self.studio.form.prompt.setPlainText(prompt)
        click(self.page, "image_draw")

    def wait_pictures(self, count: int) -> None:
        wait_until(lambda: len(self.studio.gallery.model.every) == count, f"for {count} pictures")

    def words(self, name: str) -> str:
        widget = find(self.page, name, QLabel)
        return widget.full_text() if isinstance(widget, ElidedLabel) else widget.text()

    def orders(self) -> list[dict[str, object]]:
        lines = (self.context.places.data.parent / "log").read_text().splitlines()
        return [made for line in lines if (made := json.loads(line))["do"] == "image"]

    def close(self) -> None:
        self.page.shut_down()
