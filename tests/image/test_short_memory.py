"""Where memory or the device's limits are short: tiles, weights in parts, techniques left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from image.drawing import CLOSE, Studio, difference, golden_picture
from image.picture_cases import CASES
from image.tiny_files import write_checkpoint
from image.tiny_pipelines import write_model

from engine.gpu.device import Device, open_device
from engine.image import pipeline_vae
from engine.image.pipeline_pictures import to_pixels

SMALL = CASES["small"]
SIDE = 32  # latents along a side; the smallest tile has 16, and begins every 12
PERIOD = 4  # latents after which a picture repeats: tiles begin at its multiples


@contextmanager
def binding(device: Device, most: int) -> Iterator[None]:
    """Pretend for a while that no binding may be larger."""
    kept = device.caps
    device.caps = replace(kept, limits=replace(kept.limits, binding_bytes=most))
    try:
        yield
    finally:
        device.caps = kept


def decoded(studio: Studio, latents: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """A picture of latents, uint8, and what was told of tiles."""
    told: list[tuple[int, int]] = []
    vae = studio.engine.pipeline.stages.vae
    made = vae.decode(latents, lambda *tile: told.append(tile), lambda: False)
    assert made is not None
    studio.engine.pipeline.release()
    return to_pixels(made[0]), told


def test_a_picture_in_tiles_is_the_whole_one_away_from_seams(studio: Studio) -> None:
    # A repeating picture, because norms over a tile see only what lies in it.
    patch = np.random.default_rng(2).standard_normal((PERIOD, PERIOD, 4)).astype(np.float32)
    latents = np.tile(patch, (SIDE // PERIOD, SIDE // PERIOD, 1))
    studio.load(studio.made("small", lambda path: write_model(path, "small")))
    whole, told = decoded(studio, latents)
    assert told == [(1, 1)]
    with binding(studio.device, 200_000):  # an activation of 8 channels needs 524,288
        tiled, told = decoded(studio, latents)
    assert told == [(number, 9) for number in range(1, 10)]
    off = np.abs(whole.astype(float) - tiled).mean(axis=2)
    seams = [*range(44, 76), *range(108, 120)]  # where a tile begins or ends, and its side shows
    away = [row for row in range(len(off)) if row not in seams]
    assert off[np.ix_(away, away)].mean() < 5
    assert off.max(axis=0).mean() < 60
    assert off.mean() < 8
    assert difference(whole, np.roll(tiled, 2, axis=0)) > 30  # what a misplaced tile would be


def test_that_a_picture_was_decoded_in_tiles_is_said(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    def little(device: Device, workspace: object, plans: object, extra: int, limit: object) -> bool:
        return extra < 80_000  # of latents and picture: the whole one's take 87,040

    monkeypatch.setattr(pipeline_vae, "fits", little)
    (have,), info = studio.draw_all(SMALL)
    studio.engine.pipeline.release()
    assert info["notes"] == ["Memory is short, so the picture was decoded in 2 overlapping tiles."]
    assert CLOSE < difference(have, golden_picture("small")) < 12


def test_weights_larger_than_a_binding_are_kept_in_parts(device: Device, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "file.safetensors", "sd1-file")
    studio = Studio(device, tmp_path)
    with binding(device, 2_700_000):  # the words alone take 3,162,112
        have = studio.draw(CASES["sd1-file"], path)
        [words] = [
            value
            for value in studio.engine.pipeline.model.texts[0].recipes
            if "token_embedding" in value.name
        ]
    studio.close()
    assert len(words.weight.parts) == 2
    assert difference(have, golden_picture("sd1-file")) <= CLOSE


@pytest.mark.parametrize(
    "without",
    [{"subgroups", "f16"}, {"limits"}, {"fusion", "planner"}],
    ids=lambda without: "+".join(sorted(without)),
)
def test_what_is_switched_off_changes_no_picture(
    device: Device, tmp_path: Path, without: set[str]
) -> None:
    del device  # there is one, or this is skipped
    plain = open_device(without=frozenset(without))
    studio = Studio(plain, tmp_path)
    have = studio.draw(SMALL)
    near = studio.close_enough
    studio.close()
    assert plain.ledger.totals().total == 0
    plain.close()
    assert difference(have, golden_picture("small")) <= near
