"""The main window: rail, pages, shortcuts, and where it was last time."""

from __future__ import annotations

import importlib
import logging
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, QTimer
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QStackedWidget, QWidget

from app.shell.page import AppContext
from app.shell.rail import PAGES, Rail
from app.widgets import EmptyState, plain_button
from app.widgets.messages import copy_details

log = logging.getLogger(__name__)

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
MODEL_FILES = frozenset({".gguf", ".safetensors"})


class Window(QMainWindow):
    """The window. Attributes: context (what pages are given), rail, stack."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self.setObjectName("window")
        self.setWindowTitle("Driftwood")
        self.setMinimumSize(720, 520)
        self.setAcceptDrops(True)
        self.context = replace(context, go_to=self.go_to)
        self._pages: dict[str, QWidget] = {}
        self._current = ""
        self.rail = Rail()
        self.stack = QStackedWidget()
        self.stack.setObjectName("pages")
        centre = QWidget()
        row = QHBoxLayout(centre)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.rail)
        row.addWidget(self.stack, 1)
        self.setCentralWidget(centre)
        self.rail.page_chosen.connect(self.go_to)
        context.messages.attach(self)
        self._add_meter()
        self._add_shortcuts()
        self._restore_geometry()
        last = str(context.settings.get("window.page"))
        self.go_to(last if last in {p.name for p in PAGES} else "chat")
        QTimer.singleShot(1200, self, self._build_next)

    def page(self, name: str) -> QWidget:
        """A page by name, built now if it was not yet."""
        if name not in self._pages:
            page = self._build(name)
            page.setProperty("kind", "page")
            self._pages[name] = page
            self.stack.addWidget(page)
        return self._pages[name]

    @property
    def current(self) -> str:
        """The name of the page in front."""
        return self._current

    def go_to(self, name: str, **wishes: Any) -> None:
        """Bring a page to the front and tell it what is wanted of it."""
        page = self.page(name)
        self.rail.show_page(name)
        self.stack.setCurrentWidget(page)
        if self.context.messages.host is not None:
            self.context.messages.host.set_place(
                getattr(page, "bottom_clearance", int), getattr(page, "toast_centre", None)
            )
        if name != self._current:
            self._current = name
            self.context.settings.set("window.page", name)
            self._ask(page, "page_shown")
        if wishes:
            self._ask(page, "take_wishes", **wishes)

    def open_files(self, paths: list[Path]) -> None:
        """Files that were dropped on the window go to the page that knows their kind."""
        front = self._pages.get(self._current)
        claimed = self._ask(front, "claim_files", paths) if front is not None else None
        paths = [path for path in paths if path not in (claimed or ())]
        for name, wanted in (("models", _is_model), ("images", _is_picture), ("chat", _is_other)):
            mine = [path for path in paths if wanted(path)]
            if mine:
                self.go_to(name)
                self._ask(self.page(name), "open_files", mine)

    def closeEvent(self, event: QCloseEvent) -> None:
        geometry = bytes(self.saveGeometry().toBase64().data()).decode("ascii")
        self.context.settings.set("window.geometry", geometry)
        for page in self._pages.values():
            self._ask(page, "shut_down")
        super().closeEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        urls = event.mimeData().urls()
        paths = [Path(url.toLocalFile()) for url in urls if url.isLocalFile()]
        event.acceptProposedAction()
        # The program that the files come from waits until this returns.
        QTimer.singleShot(0, self, lambda: self.open_files(paths))

    def _build(self, name: str) -> QWidget:
        """The page, or a page that says why there is none; the others go on working."""
        module = f"app.{name}.page"
        try:
            page: QWidget = importlib.import_module(module).create_page(self.context)
        except ModuleNotFoundError as error:
            if error.name in (module, f"app.{name}"):
                return EmptyState("info", "Not part of this build", "This page is missing here.")
            return self._broken_page(name)
        except (ImportError, OSError, RuntimeError):  # the other pages go on working
            return self._broken_page(name)
        return page

    def _broken_page(self, name: str) -> QWidget:
        details = traceback.format_exc()
        log.error("page %s: %s", name, details)
        text = "This page could not be opened. The others still work."
        button = plain_button("Copy details", "page_copy_details", "copy")
        button.clicked.connect(lambda: copy_details(text, details))
        return EmptyState("warning", "Something is wrong here", text, button)

    def _build_next(self) -> None:
        """Build the pages nobody has looked at yet, one at a time, while nothing else happens."""
        missing = [page.name for page in PAGES if page.name not in self._pages]
        if missing:
            self.page(missing[0])
            QTimer.singleShot(100, self, self._build_next)

    def _ask(self, page: QWidget, method: str, *arguments: Any, **wishes: Any) -> Any:
        """Call a page's method if it has one."""
        found = getattr(page, method, None)
        return found(*arguments, **wishes) if callable(found) else None

    def _add_meter(self) -> None:
        try:
            module = importlib.import_module("app.memory")
        except ModuleNotFoundError:
            return
        self.rail.add_meter(module.create_rail_meter(self.context))

    def _add_shortcuts(self) -> None:
        for page in PAGES:
            self._shortcut(page.key, lambda one=page.name: self.go_to(one))
        self._shortcut("Ctrl+,", lambda: self.go_to("settings"))
        self._shortcut("F1", lambda: self.go_to("settings", section="help"))
        self._shortcut("Ctrl+N", lambda: self._on_page("create_new"))
        self._shortcut("Ctrl+K", lambda: self._on_page("open_search"))
        self._shortcut("Esc", self._stop_work)
        self._shortcut("Ctrl+Q", self.close)

    def _shortcut(self, keys: str, run: Callable[[], Any]) -> None:
        QShortcut(QKeySequence(keys), self).activated.connect(run)

    def _on_page(self, method: str) -> None:
        """For the page in front if it knows how, else for the chat page."""
        name = self._current if hasattr(self.page(self._current), method) else "chat"
        self.go_to(name)
        self._ask(self.page(name), method)

    def _stop_work(self) -> None:
        self._ask(self.page(self._current), "stop_work")

    def _restore_geometry(self) -> None:
        kept = str(self.context.settings.get("window.geometry"))
        if not kept or not self.restoreGeometry(QByteArray.fromBase64(kept.encode("ascii"))):
            self.resize(1280, 800)


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURES


def _is_model(path: Path) -> bool:
    return path.suffix.lower() in MODEL_FILES or path.is_dir()


def _is_other(path: Path) -> bool:
    return not _is_picture(path) and not _is_model(path)
