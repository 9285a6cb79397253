"""The gallery and the large view: find, look, compare, save, copy, delete."""

from __future__ import annotations

from pathlib import Path

import pytest
from app_common.qt import click, find, press, wait_until
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import (
    QLineEdit,
    QSlider,
    QWidget,
)

from app_images.opened import Opened


def test_the_gallery_finds_and_turns_round(full: Opened) -> None:
    assert full.names() == ["apple.png", "rocket.png", "heart.png"]
    click(full.page, "gallery_order")
    assert full.names() == ["heart.png", "rocket.png", "apple.png"]
    find(full.page, "gallery_search", QLineEdit).setText("emoji")
    assert full.names() == ["rocket.png"]
    assert full.words("gallery_count") == "1 of 3"
    find(full.page, "gallery_search", QLineEdit).setText("pear")
    assert full.words("gallery_no_match") == "No picture was made from “pear”."


def test_tiles_are_made_and_kept_beside_the_pictures(full: Opened) -> None:
    wait_until(lambda: full.studio.tiles.idle)
    assert len(list((full.folder / ".thumbnails").iterdir())) == 3
    assert not full.studio.tiles.problems


def test_a_picture_is_shown_large_and_arrows_go_on(full: Opened) -> None:
    viewer = full.studio.viewer
    full.studio.gallery.select(full.folder / "apple.png")
    press(full.studio.gallery.view, Qt.Key.Key_Return)
    wait_until(lambda: not viewer.zoom.is_empty)
    assert full.words("viewer_prompt") == "a red apple"
    assert full.words("viewer_facts") == "96 \N{MULTIPLICATION SIGN} 64 · seed 2 · 7 steps"
    press(viewer.zoom, Qt.Key.Key_Right)
    assert full.words("viewer_place") == "2 of 3"
    assert full.page.stop_work()
    assert not full.studio.shows_viewer


def test_zoom_by_keys_and_wheel_buttons(full: Opened) -> None:
    full.controller.gallery.open(full.folder / "apple.png")
    zoom = full.studio.viewer.zoom
    wait_until(lambda: not zoom.is_empty)
    fitted = zoom.zoom
    press(zoom, Qt.Key.Key_1)
    assert zoom.zoom == 1.0
    press(zoom, Qt.Key.Key_Plus)
    assert zoom.zoom == 1.25
    click(full.page, "viewer_fit")
    assert zoom.zoom == fitted


def test_two_pictures_are_compared_with_a_line(full: Opened) -> None:
    full.studio.gallery.action_wanted.emit(
        "compare", [full.folder / "apple.png", full.folder / "heart.png"]
    )
    viewer = full.studio.viewer
    wait_until(lambda: viewer.zoom.compares)
    find(full.page, "viewer_split", QSlider).setValue(25)
    assert viewer.zoom.split == 0.25
    press(viewer.zoom, Qt.Key.Key_Right)
    assert find(full.page, "viewer_split", QSlider).value() == 30


def test_what_is_compared_is_seen_while_the_view_has_the_focus(
    full: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoom = full.studio.viewer.zoom
    monkeypatch.setattr(zoom, "hasFocus", lambda: True)
    black, white = (QImage(64, 64, QImage.Format.Format_RGB32) for _ in range(2))
    black.fill(Qt.GlobalColor.black)
    white.fill(Qt.GlobalColor.white)
    full.studio.show_viewer()
    zoom.show_image(black, white)
    seen = zoom.grab().toImage()
    middle = seen.height() // 3
    left, right = (seen.pixelColor(seen.width() * part // 8, middle) for part in (3, 5))
    assert (left.lightness(), right.lightness()) == (0, 255)


def test_a_picture_is_dragged_out_as_a_file(full: Opened) -> None:
    model = full.studio.gallery.model
    assert model.flags(model.index(0)) & Qt.ItemFlag.ItemIsDragEnabled
    data = model.mimeData([model.index(0), model.index(2)])
    names = [Path(url.toLocalFile()).name for url in data.urls()]
    assert names == ["apple.png", "heart.png"]


def test_settings_are_copied_as_text(full: Opened) -> None:
    full.controller.gallery.copy_text(full.folder / "apple.png")
    assert QGuiApplication.clipboard().text().startswith("a red apple\nNegative prompt: blur\n")
    assert full.told == ["The settings are on the clipboard, as text."]


def test_a_deleted_picture_comes_back_by_undo(full: Opened) -> None:
    window = QWidget()
    full.context.messages.attach(window)
    full.studio.gallery.select(full.folder / "rocket.png")
    press(full.studio.gallery.view, Qt.Key.Key_Delete)
    assert full.names() == ["apple.png", "heart.png"]
    assert full.told == ["1 picture deleted."]
    click(window, "toast_action")
    full.wait_pictures(3)


def test_deleting_the_large_picture_goes_on_to_the_next(full: Opened) -> None:
    full.controller.gallery.open(full.folder / "rocket.png")
    click(full.page, "viewer_delete")
    assert full.words("viewer_prompt") == "a purple heart"


def test_a_copy_is_saved_with_its_settings(full: Opened, tmp_path: Path) -> None:
    source, target = full.folder / "apple.png", tmp_path / "copy.png"
    full.controller.gallery.save_to(source, target)
    wait_until(lambda: full.told)
    assert full.told == ["Saved as copy.png."]
    assert target.read_bytes() == source.read_bytes()


def test_a_picture_is_copied_to_the_clipboard(full: Opened, qt: object) -> None:
    full.controller.gallery.copy(full.folder / "apple.png")
    wait_until(lambda: full.told)

    assert QGuiApplication.clipboard().image().width() == 96
