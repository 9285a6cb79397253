from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Fake = Callable[..., None]
Drive = Callable[..., Any]
JSON_KEYS = {
    "files",
    "seed",
    "seconds",
    "seconds_per_step",
    "model",
    "device",
    "backend",
    "peak_bytes",
}


@pytest.fixture
def sent(fake: Fake, tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """The last request for pictures that the worker got."""
    log = tmp_path / "requests.log"
    fake("--pictures", "--log", str(log))

    def read() -> dict[str, Any]:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [one for one in lines if one["do"] == "image"][-1]

    return read


def test_a_picture_is_written_where_it_was_asked_for(
    drive: Drive, sent: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "apple.png"
    ran = drive("image", "a red apple", "-o", str(file))
    assert (ran.status, ran.out) == (0, f"{file}\n")
    assert file.is_file()
    assert sent()["model"] == "starter-image"
    assert sent()["settings"] == {"prompt": "a red apple", "negative": ""}


def test_json_is_one_object_with_the_documented_keys(
    drive: Drive, sent: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "a.png"
    ran = drive("image", "a", "-o", str(file), "--seed", "7", "--count", "2", "--json")
    assert ran.status == 0
    assert set(ran.json) == JSON_KEYS
    assert ran.json["files"] == [str(file), str(tmp_path / "a-2.png")]
    assert ran.json["seed"] == 7


def test_every_setting_reaches_the_worker(
    drive: Drive, sent: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    words = "--negative b --steps 3 --guidance 2.5 --seed 1 --width 64 --height 72 --sampler lcm"
    words += " --init i.png --strength 0.5 --mask m.png --clip-skip 2 --lora /l/x.safetensors:0.8"
    words += " --lora y.safetensors --latents n.npy --vae v.safetensors"
    words += " --prediction v_prediction"
    drive("image", "a", "-o", str(tmp_path / "a.png"), *words.split())
    here = Path.cwd()
    assert sent()["latents"] == str(here / "n.npy")
    assert sent()["settings"] == {
        "prompt": "a",
        "negative": "b",
        "steps": 3,
        "guidance": 2.5,
        "seed": 1,
        "width": 64,
        "height": 72,
        "sampler": "lcm",
        "init": str(here / "i.png"),
        "strength": 0.5,
        "mask": str(here / "m.png"),
        "vae": str(here / "v.safetensors"),
        "clip_skip": 2,
        "prediction": "v_prediction",
        "loras": [
            {"path": "/l/x.safetensors", "weight": 0.8},
            {"path": str(here / "y.safetensors"), "weight": 1.0},
        ],
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a"], "-o/--output"),
        (["a", "-o", "a.jpg"], "name it a.png"),
        (["", "-o", "a.png"], "the prompt is empty"),
        (["a", "-o", "a.png", "--mask", "m.png"], "give it with --init"),
        (["a", "-o", "a.png", "--strength", "0.5"], "give it with --init"),
        (["a", "-o", "a.png", "--lora", "l:much"], 'is "much"'),
        (["a", "-o", "a.png", "--sampler", "magic"], "invalid choice"),
    ],
)
def test_wrong_usage_is_2(drive: Drive, words: list[str], said: str) -> None:
    ran = drive("image", *words)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_a_failure_is_told(
    drive: Drive, sent: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    ran = drive("image", "/error out_of_memory", "-o", str(tmp_path / "a.png"))
    assert ran.status == 1
    assert "A scripted failure" in ran.err


def test_without_a_picture_model_it_says_how_to_get_one(drive: Drive) -> None:
    ran = drive("image", "a", "-o", "a.png")
    assert ran.status == 1
    assert "driftwood models add PATH" in ran.err
