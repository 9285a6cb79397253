"""The Images page as it opens and its form, over the scripted worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app_common.qt import click, close_context, find, make_context, show, wait_until
from fake_drawing import picture, save
from fake_images import OTHER, STARTER
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QLabel,
    QScrollArea,
    QSlider,
    QSpinBox,
)

from app.images.page import create_page
from app.shell.page import AppContext
from app.widgets import Button
from app_images.opened import Opened


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


def test_the_form_has_room_in_the_smallest_window(opened: Opened) -> None:
    opened.page.resize(644, 520)
    form = opened.studio.form
    form.more.set_open(True)
    form.leave_out.set_open(True)
    scroll = find(form, "image_form_scroll", QScrollArea)
    wait_until(lambda: scroll.verticalScrollBar().isVisible())
    inner = scroll.widget()
    assert inner is not None
    assert inner.minimumSizeHint().width() <= scroll.viewport().width()


def test_every_control_has_a_name_and_can_be_reached(full: Opened) -> None:
    kinds = (Button, QComboBox, QSpinBox, QSlider)
    for kind in kinds:
        for widget in full.page.findChildren(kind):
            assert widget.accessibleName() or widget.text(), widget.objectName()
            assert widget.focusPolicy() != Qt.FocusPolicy.NoFocus, widget.objectName()
