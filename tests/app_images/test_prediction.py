"""What a model predicts, and how much of a start picture it makes anew: its own, or chosen."""

from __future__ import annotations

from pathlib import Path

from app_common.qt import find, wait_until
from fake_drawing import picture, save
from fake_images import OTHER, STARTER
from PySide6.QtWidgets import QComboBox

from app_images.opened import Opened


def choose_model(opened: Opened, name: str) -> None:
    opened.controller._models.choose(name)
    wait_until(lambda: opened.controller._known == name, "for the model's facts")


def choose(opened: Opened, prediction: str) -> None:
    box = find(opened.page, "image_prediction", QComboBox)
    box.setCurrentIndex(box.findData(prediction))


def ordered(opened: Opened) -> dict[str, object]:
    before = len(opened.studio.gallery.model.every)
    opened.draw("a cat")
    opened.wait_pictures(before + 1)
    made = opened.orders()[-1]["settings"]
    assert isinstance(made, dict)
    return made


def test_it_is_asked_only_where_the_file_does_not_tell(opened: Opened) -> None:
    row = opened.studio.form.more.prediction
    assert row.isHidden()
    choose_model(opened, OTHER)
    assert not row.isHidden()
    assert opened.studio.form.more.is_open
    assert opened.words("image_prediction_when").endswith("grey noise.")
    assert row.choice.currentData() == "v_prediction"
    assert "prediction" not in ordered(opened)  # the guess is the engine's own


def test_what_was_chosen_is_sent_and_kept_for_the_model(opened: Opened) -> None:
    choose_model(opened, OTHER)
    choose(opened, "epsilon")
    assert ordered(opened)["prediction"] == "epsilon"
    opened.controller._keep()
    choose_model(opened, STARTER)
    assert opened.studio.form.values().prediction == ""
    choose_model(opened, OTHER)
    assert opened.studio.form.values().prediction == "epsilon"


def test_a_picture_brings_it_back_with_its_model(opened: Opened, tmp_path: Path) -> None:
    settings = {"prompt": "x", "seed": 1, "steps": 9, "prediction": "sample"}
    save(tmp_path / "x.png", picture("x", 1, 1.0, 64, 64), settings, OTHER)
    opened.page.open_files([tmp_path / "x.png"])
    wait_until(lambda: opened.controller._known == OTHER)
    values = opened.studio.form.values()
    assert (values.prediction, values.steps, values.prompt) == ("sample", 9, "x")
    choose_model(opened, STARTER)
    choose_model(opened, OTHER)
    assert opened.studio.form.values().steps == 20  # the picture is not brought back twice


def test_the_strength_begins_as_the_model_likes_it(opened: Opened) -> None:
    assert opened.studio.form.values().strength == 0.75
    choose_model(opened, OTHER)
    assert opened.studio.form.values().strength == 1.0
    opened.studio.form.start.strength.set_value(0.4)
    choose_model(opened, STARTER)
    assert opened.studio.form.values().strength == 0.4
