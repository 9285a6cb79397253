"""The live preview's colours: brought by a model, known for its family, or learned."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from image.goldens import STARTER
from image.tiny_pipelines import write_model

from engine.formats.diffusers import open_pipeline
from engine.formats.diffusers_configs import read_tiny_vae_config, read_vae_config
from engine.gpu.device import Device
from engine.image.engine import ImageEngine
from engine.image.latent_colours import FILE, Learned, known_colours
from engine.image.settings import ImageSettings


def described(family: str, scale: float | None, channels: int = 4, path: Path = Path()) -> Any:
    """As much of an open model as tells its latents; ``scale`` None for a tiny autoencoder."""
    vae = read_tiny_vae_config({})
    if scale is not None:
        vae = read_vae_config({"scaling_factor": scale, "latent_channels": channels})
    return SimpleNamespace(path=path, kind="folder", family=family, vae=vae)


@pytest.mark.parametrize(
    ("family", "scale", "known"),
    [
        ("sd1", 0.18215, True),
        ("sd2", 0.18215, True),
        ("sd1", None, True),  # a tiny autoencoder for the same latents
        ("sdxl", 0.13025, True),
        ("sdxl", 0.18215, False),
        ("sd1", 0.5, False),
        ("custom", 0.18215, False),
    ],
)
def test_families_are_known_by_their_scale(family: str, scale: float | None, known: bool) -> None:
    assert (known_colours(described(family, scale)) is not None) is known


def test_grey_latents_are_about_grey() -> None:
    for family, scale in (("sd1", 0.18215), ("sdxl", 0.13025)):
        colours = known_colours(described(family, scale))
        assert colours is not None
        assert colours.matrix.shape == (3, 4)
        assert np.abs(colours.offset).max() < 0.2


def test_the_starter_model_brings_its_own() -> None:
    with open_pipeline(STARTER) as files:
        colours = known_colours(files)
    assert colours is not None
    assert colours.matrix.shape == (3, 8)


@pytest.mark.parametrize(
    "text", ["{}", "[", '{"matrix": [[1]], "offset": [0, 0, 0]}', '{"matrix": "x", "offset": null}']
)
def test_a_damaged_file_leaves_the_preview_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / FILE).write_text(text)
    assert known_colours(described("sd1", 0.18215, path=tmp_path)) is None


def test_a_linear_map_is_learned_from_pictures() -> None:
    rng = np.random.default_rng(1)
    matrix, offset = rng.normal(0, 0.3, (3, 5)), rng.normal(0, 0.1, 3)
    learned = Learned(5)
    assert learned.colours() is None
    for _ in range(3):
        latents = rng.normal(size=(12, 10, 5)).astype(np.float32)
        picture = (latents @ matrix.T + offset).repeat(8, 0).repeat(8, 1)
        learned.add(latents, picture.astype(np.float32))
    colours = learned.colours()
    assert colours is not None
    np.testing.assert_allclose(colours.matrix, matrix, atol=0.02)
    np.testing.assert_allclose(colours.offset, offset, atol=0.02)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    learned = Learned(4)
    rng = np.random.default_rng(2)
    learned.add(rng.normal(size=(4, 4, 4)), rng.normal(size=(32, 32, 3)))
    colours = learned.colours()
    assert colours is not None
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / FILE).write_text(json.dumps(colours.as_json()))
    again = known_colours(described("custom", 0.5, path=tmp_path))
    assert again is not None
    np.testing.assert_allclose(again.factors(), colours.factors(), atol=1e-4)


def test_latents_of_an_unknown_kind_are_shown_from_the_second_picture_on(
    device: Device, tmp_path: Path
) -> None:
    engine = ImageEngine(device)
    engine.load(write_model(tmp_path / "sd1", "sd1"))
    previews: list[object] = []

    def on_step(step: int, total: int, left: float | None, preview: object) -> None:
        previews.append(preview)

    for _ in range(2):
        engine.generate(ImageSettings("a red apple", steps=1, seed=1), on_step)
    engine.close()
    assert [preview is not None for preview in previews] == [False, True]
