"""The Models page: what is installed, what can be had, what is on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.models.page import ModelsPage
    from app.shell.page import AppContext


def create_page(context: AppContext) -> ModelsPage:
    """The page, joined to the worker."""
    from app.memory import create_memory_panel
    from app.models.controller import ModelsController
    from app.models.page import ModelsPage

    page = ModelsPage(create_memory_panel(context))
    ModelsController(context, page)  # the page owns it
    return page
