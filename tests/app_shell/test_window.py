"""The window: pages, shortcuts, files dropped on it, and what it keeps."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_common.qt import find, press, show, wait_until
from PySide6.QtCore import QEvent, QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton, QWidget

from app.shell import window as module
from app.shell.page import AppContext
from app.shell.window import Window

CONTROL = Qt.KeyboardModifier.ControlModifier


class FakePage(QWidget):
    """A page that notes what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def page_shown(self) -> None:
        self.heard.append("shown")

    def stop_work(self) -> bool:
        self.heard.append("stop")
        return True

    def take_wishes(self, **wishes: object) -> None:
        self.heard.append(wishes)

    def create_new(self) -> None:
        self.heard.append("new")

    def open_search(self) -> None:
        self.heard.append("search")

    def open_files(self, paths: list[Path]) -> None:
        self.heard.append([path.name for path in paths])

    def shut_down(self) -> None:
        self.heard.append("down")


@pytest.fixture
def window(context: AppContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    for name in ("chat", "images", "models", "settings"):
        fake = types.ModuleType(f"app.{name}.page")
        fake.create_page = lambda _context: FakePage()  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"app.{name}.page", fake)
    meter = types.ModuleType("app.memory")
    meter.create_rail_meter = lambda _context: QPushButton("meter")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app.memory", meter)
    made = Window(context)
    show(made)
    made.activateWindow()
    yield made
    made.close()


def heard(window: Window, name: str) -> list[object]:
    """What a page was asked."""
    page = window.page(name)
    assert isinstance(page, FakePage)
    return page.heard


def test_it_opens_on_the_chat(window: Window) -> None:
    assert window.current == "chat"
    assert find(window, "rail_chat", QToolButton).isChecked()


@pytest.mark.parametrize(
    ("key", "page"),
    [
        (Qt.Key.Key_1, "chat"),
        (Qt.Key.Key_2, "images"),
        (Qt.Key.Key_3, "models"),
        (Qt.Key.Key_4, "settings"),
        (Qt.Key.Key_Comma, "settings"),
    ],
)
def test_shortcuts_change_the_page(window: Window, key: Qt.Key, page: str) -> None:
    press(window, key, CONTROL)
    assert window.current == page
    assert find(window, f"rail_{page}", QToolButton).isChecked()


def test_shortcuts_reach_the_page_in_front(window: Window) -> None:
    window.go_to("models")
    press(window, Qt.Key.Key_N, CONTROL)
    press(window, Qt.Key.Key_K, CONTROL)
    press(window, Qt.Key.Key_Escape)
    assert heard(window, "models") == ["shown", "new", "search", "stop"]


def test_wishes_reach_the_page(window: Window) -> None:
    window.context.go_to("models", tab="discover")
    assert {"tab": "discover"} in heard(window, "models")


def test_every_page_is_built_while_nothing_happens(window: Window) -> None:
    wait_until(lambda: window.stack.count() == 4)


@pytest.mark.parametrize(
    ("name", "page"),
    [("model.gguf", "models"), ("photo.PNG", "images"), ("notes.txt", "chat"), ("", "models")],
)
def test_dropped_files_go_where_they_belong(
    window: Window, tmp_path: Path, name: str, page: str
) -> None:
    path = tmp_path / name if name else tmp_path
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    event = QDropEvent(
        QPointF(9, 9),
        Qt.DropAction.CopyAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
        QEvent.Type.Drop,
    )
    window.dropEvent(event)
    wait_until(lambda: [path.name] in heard(window, page))
    assert window.current == page


def test_page_and_size_are_kept(window: Window, qt: QApplication) -> None:
    window.resize(760, 700)  # the test's screen is 800 wide
    window.go_to("settings")
    window.close()
    again = Window(window.context)
    assert again.current == "settings"
    assert again.size() == window.size()


def test_closing_tells_every_page(window: Window) -> None:
    window.close()
    assert heard(window, "chat")[-1] == "down"


@pytest.mark.parametrize("error", [ImportError("x"), RuntimeError("broken page")])
def test_a_broken_page_leaves_the_others(
    window: Window, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_context: AppContext) -> QWidget:
        raise error

    monkeypatch.setattr(sys.modules["app.images.page"], "create_page", fail)
    window._pages.pop("images", None)
    window.go_to("images")
    find(window.page("images"), "page_copy_details")
    window.go_to("chat")
    assert window.current == "chat"


def test_a_page_that_is_not_in_this_build(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name}", name=name)

    monkeypatch.setattr(module.importlib, "import_module", missing)
    window._pages.pop("images", None)
    window.go_to("images")
    assert window.current == "images"


def test_everything_on_the_rail_has_a_name_and_a_tooltip(window: Window) -> None:
    for button in window.rail.findChildren(QToolButton):
        assert button.accessibleName()
        assert "Ctrl+" in button.toolTip()
