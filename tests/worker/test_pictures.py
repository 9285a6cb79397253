"""Pictures end to end: a real worker, a real device, a tiny model of random weights."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from worker.tiny_pictures import make_pictures

from engine.worker.client import WorkerError, WorkerProcess
from engine.worker.protocol import Event


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model."""
    return make_pictures(tmp_path_factory.mktemp("models") / "tiny.pictures")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """One worker for all tests: opening the device is slow."""
    home = tmp_path_factory.mktemp("home")
    with WorkerProcess(environment={"DRIFTWOOD_HOME": str(home)}) as one:
        one.call("settings", backend="wgpu")
        yield one


@pytest.fixture
def draw(worker: WorkerProcess, model: Path, tmp_path: Path) -> Callable[..., list[Event]]:
    """Ask for pictures of "abc" into a fresh folder; all events."""

    def ask(preview: bool = False, **settings: Any) -> list[Event]:
        wanted = {"prompt": "abc", "seed": 5, **settings}
        folder = str(tmp_path / "out")
        request = {"model": str(model), "settings": wanted, "folder": folder, "preview": preview}
        return list(worker.request("image", **request))

    return ask


def of(events: list[Event], name: str) -> list[Event]:
    return [event for event in events if event.event == name]


def pixels(path: str) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image, np.int16)


def test_pictures_are_drawn_told_and_written(draw: Callable[..., list[Event]]) -> None:
    events = draw(preview=True, count=2)
    done = events[-1]
    assert done.event == "done", done
    [started] = of(events, "started")
    assert (started["seed"], started["tokens"], started["cut"]) == (5, 3, None)
    assert {(one["step"], one["total"]) for one in of(events, "step")} == {(1, 2), (2, 2)}
    # what such latents look like is learned from the first picture
    shown = base64.b64decode(of(events, "step")[-1]["preview"])
    assert Image.open(BytesIO(shown)).format == "PNG"
    pictures = of(events, "picture")
    assert [one["seed"] for one in pictures] == [5, 6]
    assert [Path(one).name for one in done["files"]] == ["abc-5.png", "abc-6.png"]
    assert pixels(done["files"][0]).shape == (64, 64, 3)
    assert done["peak_bytes"] > 0
    assert done["model"] == "tiny.pictures"


def test_a_picture_carries_the_settings_that_make_it_again(
    draw: Callable[..., list[Event]], worker: WorkerProcess
) -> None:
    second = draw(count=2)[-1]["files"][1]
    recalled = worker.call("image_settings", path=second)
    assert recalled["model"] == "tiny.pictures"
    assert recalled["settings"]["seed"] == 6
    again = draw(**recalled["settings"])[-1]["files"]
    assert Path(again[0]).name == "abc-6-2.png"  # nothing is ever replaced in a folder
    assert np.abs(pixels(again[0]) - pixels(second)).max() <= 2


def test_noise_from_a_file_takes_the_place_of_the_seeds(
    worker: WorkerProcess, model: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "noise.npy", np.zeros((1, 4, 32, 32), np.float32))
    request = {"model": str(model), "settings": {"prompt": "abc"}}
    request |= {"latents": str(tmp_path / "noise.npy"), "output": str(tmp_path / "out.png")}
    assert worker.call("image", **request)["files"] == [str(tmp_path / "out.png")]
    np.save(tmp_path / "noise.npy", np.zeros((1, 3, 32, 32), np.float32))
    with pytest.raises(WorkerError, match=r"must be float32 \[1, 4, 32, 32\]") as error:
        worker.call("image", **request)
    assert error.value.code == "setting"


def test_noise_from_a_file_tells_size_and_number(
    worker: WorkerProcess, model: Path, tmp_path: Path
) -> None:
    noise, out = tmp_path / "noise.npy", tmp_path / "out.png"
    np.save(noise, np.zeros((2, 4, 32, 48), np.float32))

    def draw(**settings: Any) -> Any:
        wanted = {"prompt": "abc", **settings}
        request = {"model": str(model), "settings": wanted, "latents": str(noise)}
        return worker.call("image", **request, output=str(out))["files"]

    assert [pixels(path).shape for path in draw()] == [(64, 96, 3)] * 2
    with pytest.raises(WorkerError, match="for 96 x 64 pixels, and a width of 64 is asked for"):
        draw(width=64)
    with pytest.raises(WorkerError, match="noise for 2 pictures, and 1 are asked for"):
        draw(count=1)


def test_what_an_order_needs_is_told_before_it_is_drawn(worker: WorkerProcess, model: Path) -> None:
    def fit(**settings: Any) -> Any:
        return worker.call("image_fit", model=str(model), settings={"prompt": "abc", **settings})

    small, large = fit(), fit(width=128, height=128)
    assert 0 < small["need"] < large["need"]
    assert small["problem"] == ""
    assert small["free"] > 0
    far = fit(width=4096, height=4096)
    assert far["problem"] or far["tiled"]


def test_a_stop_ends_within_a_step_and_keeps_what_is_finished(
    worker: WorkerProcess, model: Path, tmp_path: Path
) -> None:
    settings = {"prompt": "abc", "steps": 200, "seed": 1}
    request = worker.send("image", model=str(model), settings=settings, folder=str(tmp_path))
    steps, last = 0, None
    for event in worker.events(request):
        if event.event == "step":
            steps += 1
            if steps == 1:
                threading.Thread(target=worker.stop, args=(request,)).start()
        last = event
    assert last is not None
    assert (last.event, last.get("code")) == ("error", "cancelled")
    assert steps < 100
    assert list(tmp_path.glob("*.png")) == []
    held = worker.call("memory")["memory"]
    assert held["weights"] > 0  # the model stays for the next order
    assert (held["activations"], held["kv_cache"]) == (0, 0)


def test_a_stop_while_the_model_loads_leaves_the_gpu_as_it_was(
    worker: WorkerProcess, model: Path, tmp_path: Path
) -> None:
    worker.call("unload", kind="image")
    before = worker.call("memory")["memory"]
    request = worker.send("load", model=str(model))
    last = None
    for event in worker.events(request):
        if event.event == "progress":
            worker.stop(request)
        last = event
    assert last is not None
    assert (last.event, last.get("code")) == ("error", "cancelled")
    after = worker.call("memory")["memory"]
    kinds = ("weights", "kv_cache", "activations", "other", "total")
    assert {kind: after[kind] for kind in kinds} == {kind: before[kind] for kind in kinds}


def test_a_start_picture_and_a_mask_keep_what_is_black(
    draw: Callable[..., list[Event]], tmp_path: Path
) -> None:
    Image.new("RGB", (64, 64), (255, 0, 0)).save(tmp_path / "red.png")
    mask = np.zeros((64, 64), np.uint8)
    mask[:, 32:] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    init, mask_path = str(tmp_path / "red.png"), str(tmp_path / "mask.png")
    done = draw(init=init, mask=mask_path, strength=1.0)[-1]
    assert done.event == "done", done
    made = pixels(done["files"][0])
    assert (made[:, :32] == (255, 0, 0)).all()
    assert not (made[:, 32:] == (255, 0, 0)).all()


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"width": 65}, "setting", "multiple of 8. Choose 64 or 72"),
        ({"sampler": "magic"}, "setting", "no sampler named"),
        ({"init": "/nowhere/a.png"}, "picture_file", "a.png cannot be read"),
        ({"loras": [{"path": "/nowhere/l.safetensors"}]}, "model_file", "l.safetensors"),
        ({"mask": "m.png"}, "setting", "A mask needs a picture"),
    ],
)
def test_what_cannot_be_is_told(
    draw: Callable[..., list[Event]], settings: dict[str, Any], code: str, words: str
) -> None:
    error = draw(**settings)[-1]
    assert (error.event, error.get("code")) == ("error", code)
    assert words in error["message"]


def test_the_model_is_listed_as_loaded_and_can_be_unloaded(
    draw: Callable[..., list[Event]], worker: WorkerProcess, model: Path
) -> None:
    draw()
    assert worker.call("model_info", name=str(model))["info"]["loaded"]
    assert worker.call("memory")["memory"]["weights"] > 0
    worker.call("unload", kind="image")
    assert not worker.call("model_info", name=str(model))["info"]["loaded"]
    assert worker.call("memory")["memory"]["total"] == 0


def test_a_bench_tells_bytes_by_network(worker: WorkerProcess, model: Path) -> None:
    report = worker.call("bench", kind="image", model=str(model), steps=3)["report"]
    for name in ("planned_bytes", "lower_bound_bytes", "unplanned_bytes"):
        assert set(report[name]) >= {"text_encoder", "unet", "vae_decoder"}
    assert report["unplanned_bytes"]["unet"] > report["planned_bytes"]["unet"]
    assert report["planned_bytes"]["unet"] >= report["lower_bound_bytes"]["unet"]


def test_the_starter_is_installed_and_told_about(worker: WorkerProcess) -> None:
    models = worker.call("models_list")["models"]
    [starter] = [one for one in models if one["name"] == "starter-image"]
    assert (starter["kind"], starter["removable"], starter["problem"]) == ("image", False, None)
    info = worker.call("image_info", model="starter-image")["info"]
    assert (info["size"], info["token_limit"]) == ([128, 128], 30)
    assert "a red apple" in info["prompts"]
    counted = worker.call("image_count", model="starter-image", prompt="a red apple")
    assert (counted["tokens"], counted["limit"], counted["cut"]) == (3, 30, None)
    with pytest.raises(WorkerError, match="cannot be removed"):
        worker.call("model_remove", name="starter-image")
