"""The Images page as a person uses it, over the scripted worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from app_common.qt import click, close_context, find, make_context, press, show, wait_until
from fake_drawing import picture, save
from fake_images import OTHER, PROMPTS, STARTER
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QDialog,
    QLabel,
    QLineEdit,
    QSlider,
    QSpinBox,
    QWidget,
)

from app.images.controller import StudioController
from app.images.page import ImagesPage, create_page
from app.images.studio import Studio
from app.shell.page import AppContext
from app.widgets import Button, ElidedLabel


@pytest.fixture
def drawing(qt: object, tmp_path: Path) -> Iterator[AppContext]:
    """A context whose worker draws, at a pace that one can follow."""
    made = make_context(tmp_path, "--pictures", "--delay", "0.01", "--log", str(tmp_path / "log"))
    yield made
    close_context(made)


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


@pytest.fixture
def opened(drawing: AppContext) -> Iterator[Opened]:
    made = Opened(drawing)
    yield made
    made.close()


@pytest.fixture
def full(drawing: AppContext) -> Iterator[Opened]:
    """The page over three pictures: apple (newest), rocket, heart."""
    folder = drawing.places.data / "pictures"
    for number, prompt in enumerate(reversed(PROMPTS[:3])):
        settings = {"prompt": prompt, "seed": number, "steps": 7, "negative": "blur", "width": 96}
        image = picture(prompt, number, 1.0, 96, 64)
        save(folder / f"{prompt.split()[-1]}.png", image, settings, STARTER)
    made = Opened(drawing)
    made.wait_pictures(3)
    yield made
    made.close()


def test_an_engine_that_does_not_draw_says_so_and_leads_to_chat(qt: object, tmp_path: Path) -> None:
    context = make_context(tmp_path, "--pictures", "--no-pictures")
    gone: list[str] = []
    page = create_page(replace(context, go_to=gone.append))
    show(page)
    page.page_shown()
    wait_until(lambda: page.findChild(QLabel, "images_empty_title"))
    assert find(page, "images_empty_title", QLabel).text() == "Pictures come in the next version"
    click(page, "images_go_to_chat")
    assert gone == ["chat"]
    close_context(context)


def test_without_a_model_it_leads_to_the_models(context: AppContext) -> None:
    gone: list[str] = []
    page = create_page(replace(context, go_to=gone.append))
    show(page)
    page.page_shown()
    wait_until(lambda: page.findChild(QLabel, "images_no_model_title"))
    click(page, "images_go_to_models")
    assert gone == ["models"]


def test_the_form_starts_as_the_model_likes_it(opened: Opened) -> None:
    values = opened.studio.form.values()
    assert (values.width, values.height, values.steps, values.guidance) == (128, 128, 20, 4.5)
    assert values.seed is None
    assert find(opened.page, "image_model", QAbstractButton).text() == "Driftwood starter pictures"


def test_an_example_is_put_into_the_prompt(opened: Opened) -> None:
    click(opened.page, "image_example_0")
    assert opened.studio.form.prompt.toPlainText() == "a red apple"
    wait_until(lambda: opened.words("image_tokens") == "5 / 32 tokens")


def test_what_the_model_does_not_read_is_shown(opened: Opened) -> None:
    opened.studio.form.prompt.setPlainText(" ".join(f"w{n}" for n in range(33)))
    wait_until(lambda: opened.words("image_cut") == "Not read, beyond the limit: “w30 w31 w32”")
    assert opened.words("image_tokens") == "35 / 32 tokens"


def test_what_is_dropped_before_the_engine_answers_is_kept(
    drawing: AppContext, tmp_path: Path
) -> None:
    save(tmp_path / "x.png", picture("x", 1, 1.0, 64, 64), {"prompt": "x", "seed": 1}, STARTER)
    page = create_page(drawing)
    show(page)
    page.page_shown()
    page.open_files([tmp_path / "x.png"])
    wait_until(lambda: page.studio and page.studio.form.values().prompt == "x")
    page.shut_down()


def test_nothing_is_drawn_without_words(opened: Opened) -> None:
    opened.draw("  ")
    assert opened.words("image_cut") == "Say first what the picture shall show."
    assert not opened.controller.drawing.jobs.items


def test_pictures_are_drawn_with_a_live_preview_and_land_in_the_gallery(opened: Opened) -> None:
    form = opened.studio.form
    form.count.setCurrentIndex(form.count.findData(2))
    assert form.draw.text() == "Draw 2 pictures"
    opened.draw("a red apple")
    wait_until(lambda: not opened.studio.running.preview.image.isNull(), "for a preview")
    assert opened.words("image_running_title").startswith("2 pictures")
    assert opened.words("image_running_progress").startswith("step ")
    opened.wait_pictures(2)
    wait_until(lambda: not opened.studio.running.isVisible())
    assert opened.studio.gallery.model.every[0].prompt == "a red apple"
    assert opened.words("gallery_count") == "2 pictures"


def test_orders_wait_in_line_and_can_be_removed_and_moved(opened: Opened) -> None:
    for prompt in ("/hang", "second", "third", "fourth"):
        opened.draw(prompt)
    page = opened.page
    assert find(page, "image_draw", QAbstractButton).text() == "Add to the queue"
    click(page, "image_job_2_remove")
    click(page, "image_job_4_up")
    waiting = [job.values.prompt for job in opened.controller.drawing.jobs.waiting]
    assert waiting == ["fourth", "third"]
    wait_until(lambda: opened.words("image_running_progress") == "getting ready")
    click(page, "image_cancel")
    opened.wait_pictures(2)
    assert [one.prompt for one in opened.studio.gallery.model.every] == ["third", "fourth"]


def test_escape_cancels_within_a_step(opened: Opened) -> None:
    opened.draw("/hang")
    wait_until(lambda: opened.words("image_running_progress") == "getting ready")
    assert opened.page.stop_work()
    assert opened.words("image_running_progress") == "stopping"
    wait_until(lambda: not opened.controller.drawing.jobs.items)
    assert not opened.page.stop_work()


def test_what_goes_wrong_is_told_in_place_and_tried_again(opened: Opened) -> None:
    opened.draw("/error out_of_memory")
    wait_until(lambda: opened.controller.drawing.jobs.failed)
    assert opened.words("image_failed_1_text") == "A scripted failure (out_of_memory)."
    click(opened.page, "image_failed_1_retry")
    assert opened.controller.drawing.jobs.running is not None
    wait_until(lambda: opened.controller.drawing.jobs.failed)
    click(opened.page, "image_failed_1_remove")
    assert not opened.controller.drawing.jobs.items


def test_a_worker_that_dies_leaves_the_order_to_try_again(opened: Opened) -> None:
    opened.draw("/crash")
    wait_until(lambda: opened.controller.drawing.jobs.failed)
    assert "stopped unexpectedly" in opened.words("image_failed_1_text")


def test_a_locked_seed_is_used_again_and_an_open_one_changes(opened: Opened) -> None:
    page = opened.page
    for _ in range(2):
        opened.draw("a cat")
    opened.wait_pictures(2)
    first, second = (order["settings"]["seed"] for order in opened.orders())  # type: ignore[index]
    assert first != second
    click(page, "image_seed_lock")
    assert find(page, "image_seed", QLineEdit).text() == str(second)
    opened.draw("a cat")
    opened.wait_pictures(3)
    assert opened.orders()[-1]["settings"]["seed"] == second  # type: ignore[index]
    click(page, "image_seed_dice")
    assert opened.studio.form.values().seed != second


def test_any_size_in_steps_of_eight(opened: Opened) -> None:
    size = find(opened.page, "image_size", QComboBox)
    size.setCurrentIndex(size.count() - 1)
    width = find(opened.page, "image_width", QSpinBox)
    width.setValue(131)
    width.editingFinished.emit()
    assert opened.studio.form.values().width == 128


def test_another_model_brings_its_own_settings_and_is_kept(opened: Opened) -> None:
    opened.studio.form.steps.number.setValue(3)
    opened.studio.form.model_chosen.emit(OTHER)
    wait_until(lambda: opened.page.models.info.model == OTHER)
    assert opened.studio.form.values().steps == 20
    assert opened.context.settings.get("images.model") == OTHER


def test_the_form_is_kept_over_a_restart(opened: Opened) -> None:
    opened.studio.form.prompt.setPlainText("a castle")
    opened.studio.form.steps.number.setValue(9)
    opened.page.shut_down()
    again = Opened(opened.context)
    assert again.studio.form.values().prompt == "a castle"
    assert again.studio.form.values().steps == 9
    again.close()


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
    from PySide6.QtGui import QGuiApplication

    assert QGuiApplication.clipboard().image().width() == 96


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
    click(opened.page, "image_start_remove")
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


def test_every_control_has_a_name_and_can_be_reached(full: Opened) -> None:
    kinds = (Button, QComboBox, QSpinBox, QSlider)
    for kind in kinds:
        for widget in full.page.findChildren(kind):
            assert widget.accessibleName() or widget.text(), widget.objectName()
            assert widget.focusPolicy() != Qt.FocusPolicy.NoFocus, widget.objectName()
