"""The theme: follows a choice, tells its change, recolours icons; icons are all there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from app_common.qt import wait_signal
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication

from app import theme
from app.theme.assets import AssetError, asset, assets_folder
from app.theme.tokens import DARK, LIGHT
from app.widgets import icon_button

APP = Path(__file__).resolve().parents[2] / "app"


def test_a_choice_changes_tokens_and_tells(qt: QApplication) -> None:
    current = theme.current()
    try:
        (tokens,) = wait_signal(current.changed, lambda: current.set_mode("dark"))
        assert tokens is DARK
        assert qt.palette().window().color() == QColor(DARK.background)
    finally:
        current.set_mode("light")
    assert current.tokens is LIGHT


@pytest.mark.parametrize("mode", ["", "purple", "system"])
def test_unknown_modes_follow_the_system(qt: QApplication, mode: str) -> None:
    current = theme.current()
    current.set_mode(mode)
    assert current.mode == "system"
    current.set_mode("light")


def colours(image: QImage) -> set[str]:
    """The opaque colours of a picture."""
    points = ((x, y) for x in range(image.width()) for y in range(image.height()))
    found = (image.pixelColor(x, y) for x, y in points)
    return {colour.name() for colour in found if colour.alpha() == 255}


@pytest.mark.parametrize("path", sorted(assets_folder().glob("icons/*.svg")), ids=lambda p: p.stem)
def test_every_icon_draws_in_the_asked_colour(qt: QApplication, path: Path) -> None:
    image = theme.pixmap(path.stem, "#123456", 24, 2.0).toImage()
    found = colours(image)
    assert found
    if "-light" not in path.stem and "-dark" not in path.stem:
        assert found == {"#123456"}


def test_a_button_recolours_its_icon(qt: QApplication) -> None:
    button = icon_button("plus", "b", "Add")
    theme.current().set_mode("dark")
    try:
        assert DARK.dim in colours(button.icon().pixmap(QSize(18, 18), 3.0).toImage())
    finally:
        theme.current().set_mode("light")
    assert LIGHT.dim in colours(button.icon().pixmap(QSize(18, 18), 3.0).toImage())


def test_every_icon_named_in_the_code_exists() -> None:
    files = {path.stem for path in assets_folder().glob("icons/*.svg")}
    pattern = r'(?:icon_button\(|IconLabel\(|set_icon\()\s*"([a-z-]+)"'
    named = {n for p in APP.rglob("*.py") for n in re.findall(pattern, p.read_text("utf-8"))}
    assert named
    assert named <= files


def test_only_the_tokens_name_colours() -> None:
    allowed = {"tokens.py"}
    found = {
        path.name
        for path in APP.rglob("*.py")
        if path.name not in allowed and re.search(r'"#[0-9a-fA-F]{6}"', path.read_text("utf-8"))
    }
    assert not found


def test_a_missing_file_is_told_by_name() -> None:
    with pytest.raises(AssetError, match=r"icons/unicorn\.svg"):
        asset("icons", "unicorn.svg")
