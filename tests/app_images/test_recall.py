"""Settings, start pictures and masks that come from pictures."""

from __future__ import annotations

from pathlib import Path

from app_common.qt import click, find, press, wait_until
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QColor, QDropEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QDialog,
)

from app.images.start import SmallPicture
from app_images.opened import Opened


def test_a_dropped_picture_recalls_everything(full: Opened) -> None:
    full.page.open_files([full.folder / "heart.png"])
    wait_until(lambda: full.told)
    values = full.studio.form.values()
    assert (values.prompt, values.negative, values.seed) == ("a purple heart", "blur", 0)
    assert (values.width, values.steps) == (96, 7)
    assert full.told == ["Settings taken from heart.png."]


def test_a_variation_has_another_seed_and_leaves_the_form_alone(full: Opened) -> None:
    full.controller.gallery.open(full.folder / "heart.png")
    click(full.page, "viewer_vary")
    full.wait_pictures(4)
    made = full.orders()[-1]["settings"]
    assert isinstance(made, dict)
    assert (made["prompt"], made["steps"], made["negative"]) == ("a purple heart", 7, "blur")
    assert made["seed"] != 0
    assert full.studio.form.values().prompt == ""


def test_a_picture_without_settings_becomes_the_start_picture(
    opened: Opened, tmp_path: Path
) -> None:
    plain = tmp_path / "photo.png"
    QImage(160, 80, QImage.Format.Format_RGB32).save(str(plain))
    opened.page.open_files([plain])
    wait_until(lambda: opened.studio.form.start.init_file)
    values = opened.studio.form.values()
    assert (values.init, values.width, values.height) == (str(plain), 184, 88)
    assert opened.words("image_start_name") == "photo.png"
    wait_until(lambda: find(opened.page, "image_start_remove").isVisible())
    find(opened.page, "image_start_remove", QAbstractButton).click()
    assert opened.studio.form.values().init == ""


def test_a_file_that_is_no_picture_is_told(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_text("hello")
    opened.page.open_files([tmp_path / "x.jpg"])
    wait_until(lambda: opened.told)
    assert "not a picture that can be read" in opened.told[0]


def test_a_drop_on_the_start_box_starts_from_it_even_with_settings(full: Opened) -> None:
    box = full.studio.form.start
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(full.folder / "apple.png"))])
    drop = QDropEvent(
        QPointF(5, 5),
        Qt.DropAction.CopyAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    box.dropEvent(drop)
    wait_until(lambda: box.init_file)
    assert full.studio.form.values().prompt == ""


def test_a_mask_is_painted_and_sent(full: Opened) -> None:
    full.controller.start.use(str(full.folder / "apple.png"))
    wait_until(lambda: full.studio.form.start.init_file)
    full.controller.start.paint()
    wait_until(lambda: full.controller.start.dialog)
    dialog = full.controller.start.dialog
    assert isinstance(dialog, QDialog)
    canvas = dialog.canvas
    QTest.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=canvas.rect().center())
    press(canvas, Qt.Key.Key_Left)
    press(canvas, Qt.Key.Key_Space)
    assert len(canvas.model.strokes) == 2
    click(dialog, "mask_undo")
    assert len(canvas.model.strokes) == 1
    click(dialog, "mask_use")
    wait_until(lambda: full.studio.form.start.mask_file)
    mask = QImage(full.studio.form.start.mask_file)
    assert mask.pixelColor(mask.rect().center()).lightness() == 255
    assert mask.pixelColor(0, 0).lightness() == 0
    small = full.studio.form.start.picture
    wait_until(lambda: not small._mask.isNull(), "for the mask on the small picture")
    full.draw("a cat")
    full.wait_pictures(4)
    made = full.orders()[-1]["settings"]
    assert isinstance(made, dict)
    assert made["mask"] == full.studio.form.start.mask_file
    assert made["strength"] == 0.75


def test_an_empty_mask_is_none(full: Opened) -> None:
    full.controller.start.use(str(full.folder / "apple.png"))
    wait_until(lambda: full.studio.form.start.init_file)
    full.controller.start.paint()
    wait_until(lambda: full.controller.start.dialog)
    dialog = full.controller.start.dialog
    assert dialog is not None
    QTest.mouseClick(dialog.canvas, Qt.MouseButton.LeftButton)
    click(dialog, "mask_clear")
    click(dialog, "mask_use")
    assert full.studio.form.start.mask_file == ""


def test_the_marked_parts_are_seen_on_the_small_picture(qt: object) -> None:
    grey, mask = (QImage(64, 32, QImage.Format.Format_RGB32) for _ in range(2))
    grey.fill(QColor("grey"))
    mask.fill(QColor("black"))
    mask.setPixelColor(32, 16, QColor("white"))
    shown = SmallPicture()
    shown.set_image(grey)
    plain = shown.grab().toImage()
    shown.set_mask(mask)
    marked = shown.grab().toImage()
    assert marked.pixelColor(2, 32) == plain.pixelColor(2, 32)
    assert any(marked.pixelColor(x, 32) != plain.pixelColor(x, 32) for x in range(28, 38))
