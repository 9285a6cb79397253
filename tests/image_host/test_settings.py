"""Settings are checked when they are made, and filled up by what a model does best."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.formats.diffusers import open_pipeline
from engine.image.errors import SettingError
from engine.image.noise import MAX_SEED
from engine.image.settings import (
    ImageSettings,
    LoraChoice,
    ModelDefaults,
    defaults_for,
    lora_from_text,
    settings_from,
)

STARTER = Path(__file__).resolve().parents[2] / "assets" / "starter-image"
DEFAULTS = ModelDefaults(512, 512, 20, 7.5, "euler")


def test_a_prompt_is_enough():
    settings = ImageSettings("a cat").settled(DEFAULTS)
    chosen = (settings.width, settings.height, settings.steps, settings.guidance, settings.sampler)
    assert chosen == (512, 512, 20, 7.5, "euler")
    assert settings.seed is not None
    assert 0 <= settings.seed < 2**32


def test_seeds_are_drawn_anew():
    assert len({ImageSettings("").settled(DEFAULTS).seed for _ in range(9)}) == 9


def test_a_persons_choices_stay():
    settings = ImageSettings("", width=64, steps=3, guidance=0.0, seed=0, sampler="lcm")
    settled = settings.settled(DEFAULTS)
    assert (settled.width, settled.height, settled.steps) == (64, 512, 3)
    assert (settled.guidance, settled.seed, settled.sampler) == (0.0, 0, "lcm")


@pytest.mark.parametrize(("guidance", "guided"), [(0, False), (1, False), (4.5, True), (0.5, True)])
def test_guidance_0_or_1_is_none(guidance, guided):
    assert ImageSettings("", guidance=guidance).guided is guided


def test_the_last_picture_has_the_last_seed():
    assert ImageSettings("", seed=7, count=4).latest_seed == 10
    with pytest.raises(SettingError, match="runs too high"):
        ImageSettings("", seed=MAX_SEED, count=2).settled(DEFAULTS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"width": 515}, "width is 515, which is not a multiple of 8. Choose 512 or 520"),
        ({"height": 4095}, "Choose 4088 or 4096"),
        ({"width": 8}, "width is 8; choose a whole number from 64 to 4,096"),
        ({"width": 64.0}, "width is 64.0"),
        ({"height": 99999}, "from 64 to 4,096"),
        ({"steps": 0}, "number of steps is 0"),
        ({"steps": 1001}, "from 1 to 1,000"),
        ({"guidance": -1}, "guidance is -1"),
        ({"guidance": float("nan")}, "guidance is nan"),
        ({"guidance": "7"}, "guidance is 7"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**60}, "seed is"),
        ({"sampler": "plms"}, "no sampler named 'plms'"),
        ({"count": 0}, "number of pictures is 0"),
        ({"count": True}, "number of pictures is True"),
        ({"strength": 1.2}, "strength is 1.2"),
        ({"strength": 0}, "leaves the picture as it is"),
        ({"mask": "m.png"}, "mask needs a picture"),
        ({"clip_skip": 0}, "CLIP skip is 0"),
        ({"negative": 3}, "negative prompt must be text"),
        ({"prompt": None}, "The prompt must be text"),
        ({"prompt": "x" * 10_001}, "10,001 letters; at most 10,000"),
        ({"loras": [{"path": "a", "weight": 99}]}, "weight of a LoRA is 99"),
        ({"loras": [{"path": "a", "weight": "much"}]}, "weight of a LoRA is much"),
        ({"loras": [3]}, "by its path and a weight"),
        ({"loras": "a"}, "must be a list"),
        ({"loras": ["a"] * 17}, "at most 16"),
        ({"init": 3}, "init must be the path"),
        ({"speed": 3}, "no picture setting named 'speed'"),
    ],
)
def test_impossible_settings_are_refused_in_words(values, message):
    with pytest.raises(SettingError, match=message):
        settings_from({"prompt": "", **values})


def test_a_prompt_is_needed():
    with pytest.raises(SettingError, match="needs a prompt"):
        settings_from({})


def test_settings_go_through_plain_values():
    settings = ImageSettings("a", loras=(LoraChoice("x.safetensors", 0.5),), init="i.png", mask="m")
    assert settings_from(settings.as_dict()) == settings


@pytest.mark.parametrize(
    ("text", "path", "weight"),
    [
        ("a.safetensors", "a.safetensors", 1),
        ("a.safetensors:0.8", "a.safetensors", 0.8),
        ("C:\\models\\a.safetensors", "C:\\models\\a.safetensors", 1),
        ("C:\\models\\a.safetensors:-1", "C:\\models\\a.safetensors", -1),
        ("/m/a:b/c.safetensors", "/m/a:b/c.safetensors", 1),
    ],
)
def test_a_lora_is_written_with_its_weight(text, path, weight):
    assert lora_from_text(text) == LoraChoice(path, weight)


def test_a_loras_weight_must_be_a_number():
    with pytest.raises(SettingError, match="'strong'; write FILE"):
        lora_from_text("a.safetensors:strong")


# ---- What a model does best


def test_the_starter_states_its_defaults():
    with open_pipeline(STARTER) as model:
        assert defaults_for(model) == ModelDefaults(128, 128, 20, 4.5, "dpmpp_2m")


def stand_in(**changes):
    """The starter's files under other names and schedulers."""
    with open_pipeline(STARTER) as model:
        unet = replace(model.unet, **changes.pop("unet", {}))
        return replace(model, unet=unet, kind="checkpoint", **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"family": "sd1", "unet": {"sample_size": 64}}, ModelDefaults(512, 512, 20, 7.5, "ddim")),
        (
            {"family": "sdxl", "unet": {"sample_size": 128}, "scheduler": {}},
            ModelDefaults(1024, 1024, 20, 5.0, "dpmpp_2m"),
        ),
        (
            {
                "name": "sdxl-turbo",
                "family": "sdxl",
                "unet": {"sample_size": 128},
                "scheduler": {"_class_name": "EulerAncestralDiscreteScheduler"},
            },
            ModelDefaults(512, 512, 2, 0.0, "euler_a"),
        ),
        (
            {"family": "sd1", "unet": {"sample_size": 96, "time_cond_dim": 256}},
            ModelDefaults(768, 768, 6, 8.0, "lcm"),
        ),
        (
            {"family": "sd1", "scheduler": {"_class_name": "LCMScheduler"}},
            ModelDefaults(128, 128, 6, 1.5, "lcm"),
        ),
        (
            {"family": "sd1", "unet": {"sample_size": 64, "in_channels": 9}},
            ModelDefaults(512, 512, 20, 7.5, "ddim", 1.0),
        ),
    ],
)
def test_families_have_their_defaults(changes, expected):
    assert defaults_for(stand_in(**changes)) == expected


@pytest.mark.parametrize(("wanted", "own", "settled"), [(None, 1.0, 1.0), (0.4, 1.0, 0.4)])
def test_the_strength_is_the_models_unless_one_is_chosen(wanted, own, settled):
    order = ImageSettings("a", init="a.png", strength=wanted)
    assert order.settled(replace(DEFAULTS, strength=own)).strength == settled
