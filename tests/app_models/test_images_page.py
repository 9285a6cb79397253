"""The Images page is honest: it says what will be here and leads to what there is."""

from __future__ import annotations

from dataclasses import replace

from app_common.qt import click, find, show
from PySide6.QtWidgets import QLabel

from app.images.page import create_page
from app.shell.page import AppContext


def test_it_says_when_and_leads_to_chat(context: AppContext) -> None:
    gone: list[str] = []
    page = create_page(replace(context, go_to=gone.append))
    show(page)
    assert find(page, "images_empty_title", QLabel).text() == "Pictures come in the next version"
    click(page, "images_go_to_chat")
    assert gone == ["chat"]
