"""Pages over the scripted worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from app_common.qt import close_context, make_context
from fake_drawing import picture, save
from fake_images import PROMPTS, STARTER

from app.shell.page import AppContext
from app_images.opened import Opened


@pytest.fixture
def drawing(qt: object, tmp_path: Path) -> Iterator[AppContext]:
    """A context whose worker draws, at a pace that one can follow."""
    made = make_context(tmp_path, "--pictures", "--delay", "0.01", "--log", str(tmp_path / "log"))
    yield made
    close_context(made)


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
