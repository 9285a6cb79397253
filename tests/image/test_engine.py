"""The starter model draws what diffusers draws, and the engine keeps its promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from image.goldens import FOLDER, STARTER
from PIL import Image

from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.image.engine import ImageEngine
from engine.image.errors import ImageError, SettingError
from engine.image.pipeline_memory import TooLargeError
from engine.image.pipeline_pictures import to_pixels
from engine.image.settings import ImageSettings
from engine.tensor.descriptor import DType

APPLE = "a red apple"


@pytest.fixture(scope="module")
def engine(device: Device) -> Iterator[ImageEngine]:
    """An engine with the starter model."""
    made = ImageEngine(device)
    made.load(STARTER)
    yield made
    made.close()
    assert device.ledger.totals().total == 0


@pytest.fixture(scope="module")
def golden_run() -> dict[str, np.ndarray]:
    """What diffusers makes of the starter model."""
    return dict(np.load(FOLDER / "starter.npz"))


@pytest.fixture
def files(tmp_path: Path, golden_run: dict[str, np.ndarray]) -> dict[str, str]:
    """The golden run's noise and picture, and a mask of the left half, as files."""
    mask = np.zeros((128, 128), np.uint8)
    mask[:, :64] = 255
    np.save(tmp_path / "noise.npy", golden_run["noise"])
    Image.fromarray(golden_run["picture"]).save(tmp_path / "apple.png")
    Image.fromarray(mask).save(tmp_path / "mask.png")
    return {
        name: str(tmp_path / f"{name}.{ending}")
        for name, ending in (("noise", "npy"), ("apple", "png"), ("mask", "png"))
    }


def decoded(engine: ImageEngine, latents: np.ndarray) -> np.ndarray:
    """Golden latents [1, c, h, w] as a picture."""
    z = latents[0].transpose(1, 2, 0)
    made = engine.pipeline.stages.vae.decode(z, lambda *_: None, lambda: False)
    assert made is not None
    return to_pixels(made[0])


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Mean absolute difference of two pictures, of 255."""
    return float(np.abs(one.astype(np.float64) - other).mean())


def test_the_apple_is_diffusers_apple(
    engine: ImageEngine, golden_run: dict[str, np.ndarray], files: dict[str, str]
) -> None:
    steps: list[tuple[int, int]] = []
    previews: list[np.ndarray] = []

    def on_step(step: int, total: int, left: float | None, preview: np.ndarray | None) -> None:
        steps.append((step, total))
        assert preview is not None
        previews.append(preview)

    order = ImageSettings(
        APPLE, guidance=4.5, steps=20, sampler="ddim", latents=files["noise"], seed=3
    )
    (picture,), info = engine.generate(order, on_step)
    assert difference(picture, golden_run["picture"]) < 2
    assert steps == [(step, 20) for step in range(1, 21)]
    assert info["seeds"] == [3]
    assert info["notes"] == []
    small = np.asarray(Image.fromarray(picture).resize((16, 16), Image.Resampling.BOX))
    assert previews[-1].shape == (1, 16, 16, 4)
    assert difference(previews[-1][0, ..., :3], small) < 40


def test_image_to_image_is_diffusers(
    engine: ImageEngine, golden_run: dict[str, np.ndarray], files: dict[str, str]
) -> None:
    order = ImageSettings(
        "a green apple",
        guidance=4.5,
        steps=10,
        sampler="ddim",
        latents=files["noise"],
        init=files["apple"],
        strength=0.6,
    )
    (picture,), _ = engine.generate(order)
    assert difference(picture, decoded(engine, golden_run["img2img"])) < 2


def test_a_seed_gives_the_same_picture_and_the_next_seed_another(engine: ImageEngine) -> None:
    (first, second), info = engine.generate(ImageSettings(APPLE, seed=5, steps=2, count=2))
    (again,), _ = engine.generate(ImageSettings(APPLE, seed=6, steps=2))
    assert info["seeds"] == [5, 6]
    assert difference(second, again) == 0
    assert difference(first, second) > 5


def test_stopping_gives_the_memory_back(engine: ImageEngine) -> None:
    seen: list[int] = []

    def on_step(step: int, *_: object) -> None:
        seen.append(step)

    pictures, info = engine.generate(
        ImageSettings(APPLE, seed=1, steps=20), on_step, lambda: len(seen) >= 2
    )
    assert pictures == []
    assert info["cancelled"]
    assert seen == [1, 2]
    assert engine.device.ledger.totals().by_purpose[Purpose.ACTIVATIONS] == 0


def test_stopping_while_kernels_are_compiled_draws_nothing(engine: ImageEngine) -> None:
    phases: list[str] = []
    steps: list[int] = []
    pictures, info = engine.generate(
        ImageSettings(APPLE, seed=1, steps=20),
        lambda step, *_: steps.append(step),
        lambda: "compiling" in phases,
        lambda phase, *_: phases.append(phase),
    )
    assert (pictures, steps) == ([], [])
    assert info["cancelled"]
    assert phases.count("compiling") == 1  # begun, and not told as done
    assert engine.device.ledger.totals().by_purpose[Purpose.ACTIVATIONS] == 0


def test_what_does_not_fit_is_refused_with_a_size_that_does(engine: ImageEngine) -> None:
    stages = engine.pipeline.stages
    stages.release()
    held = engine.device.ledger.totals().total
    stages.denoisers.memory_limit = held + (12 << 20)
    try:
        with pytest.raises(TooLargeError, match=r"512 x 512 needs .* fits") as caught:
            engine.generate(ImageSettings(APPLE, width=512, height=512, steps=1))
    finally:
        stages.denoisers.memory_limit = None
    assert caught.value.fits is not None
    assert 64 <= caught.value.fits[0] < 512


def test_an_overflow_of_the_autoencoder_is_redone_and_told(
    engine: ImageEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    vae = engine.pipeline.stages.vae
    flat = np.full((8, 8, 3), np.nan, np.float32)
    answers = [flat, np.zeros_like(flat)]
    monkeypatch.setattr(vae, "precise", False)
    monkeypatch.setattr(vae, "_decoded", lambda *_: answers.pop(0))
    assert vae.decode(np.zeros((1, 1, 8), np.float32), lambda *_: None, lambda: False) == (
        pytest.approx(np.zeros_like(flat)),
        True,
    )
    assert vae.precise


def test_the_right_sentences(engine: ImageEngine, tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", np.zeros((1, 4, 16, 16), np.float32))
    with pytest.raises(SettingError, match=r"latents must be float32 \[1, 8, 16, 16\]"):
        engine.generate(ImageSettings(APPLE, latents=str(tmp_path / "bad.npy")))
    (tmp_path / "no.png").write_text("no picture")
    with pytest.raises(ImageError, match="no picture that can be read"):
        engine.generate(ImageSettings(APPLE, init=str(tmp_path / "no.png")))
    with pytest.raises(ImageError, match="No picture model is loaded"):
        ImageEngine(engine.device).generate(ImageSettings(APPLE))


def test_software_devices_compute_in_32_bits(engine: ImageEngine) -> None:
    if engine.device.caps.software:
        assert engine.pipeline.model.dtype is DType.F32
