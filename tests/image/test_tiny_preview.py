"""A tiny autoencoder in any of its layouts decodes alike, and draws the live preview."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from image.tiny_pipelines import KINDS, TINY_VAE, numbers, parts_of, write_model

from engine.formats.diffusers import open_pipeline, open_vae
from engine.formats.diffusers_configs import TinyVaeConfig
from engine.formats.errors import FormatError, UnsupportedFile
from engine.formats.safetensors import write_safetensors
from engine.gpu.device import Device
from engine.image.engine import ImageEngine
from engine.image.pipeline_pictures import to_pixels
from engine.image.settings import ImageSettings

ORDER = ImageSettings(
    "a red apple", steps=3, seed=4, sampler="ddim", guidance=1.0, width=64, height=64
)


def tensors(seeds: str = "") -> dict[str, np.ndarray]:
    """A tiny autoencoder under diffusers' names."""
    _, shapes = parts_of(KINDS["taesd"])["vae"]
    return {name: numbers(f"vae.{name}{seeds}", shape) for name, shape in shapes.items()}


def half(side: str, seeds: str = "") -> dict[str, np.ndarray]:
    """One half under TAESD's own names."""
    made: dict[str, np.ndarray] = {}
    for name, array in tensors(seeds).items():
        own, _, number, rest = name.split(".", 3)
        if own == side:
            made[f"{int(number) + (side == 'decoder')}.{rest}"] = array
    return made


def write_halves(folder: Path, *sides: str) -> Path:
    for side in sides:
        write_safetensors(folder / f"taesd_{side}.safetensors", half(side))
    return folder / f"taesd_{sides[0]}.safetensors"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder for models."""
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture(scope="module")
def engine(device: Device) -> Iterator[ImageEngine]:
    made = ImageEngine(device)
    yield made
    made.close()
    assert device.ledger.totals().total == 0


# ---- Layouts


@pytest.mark.parametrize("given", ["decoder", "encoder"])
def test_both_halves_are_found_from_either(models: Path, given: str) -> None:
    write_halves(models, "encoder", "decoder")
    vae = open_vae(models / f"taesd_{given}.safetensors")
    assert isinstance(vae.config, TinyVaeConfig)
    assert vae.config.decoder_blocks == tuple(TINY_VAE["num_decoder_blocks"])
    assert set(vae.weights.names()) == set(tensors())
    for name, array in tensors().items():
        np.testing.assert_array_equal(vae.weights.array(name), array)
    for file in vae.files:
        file.close()


def test_weights_of_diffusers_alone_are_read_too(models: Path) -> None:
    write_safetensors(models / "tiny.safetensors", tensors())
    vae = open_vae(models / "tiny.safetensors")
    assert set(vae.weights.names()) == set(tensors())
    vae.files[0].close()


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_half_of_it_is_no_autoencoder(models: Path, side: str) -> None:
    other = {"encoder": "decoder", "decoder": "encoder"}[side]
    with pytest.raises(UnsupportedFile, match=f"only the {side} .* Put taesd_{other}.safetensors"):
        open_vae(write_halves(models, side))


def test_a_tensor_that_is_missing_is_named(models: Path) -> None:
    parts = half("decoder")
    del parts["3.conv.2.bias"]
    write_safetensors(models / "taesd_decoder.safetensors", parts)
    write_halves(models, "encoder")
    with pytest.raises(FormatError, match=r"tiny autoencoder lacks .*decoder\.layers\.2\.conv\.2"):
        open_vae(models / "taesd_decoder.safetensors")


# ---- Where it is looked for


def place_file(model: Path) -> None:
    write_halves(model.parent, "decoder")


def place_folder(model: Path) -> None:
    other = write_model(model.parent / "other", "taesd")
    shutil.copytree(other / "vae", model / "taesd")


@pytest.mark.parametrize("place", [place_file, place_folder])
def test_it_is_found_beside_a_model(models: Path, place: object) -> None:
    model = write_model(models / "sd1", "sd1")
    with open_pipeline(model) as files:
        assert files.preview is None
    place(model)  # pyright: ignore
    with open_pipeline(model) as files:
        assert files.preview is not None
        assert files.notes == ()


def test_one_that_does_not_go_with_the_model_is_told_and_left_out(models: Path) -> None:
    model = write_model(models / "sd1", "sd1")
    write_safetensors(models / "taesd_decoder.safetensors", {"1.weight": np.zeros((8, 16, 3, 3))})
    with open_pipeline(model) as files:
        assert files.preview is None
        assert "taesd_decoder.safetensors beside the model is not used" in files.notes[0]
    with pytest.raises(FormatError):
        open_pipeline(model, preview=models / "taesd_decoder.safetensors")


def test_a_file_of_the_same_name_with_something_else_is_told_too(models: Path) -> None:
    model = write_model(models / "sd1", "sd1")
    write_safetensors(models / "taesd.safetensors", {"a": np.zeros(1, np.float32)})
    with open_pipeline(model) as files:
        assert "holds no tiny autoencoder" in files.notes[0]
    (models / "taesd.safetensors").write_bytes(b"no")
    with open_pipeline(model) as files:
        assert "not used for the preview" in files.notes[0]


# ---- Drawing


def drawn(engine: ImageEngine, order: ImageSettings) -> tuple[np.ndarray, list[np.ndarray | None]]:
    previews: list[np.ndarray | None] = []
    (picture,), _ = engine.generate(order, lambda step, total, left, shown: previews.append(shown))
    return picture, previews


def test_a_models_own_tiny_autoencoder_previews_what_it_decodes(
    engine: ImageEngine, models: Path
) -> None:
    engine.load(write_model(models / "taesd", "taesd"))
    picture, previews = drawn(engine, ORDER)
    assert previews[-1] is not None
    assert previews[-1].shape == (1, 64, 64, 4)
    assert np.abs(previews[-1][0, ..., :3].astype(int) - picture).mean() < 1


def test_one_beside_a_model_previews_and_the_model_decodes(
    engine: ImageEngine, models: Path
) -> None:
    model = write_model(models / "sd1", "sd1")
    engine.load(model)
    plain, _ = drawn(engine, ORDER)
    latents: list[np.ndarray] = []
    write_halves(models, "decoder")
    engine.load(model)
    vae = engine.pipeline.stages.vae
    decode = vae.decode
    vae.decode = lambda z, *rest: (latents.append(z), decode(z, *rest))[1]
    picture, previews = drawn(engine, ORDER)
    np.testing.assert_array_equal(picture, plain)
    assert previews[-1] is not None
    engine.load(model, vae=write_halves(models, "encoder", "decoder"))
    made = engine.pipeline.stages.vae.decode(latents[0], lambda *_: None, lambda: False)
    assert made is not None
    wanted = to_pixels(made[0]).astype(int)
    assert np.abs(previews[-1][0, ..., :3] - wanted).mean() < 1


def test_previews_take_a_small_share_of_the_time(engine: ImageEngine, models: Path) -> None:
    model = write_model(models / "sd1", "sd1")
    write_halves(models, "decoder")
    engine.load(model)
    _, previews = drawn(engine, replace(ORDER, steps=60))
    shown = [preview is not None for preview in previews]
    assert shown[0]
    assert shown[-1]
    assert sum(shown) < len(shown)


def test_large_previews_are_made_smaller(
    engine: ImageEngine, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.image.tiny_preview.LONGEST", 32)
    engine.load(write_model(models / "taesd", "taesd"))
    picture, previews = drawn(engine, ORDER)
    assert previews[-1] is not None
    assert previews[-1].shape == (1, 32, 32, 4)
    small = picture.reshape(32, 2, 32, 2, 3).mean((1, 3))
    assert np.abs(previews[-1][0, ..., :3] - small).mean() < 2


def test_without_room_there_is_another_preview_or_none(
    engine: ImageEngine, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.image.tiny_preview.fits", lambda *_: False)
    engine.load(write_model(models / "taesd", "taesd"))
    _, previews = drawn(engine, ORDER)
    assert previews == [None, None, None]
    _, previews = drawn(engine, ORDER)  # colours are learned by now
    assert previews[0] is not None
    side = 64 // engine.pipeline.model.vae_config.factor
    assert previews[0].shape == (1, side, side, 4)
