"""One model in files of other forms draws one picture: checkpoints, number types, 8 bits, a VAE."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from image.drawing import Studio, difference, golden_picture
from image.picture_cases import CASES
from image.tiny_files import (
    as_bfloat,
    retype,
    vae_tensors,
    write_checkpoint,
    write_tensors,
)
from image.tiny_pipelines import numbers, raw_numbers, write_model

from engine.gpu.device import Device

CASE = CASES["small"]
LITTLE = 6_000_000  # bytes, of which the model of sd1-file would take most in 16 bits


@pytest.mark.parametrize(("kind", "dtype"), [("sd1-file", "F16"), ("sdxl-file", "F32")])
def test_a_checkpoint_draws_what_its_folder_does(studio: Studio, kind: str, dtype: str) -> None:
    path = studio.made(
        f"{kind}.safetensors", lambda path: write_checkpoint(path, kind, dtype=dtype)
    )
    have = studio.draw(CASES[kind], path, sampler=None)  # a checkpoint's own is the same
    assert difference(have, golden_picture(kind)) <= studio.close_enough


@pytest.mark.parametrize(
    ("ldm", "prefix"),
    [(True, ""), (True, "first_stage_model."), (False, "")],
    ids=["ldm", "prefixed", "diffusers"],
)
def test_a_vae_file_completes_a_checkpoint(studio: Studio, ldm: bool, prefix: str) -> None:
    path = studio.made(
        "without.safetensors", lambda path: write_checkpoint(path, "sd1-file", vae=False)
    )
    tensors = vae_tensors("sd1-file", prefix, ldm=ldm)
    vae = studio.made(
        f"vae-{ldm}{prefix}.safetensors", lambda path: write_tensors(path, tensors, "F16")
    )
    studio.load(path, vae)
    (have,), _ = studio.engine.generate(studio.order(CASES["sd1-file"]))
    assert difference(have, golden_picture("sd1-file")) <= studio.close_enough


def test_32_bit_files_of_16_bit_numbers_draw_the_same_picture(studio: Studio) -> None:
    path = studio.made("f32", lambda path: retype(write_model(path, "small"), "F32"))
    assert difference(studio.draw(CASE, path), studio.draw(CASE)) == 0


def test_32_bit_numbers_are_rounded_to_16_bits(studio: Studio) -> None:
    def louder(name: str, shape: tuple[int, ...]) -> np.ndarray:
        exact = numbers(name, shape).astype(np.float32)
        return exact + raw_numbers(f"{name} rest", shape) * np.abs(exact) * 2.0**-12

    path = studio.made("rest", lambda path: write_model(path, "small", louder))
    assert 0 < difference(studio.draw(CASE, path), golden_picture("small")) < 0.5


def test_bf16_files_draw_what_their_numbers_draw(studio: Studio) -> None:
    def rounded(name: str, shape: tuple[int, ...]) -> np.ndarray:
        return as_bfloat(numbers(name, shape).astype(np.float32))

    bf16 = studio.made("bf16", lambda path: retype(write_model(path, "small"), "BF16"))
    f32 = studio.made("rounded", lambda path: write_model(path, "small", rounded))
    have = studio.draw(CASE, bf16)
    assert difference(have, studio.draw(CASE, f32)) == 0
    assert 0.1 < difference(have, golden_picture("small")) < 20


def test_weights_that_are_too_many_are_kept_in_8_bits_and_this_is_said(
    device: Device, tmp_path: Path
) -> None:
    path = write_checkpoint(tmp_path / "sd1-file.safetensors", "sd1-file")
    studio = Studio(device, tmp_path, memory_limit=LITTLE)
    studio.load(path)
    stages = studio.engine.pipeline.stages  # such a small model needs more room to work in
    stages.denoisers.memory_limit = stages.vae.memory_limit = None
    (have,), info = studio.draw_all(CASES["sd1-file"], path)
    held = studio.engine.info()["weight_bytes"]
    studio.close()
    [note] = info["notes"]
    assert re.match(r"In 16 bits the weights take \d MiB and \d MiB are free, so .* 8 bits", note)
    assert held < 0.6 * path.stat().st_size
    assert 0.05 < difference(have, golden_picture("sd1-file")) < 3
