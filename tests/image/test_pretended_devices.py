"""Pictures on devices that are pretended: GPUs with and without 16-bit floats, without subgroups.

A software device computes in 32 bits, one picture at a time, with kernels of its own. Here its
capabilities are told otherwise, so that the ways of real GPUs are gone through as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image.drawing import CLOSE, CLOSE_IN_16_BITS, Studio, difference, golden_picture
from image.picture_cases import CASES
from image.tiny_pipelines import numbers, write_model

from engine.gpu.device import Device
from engine.tensor.descriptor import DType

SMALL = CASES["small"]
LOUD = 2.0**15  # what brings numbers around 1 beyond those of 16-bit floats
#: Weights that a norm follows at once, so that a factor on all of them changes nothing.
BEFORE_A_NORM = {
    "unet": ("down_blocks.0.resnets.0.conv1.", "down_blocks.0.resnets.0.time_emb_proj."),
    "vae": ("decoder.up_blocks.0.resnets.0.conv1.",),
}


@contextmanager
def pretending(
    device: Device, without: frozenset[str] = frozenset(), **told: Any
) -> Iterator[None]:
    """Tell other capabilities of a device for a while."""
    kept = device.caps
    device.caps = replace(kept, **told).switched(without)
    try:
        yield
    finally:
        device.caps = kept


@pytest.fixture(scope="module")
def gpu(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A GPU that computes in 16 bits."""
    if not device.caps.f16:
        pytest.skip("this device has no 16-bit floats")
    made = Studio(device, tmp_path_factory.mktemp("gpu"))
    with pretending(device, kind="discrete"):
        yield made
        made.close()


@pytest.fixture
def wide(device: Device, tmp_path: Path) -> Iterator[Studio]:
    """A GPU without 16-bit floats."""
    made = Studio(device, tmp_path)
    with pretending(device, frozenset({"f16"}), kind="discrete"):
        yield made
        made.close()


def test_a_gpu_computes_in_16_bits(gpu: Studio) -> None:
    (have,), info = gpu.draw_all(SMALL)
    assert gpu.engine.pipeline.model.dtype is DType.F16
    assert info["notes"] == []
    assert 0 < difference(have, golden_picture("small")) <= CLOSE_IN_16_BITS


def test_without_16_bits_it_computes_in_32(wide: Studio) -> None:
    assert difference(wide.draw(SMALL), golden_picture("small")) <= CLOSE


def test_a_batch_is_the_pictures_of_its_seeds(wide: Studio) -> None:
    seen: list[int] = []
    order = wide.order(SMALL, count=5, sampler="euler_a")
    wide.load(wide.made("small", lambda path: write_model(path, "small")))
    pictures, info = wide.engine.generate(order, lambda step, *_: seen.append(step))
    assert seen == [4, 8, 9, 10]  # four at once, and the rest
    assert info["seeds"] == list(range(order.seed, order.seed + 5))
    for index in (0, 3, 4):  # the first and the last of the batch, and the one after it
        alone = wide.draw(SMALL, sampler="euler_a", seed=info["seeds"][index])
        assert difference(pictures[index], alone) <= CLOSE
    assert difference(pictures[0], pictures[1]) > 5


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("unet", "The denoiser overflowed in 16 bits, so it ran again in 32."),
        ("vae", "The autoencoder overflowed in 16 bits, so the picture was decoded in 32."),
    ],
)
def test_a_part_that_overflows_runs_again_in_32_bits(gpu: Studio, part: str, words: str) -> None:
    def loud(name: str, shape: tuple[int, ...]) -> np.ndarray:
        norm_follows = name.startswith(tuple(f"{part}.{each}" for each in BEFORE_A_NORM[part]))
        return numbers(name, shape) * np.float16(LOUD if norm_follows else 1)

    path = gpu.made(f"loud-{part}", lambda path: write_model(path, "small", loud))
    (have,), info = gpu.draw_all(SMALL, path)
    assert info["notes"] == [words]
    assert difference(have, golden_picture("small")) <= CLOSE_IN_16_BITS
    (again,), info = gpu.draw_all(SMALL, path)  # what is known needs no second try
    assert info["notes"] == []
    assert difference(have, again) <= CLOSE


def test_a_text_encoder_that_overflows_runs_again_in_32_bits(gpu: Studio) -> None:
    def loud(name: str, shape: tuple[int, ...]) -> np.ndarray:
        values = name.endswith("layers.0.self_attn.v_proj.weight")
        return numbers(name, shape) * np.float16(LOUD if values else 1)

    path = gpu.made("loud-text", lambda path: write_model(path, "small", loud))
    (have,), info = gpu.draw_all(SMALL, path)
    assert info["notes"] == ["The text encoder overflowed in 16 bits and ran in 32."]
    with pretending(gpu.device, kind="software"):
        precise = Studio(gpu.device, gpu.folder)
        want = precise.draw(SMALL, path)
        precise.close()
    assert difference(have, want) <= CLOSE_IN_16_BITS
    assert difference(have, golden_picture("small")) > CLOSE_IN_16_BITS
