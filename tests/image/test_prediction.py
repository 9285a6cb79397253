"""What a denoiser predicts can be said where its file does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from image.tiny_pipelines import write_model

from engine.formats.diffusers_prediction import GUESSED, PREDICTIONS
from engine.gpu.device import Device
from engine.image.engine import ImageEngine
from engine.image.errors import SettingError
from engine.image.settings import ImageSettings
from engine.worker import protocol


def order(prediction: str | None) -> ImageSettings:
    return ImageSettings(
        "a red apple", steps=2, seed=3, guidance=1.0, width=64, height=64, prediction=prediction
    )


def test_a_setting_overrules_the_model_and_its_guess(device: Device, tmp_path: Path) -> None:
    engine = ImageEngine(device)
    engine.load(write_model(tmp_path / "sd2", "sd2"))  # predicts v
    engine.pipeline.model.notes.append(GUESSED)
    made = {prediction: engine.generate(order(prediction)) for prediction in (None, *PREDICTIONS)}
    engine.close()
    same = {name: (images[0] == made[None][0][0]).all() for name, (images, _) in made.items()}
    assert same == {None: True, "epsilon": False, "v_prediction": True, "sample": False}
    told = {name: GUESSED in info["notes"] for name, (_, info) in made.items()}
    assert told == {None: True, "epsilon": False, "v_prediction": False, "sample": False}
    assert np.isfinite(made["sample"][0][0]).all()


def test_other_words_are_refused() -> None:
    with pytest.raises(SettingError, match=r"'noise'\. Choose one of epsilon, v_pred"):
        order("noise")


def test_the_worker_offers_the_same() -> None:
    assert protocol.PREDICTIONS == PREDICTIONS
