"""Whole models of every kind draw what diffusers draws: prompt, noise and settings to picture.

These run both branches, with guidance; test_pictures_fast.py has those that run one. The networks
are tiny and random (image/tiny_pipelines.py); what a picture shows is noise, but every
number between prompt and picture has to be right for it to be the same noise.
"""

from __future__ import annotations

import pytest
from image.drawing import Studio, difference, golden_picture
from image.picture_cases import CASES, SAMPLERS, by_kind


@pytest.mark.parametrize("name", by_kind(branches=2))
def test_the_picture_is_diffusers(studio: Studio, name: str) -> None:
    have, want = studio.draw(CASES[name]), golden_picture(name)
    assert difference(have, want) <= studio.close_enough


def test_every_sampler_draws_a_picture_of_its_own() -> None:
    drawn = [golden_picture(f"sd1 {sampler}") for sampler in SAMPLERS]
    apart = [difference(one, two) for i, one in enumerate(drawn) for two in drawn[:i]]
    assert min(apart) > 0.1  # what a wrong sampler would be off by at least


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sd1 ddim", "sd1 lora kohya"),
        ("sd1 ddim", "sd1 lora peft"),
        ("sd1 lora kohya", "sd1 lora both"),
        ("sd1 ddim", "sd1 weighted"),
        ("sd1 ddim", "sd1 clip-skip"),
        ("sd1 ddim", "sd1 long"),
        ("sd2 euler", "zero-snr euler"),
        ("sdxl euler", "sdxl lora"),
        ("sdxl euler", "sdxl without a negative prompt"),
        ("sdxl without a negative prompt", "sdxl-words without a negative prompt"),
    ],
)
def test_what_is_asked_for_shows_in_the_picture(one: str, other: str) -> None:
    assert difference(golden_picture(one), golden_picture(other)) > 1


def test_long_prompts_are_noted_and_short_ones_beside_them_are_not(studio: Studio) -> None:
    case = CASES["sd1 long"]
    _, info = studio.draw_all(case, steps=1)
    assert info["notes"] == ["The prompt has 80 tokens; it is read in 2 chunks of 75."]
    swapped = {"prompt": case.settings["negative"], "negative": case.settings["prompt"]}
    _, info = studio.draw_all(case, steps=1, **swapped)
    assert info["notes"] == ["The negative prompt has 80 tokens; it is read in 2 chunks of 75."]
