"""What an order will need is told beforehand as it then turns out to be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from image.tiny_pipelines import write_model
from worker.tiny_pictures import make_pictures

from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.image.engine import ImageEngine
from engine.image.errors import ImageError
from engine.image.pipeline_memory import available
from engine.image.settings import ImageSettings

WANTED = ImageSettings("abc", seed=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("models") / "tiny.pictures")


@pytest.fixture
def engine(device: Device) -> Iterator[ImageEngine]:
    made = ImageEngine(device)
    yield made
    made.close()


def limited(device: Device, nbytes: int) -> ImageEngine:
    return ImageEngine(device, device.ledger.totals().total + nbytes)


def test_the_need_is_what_is_held_after_drawing(engine: ImageEngine, model: Path) -> None:
    before = engine.device.ledger.totals().total
    told = engine.forecast(model, WANTED)
    assert told["more"] == told["need"]
    assert not told["problem"]
    engine.load(model)
    engine.generate(WANTED)
    held = engine.device.ledger.totals().total - before
    assert held == pytest.approx(told["need"], rel=0.1)
    assert engine.forecast(model, WANTED, is_loaded=True)["more"] < 0.1 * told["need"]


def test_nothing_is_put_on_the_gpu_for_it(engine: ImageEngine, model: Path) -> None:
    before = engine.device.ledger.totals().total
    engine.forecast(model, WANTED)
    assert engine.device.ledger.totals().total == before


def test_more_pixels_a_start_picture_and_guidance_need_more(
    engine: ImageEngine, model: Path
) -> None:
    def need(**others: object) -> int:
        settings = ImageSettings("abc", seed=1, **{"guidance": 1.0, **others})  # type: ignore[arg-type]
        return engine.forecast(model, settings)["need"]

    assert need() < need(width=128)
    assert need() < need(guidance=7.0)
    assert need() < need(init="a.png")


def test_a_refusal_names_a_size_that_is_not_refused(device: Device, model: Path) -> None:
    if available(device) is None:
        pytest.skip("this driver does not tell its memory")
    free = ImageEngine(device)
    small, large = (
        free.forecast(model, ImageSettings("abc", seed=1, width=side, height=side))["need"]
        for side in (64, 96)
    )
    engine = limited(device, (small + large) // 2)
    wanted = ImageSettings("abc", seed=1, width=192, height=192)
    told = engine.forecast(model, wanted)
    assert told["problem"].endswith(f"{told['fits'][0]} x {told['fits'][1]} fits.")
    assert told["more"] > told["free"]
    engine.load(model)
    with pytest.raises(ImageError, match="192 x 192 needs"):
        engine.generate(wanted)
    width, height = told["fits"]
    fitting = ImageSettings("abc", seed=1, steps=1, width=width, height=height)
    assert not engine.forecast(model, fitting, is_loaded=True)["problem"]
    engine.generate(fitting, cancelled=lambda: True)  # stopped once it was not refused
    engine.close()


def test_what_else_is_held_is_given_up_only_where_both_do_not_fit(
    device: Device, model: Path
) -> None:
    if available(device) is None:
        pytest.skip("this driver does not tell its memory")
    need = ImageEngine(device).forecast(model, WANTED)["need"]
    other = device.create_buffer(2 * need, Purpose.OTHER)
    tight = ImageEngine(device, 2 * need + need // 2)
    assert tight.forecast(model, WANTED)["problem"]
    told = tight.forecast(model, WANTED, evictable=True)
    assert (told["problem"], told["evicts"]) == ("", True)
    roomy = ImageEngine(device, 4 * need)
    assert not roomy.forecast(model, WANTED, evictable=True)["evicts"]
    other.destroy()


def test_the_live_previews_decoder_is_counted(engine: ImageEngine, tmp_path: Path) -> None:
    model = write_model(tmp_path / "sd1", "sd1")
    wanted = ImageSettings("abc", seed=1, steps=2, guidance=1.0, width=128, height=128)
    plain = engine.forecast(model, wanted)["need"]
    shutil.copytree(write_model(tmp_path / "other", "taesd") / "vae", model / "taesd")
    before = engine.device.ledger.totals().total
    fresh = ImageEngine(engine.device)
    told = fresh.forecast(model, wanted)["need"]
    assert told > plain
    fresh.load(model)
    fresh.generate(wanted)
    assert engine.device.ledger.totals().total - before == pytest.approx(told, rel=0.1)
    fresh.close()
