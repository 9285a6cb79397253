"""Models that run without a second branch draw what diffusers draws: Turbo, LCM, no guidance."""

from __future__ import annotations

import pytest
from image.drawing import Studio, difference, golden_picture
from image.picture_cases import CASES, by_kind


@pytest.mark.parametrize("name", by_kind(branches=1))
def test_the_picture_is_diffusers(studio: Studio, name: str) -> None:
    have, want = studio.draw(CASES[name]), golden_picture(name)
    assert difference(have, want) <= studio.close_enough


@pytest.mark.parametrize("guidance", [0.0, 1.0])
def test_guidance_0_and_1_are_one_and_the_same(studio: Studio, guidance: float) -> None:
    case = CASES["sd-turbo 1"]
    have = studio.draw(case, guidance=guidance, negative="whatever")
    assert difference(have, golden_picture("sd-turbo 1")) <= studio.close_enough


def test_the_guidance_of_lcm_shows_in_the_picture() -> None:
    assert difference(golden_picture("lcm 1.5"), golden_picture("lcm 8.0")) > 1
