"""Models made for inpainting fill a mask as diffusers does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from image.goldens import FOLDER
from image.inpainting_cases import CASES, Filling, uneven_mask
from image.picture_cases import NEGATIVE, PROMPT, SEED, start_picture
from image.tiny_pipelines import HEIGHT, WIDTH, write_model
from PIL import Image

from engine.formats.diffusers import open_pipeline
from engine.formats.errors import UnsupportedFile
from engine.gpu.device import Device
from engine.image.engine import ImageEngine
from engine.image.settings import ImageSettings


@pytest.fixture(scope="module")
def engine(device: Device) -> Iterator[ImageEngine]:
    """An engine without a model."""
    made = ImageEngine(device)
    yield made
    made.close()
    assert device.ledger.totals().total == 0


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The picture and the mask as files."""
    pictures = {"init": start_picture(), "mask": uneven_mask()}
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    return {name: str(tmp_path / f"{name}.png") for name in pictures}


def order(case: Filling, files: dict[str, str]) -> ImageSettings:
    given = {**files, "strength": case.strength} if case.masked else {}
    return ImageSettings(
        PROMPT,
        NEGATIVE,
        width=WIDTH,
        height=HEIGHT,
        steps=5,
        guidance=5.0,
        sampler=case.sampler,
        seed=SEED,
        **given,
    )


@pytest.mark.parametrize("name", CASES)
def test_diffusers_fills_it_alike(
    engine: ImageEngine, files: dict[str, str], tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    engine.load(write_model(tmp_path / case.kind, case.kind))
    (picture,), info = engine.generate(order(case, files))
    wanted = np.load(FOLDER / "inpainting.npz")[name].astype(float)
    assert np.abs(picture - wanted).mean() < 1
    kept = uneven_mask() == 0
    if case.masked:
        assert (picture[kept] == start_picture()[kept]).all()
    assert any("Without a mask" in note for note in info["notes"]) is not case.masked


def test_pictures_of_one_order_are_the_same_alone(
    engine: ImageEngine, files: dict[str, str], tmp_path: Path
) -> None:
    engine.load(write_model(tmp_path / "inpaint", "inpaint"))
    first = ImageSettings(
        PROMPT,
        seed=SEED,
        steps=2,
        sampler="ddim",
        guidance=1.0,
        width=WIDTH,
        height=HEIGHT,
        **files,
    )
    (_, second), _ = engine.generate(replace(first, count=2))
    (alone,), _ = engine.generate(replace(first, seed=SEED + 1))
    assert np.abs(alone.astype(float) - second).mean() < 1


def test_the_family_is_recognised(tmp_path: Path) -> None:
    with open_pipeline(write_model(tmp_path / "inpaint", "inpaint")) as files:
        assert files.reads_mask
    with open_pipeline(write_model(tmp_path / "plain", "sd1")) as files:
        assert not files.reads_mask


def test_editing_by_instruction_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "pix2pix", "instruct")
    with pytest.raises(UnsupportedFile, match=r"8 channels, as one that edits .*InstructPix2Pix"):
        open_pipeline(folder)
