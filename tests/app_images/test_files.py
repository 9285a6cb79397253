"""LoRA files, a separate VAE and CLIP skip on the form, and how they come back from pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from app_common.qt import find, turn_wheel, wait_until
from fake_drawing import picture, save
from fake_images import OTHER, STARTER
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QDoubleSpinBox, QSlider, QSpinBox, QWidget

from app.images.known import KnownFiles
from app.images.recall import with_files
from app.images.values import Lora, Values
from app_images.opened import Opened


@pytest.fixture
def weights(tmp_path: Path) -> dict[str, Path]:
    """Files by what the scripted worker takes them for."""
    folder = tmp_path / "weights"
    folder.mkdir()
    names = ("ink", "moon", "ink-xl", "soft-vae", "bad")
    made = {name: folder / f"{name}.safetensors" for name in names}
    for path in made.values():
        path.touch()
    return made


def drop(widget: QWidget, *paths: Path) -> bool:
    """Drag files onto a widget and let go; False where it does not take them."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    keys = (Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    enter = QDragEnterEvent(QPoint(5, 5), Qt.DropAction.CopyAction, data, *keys)
    enter.setAccepted(False)
    QApplication.sendEvent(widget, enter)
    if enter.isAccepted():
        event = QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, *keys)
        QApplication.sendEvent(widget, event)
    return enter.isAccepted()


def add(opened: Opened, *paths: Path) -> None:
    """Drop LoRA files on the form and wait for them."""
    wanted = len(opened.studio.form.more.loras.rows) + len(paths)
    assert drop(opened.studio.form, *paths)
    wait_until(lambda: len(opened.studio.form.more.loras.rows) == wanted, "for the files")


def last_order(opened: Opened, prompt: str = "a cat") -> dict[str, object]:
    before = len(opened.studio.gallery.model.every)
    opened.draw(prompt)
    opened.wait_pictures(before + 1)
    made = opened.orders()[-1]["settings"]
    assert isinstance(made, dict)
    return made


def test_dropped_loras_are_listed_and_drawn_with(opened: Opened, weights: dict[str, Path]) -> None:
    add(opened, weights["ink"], weights["moon"])
    assert opened.studio.form.more.is_open
    find(opened.page, "image_lora_0_weight", QDoubleSpinBox).setValue(0.6)
    find(opened.page, "image_lora_1_slider", QSlider).setValue(30)
    assert last_order(opened)["loras"] == [
        {"path": str(weights["ink"]), "weight": 0.6},
        {"path": str(weights["moon"]), "weight": 1.5},
    ]
    find(opened.page, "image_lora_0_remove").click()  # type: ignore[attr-defined]
    assert opened.studio.form.values().loras == (Lora(str(weights["moon"]), 1.5),)
    assert opened.words("image_lora_0_name") == "moon"


def test_a_lora_without_weight_is_not_sent(opened: Opened, weights: dict[str, Path]) -> None:
    add(opened, weights["ink"])
    find(opened.page, "image_lora_0_weight", QDoubleSpinBox).setValue(0)
    assert "loras" not in last_order(opened)


def test_a_file_twice_is_one(opened: Opened, weights: dict[str, Path]) -> None:
    add(opened, weights["ink"])
    opened.controller.files.add(str(weights["ink"]))
    add(opened, weights["moon"])
    assert len(opened.studio.form.more.loras.rows) == 2


def test_a_vae_is_known_for_what_it_is_and_can_be_cleared(
    opened: Opened, weights: dict[str, Path]
) -> None:
    assert drop(opened.studio.form, weights["soft-vae"])
    wait_until(lambda: opened.words("image_vae_name") == "soft-vae")
    assert last_order(opened)["vae"] == str(weights["soft-vae"])
    find(opened.page, "image_vae_clear").click()  # type: ignore[attr-defined]
    assert opened.words("image_vae_name") == "Built in"
    assert "vae" not in last_order(opened)


@pytest.mark.parametrize(
    ("name", "said"),
    [("bad", "bad is no LoRA."), ("ink-xl", "ink-xl was made for Stable Diffusion XL.")],
)
def test_a_wrong_file_is_answered_in_words(
    opened: Opened, weights: dict[str, Path], name: str, said: str
) -> None:
    assert drop(opened.studio.form, weights[name])
    wait_until(lambda: opened.told)
    assert opened.told == [said]
    assert not opened.studio.form.more.loras.rows


def test_a_lora_that_does_not_go_with_the_model_says_so_and_is_left_out(
    opened: Opened, weights: dict[str, Path]
) -> None:
    form = opened.studio.form
    form.more.loras.put(str(weights["ink-xl"]))
    form.model_chosen.emit(OTHER)
    wait_until(lambda: form.more.loras.rows[0].problem)
    told = "ink-xl was made for Stable Diffusion XL. It is left out."
    assert opened.words("image_lora_0_note") == told
    assert "loras" not in last_order(opened)
    assert form.values().loras  # it comes back with a model that can use it


def test_pictures_and_other_files_are_not_the_forms(opened: Opened, tmp_path: Path) -> None:
    assert not drop(opened.studio.form, tmp_path / "a.png")
    assert drop(opened.studio.form.start, tmp_path / "a.png")


def test_files_used_before_are_offered_in_a_menu(opened: Opened, weights: dict[str, Path]) -> None:
    add(opened, weights["ink"])
    find(opened.page, "image_lora_0_remove").click()  # type: ignore[attr-defined]
    box = opened.studio.form.more.loras
    find(opened.page, "image_lora_add").click()  # type: ignore[attr-defined]
    assert [one.text() for one in box.menu.actions() if one.text()] == ["ink", "Choose a file…"]
    box.menu.actions()[0].trigger()
    wait_until(lambda: box.rows)
    box.menu.close()


def test_clip_skip_is_sent_and_hidden_where_it_is_not_used(opened: Opened) -> None:
    number = find(opened.page, "image_clip_skip", QSpinBox)
    assert (number.minimum(), number.maximum()) == (1, 12)
    number.setValue(2)
    assert last_order(opened)["clip_skip"] == 2
    number.setValue(1)
    assert "clip_skip" not in last_order(opened)


def test_settings_with_files_come_back_from_a_picture(
    opened: Opened, weights: dict[str, Path], tmp_path: Path
) -> None:
    opened.controller.files.add(str(weights["ink"]))
    wait_until(lambda: opened.studio.form.more.loras.rows)
    find(opened.page, "image_lora_0_remove").click()  # type: ignore[attr-defined]
    loras = [{"path": "ink.safetensors", "weight": 0.4}, {"path": "gone", "weight": 1}]
    settings = {"prompt": "x", "seed": 1, "clip_skip": 3, "loras": loras}
    save(tmp_path / "x.png", picture("x", 1, 1.0, 64, 64), settings, STARTER)
    opened.page.open_files([tmp_path / "x.png"])
    wait_until(lambda: opened.told)
    values = opened.studio.form.values()
    assert values.loras == (Lora(str(weights["ink"]), 0.4),)
    assert values.clip_skip == 3
    told = "Settings taken from x.png. It used the LoRA gone, which is not here."
    assert opened.told == [told]


def test_a_lora_dropped_on_the_window_joins_the_form(
    opened: Opened, weights: dict[str, Path]
) -> None:
    photo = weights["ink"].with_name("photo.png")
    assert opened.page.claim_files([weights["ink"], photo]) == [weights["ink"]]
    wait_until(lambda: opened.studio.form.more.loras.rows)
    assert opened.studio.form.more.is_open
    assert opened.page.claim_files([weights["ink-xl"]])
    wait_until(lambda: opened.told)
    assert opened.told == ["ink-xl was made for Stable Diffusion XL."]


def test_a_model_dropped_on_the_window_goes_on_to_the_models(
    opened: Opened, weights: dict[str, Path]
) -> None:
    gone: list[tuple[str, object]] = []
    elsewhere = replace(opened.context, go_to=lambda page, **wishes: gone.append((page, wishes)))
    opened.page._context = elsewhere
    opened.page.claim_files([weights["bad"]])
    wait_until(lambda: gone)
    assert gone == [("models", {"add": [str(weights["bad"])]})]
    assert not opened.studio.form.more.loras.rows


def test_scrolling_over_a_field_leaves_its_value(opened: Opened) -> None:
    slider = find(opened.page, "image_steps_slider", QSlider)
    before = slider.value()
    turn_wheel(slider)
    assert slider.value() == before


class Kept(dict[str, object]):
    """Settings that nothing is written of."""

    def set(self, key: str, value: object) -> None:
        self[key] = value


def test_files_are_found_by_what_pictures_call_them(weights: dict[str, Path]) -> None:
    known = KnownFiles(Kept())
    known.remember("lora", str(weights["ink"]))
    ink, moon = str(weights["ink"]), str(weights["moon"])
    assert known.find("lora", "C:\\loras\\ink.safetensors") == ink
    assert known.find("lora", "ink") == ink  # as other tools write it
    assert known.find("lora", "moon") == moon  # it lies beside one that is known
    assert known.find("lora", moon) == moon
    assert known.find("vae", "ink") == ""
    assert known.find("lora", "sun") == ""


def test_odd_settings_hold_no_files() -> None:
    kept = Kept()
    kept["images.files"] = [{"kind": 1}, "x", None]
    assert KnownFiles(kept).recent("lora", 3) == []
    kept["images.files"] = "x"
    assert KnownFiles(kept).find("lora", "x") == ""


def test_a_start_picture_and_its_mask_are_looked_for_where_they_are_kept(tmp_path: Path) -> None:
    for name in ("photo.png", "mask.png"):
        (tmp_path / name).touch()
    asked = Values(init="photo.png", mask="mask.png")
    values, notes = with_files(asked, KnownFiles(Kept()), tmp_path, tmp_path)
    assert (values.init, values.mask) == (str(tmp_path / "photo.png"), str(tmp_path / "mask.png"))
    assert notes == []
    values, notes = with_files(asked, KnownFiles(Kept()), tmp_path / "no", tmp_path)
    assert (values.init, values.mask) == ("", "")
    assert notes == ["It began with photo.png, which is not here."]


def test_long_names_in_a_sentence_leave_the_form_its_width(
    opened: Opened, weights: dict[str, Path]
) -> None:
    add(opened, weights["ink"])
    form = opened.studio.form
    name = "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_v.weight" * 2
    form.more.loras.tell(str(weights["ink"]), f"It changes {name}.", "")
    form.show_tokens("", "a" * 200, True)
    inner = form._scroll.widget()
    assert inner.minimumSizeHint().width() <= form._scroll.viewport().width()
