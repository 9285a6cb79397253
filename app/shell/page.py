"""What a page is: a module with `create_page(context) -> QWidget`.

A page may also have these methods, which the window calls if they exist:
`page_shown()` when it comes to the front, `stop_work()` on Escape (return True if something was
stopped), `open_search()` on Ctrl+K, `create_new()` on Ctrl+N, `open_files(paths)` for files of its
kind that were dropped on the window, `claim_files(paths)` for files dropped while the page is in
front (returns those that it keeps whatever their kind), `bottom_clearance()` (pixels at the bottom
that toasts must not cover), `toast_centre()` (in pixels from the window's left), and `shut_down()`
before the program ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.shell.engine import EngineClient
from app.shell.places import Places
from app.storage.settings import Settings
from app.theme import Theme
from app.widgets.messages import Messages


def _go_nowhere(_page: str, **_wishes: Any) -> None:
    """Where there is no window there is no page to go to."""


@dataclass(frozen=True)
class AppContext:
    """What every page is given.

    engine: requests to the worker. settings: the JSON file. theme: tokens and `changed`.
    messages: toasts and dialogs. storage: the chats (app.storage.chats.ChatStore). places: folders.
    go_to(page, **wishes): bring "chat", "images", "models" or "settings" to the front; wishes are
    handed to that page's `take_wishes(**wishes)` if it has one: go_to("models", tab="discover").
    """

    engine: EngineClient
    settings: Settings
    theme: Theme
    messages: Messages
    storage: Any
    places: Places
    go_to: Callable[..., None] = _go_nowhere
