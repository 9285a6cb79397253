"""What a file can be added to a picture model as, or why it cannot, in words."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.formats.safetensors import write_safetensors
from engine.models.shipped import STARTER_PICTURES, shipped_models
from engine.worker.client import WorkerError, WorkerProcess

VALUES = "down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_v"
WIDE = "down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    home = tmp_path_factory.mktemp("home")
    with WorkerProcess(environment={"DRIFTWOOD_HOME": str(home)}) as one:
        yield one


def lora(path: Path, module: str, rows: int, cols: int, **metadata: str) -> Path:
    tensors = {
        f"lora_unet_{module}.lora_down.weight": np.zeros((2, cols), np.float32),
        f"lora_unet_{module}.lora_up.weight": np.zeros((rows, 2), np.float32),
    }
    write_safetensors(path, tensors, metadata)
    return path


def ask(worker: WorkerProcess, path: Path) -> tuple[str, str]:
    """Kind and what is said of it, or the code and the message."""
    try:
        told = worker.call("image_part", model=STARTER_PICTURES, path=str(path))
    except WorkerError as error:
        return error.code, str(error)
    return told["kind"], told["problem"] or told["hint"]


def test_a_lora_is_one_and_says_what_it_was_made_for(worker: WorkerProcess, tmp_path: Path) -> None:
    hint = {"modelspec.trigger_phrase": "warm\n light"}
    path = lora(tmp_path / "a.safetensors", VALUES, 128, 128, **hint)
    assert ask(worker, path) == ("lora", "warm light")


def test_an_autoencoder_is_one_as_a_file_and_as_a_folder(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    folder = shipped_models()[0] / "vae"
    file = shutil.copy(folder / "diffusion_pytorch_model.safetensors", tmp_path / "v.safetensors")
    assert ask(worker, file) == ("vae", "")
    assert ask(worker, folder) == ("vae", "")


def test_what_does_not_go_with_the_model_is_told(worker: WorkerProcess, tmp_path: Path) -> None:
    kind, said = ask(worker, lora(tmp_path / "xl.safetensors", WIDE, 640, 2048))
    assert kind == "lora"  # so that it is not taken for a model
    assert said.startswith("xl.safetensors was made for Stable Diffusion XL")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "x.safetensors"),
        (b"", "x.safetensors"),
        (b"\x80\x02}q\x00.", "x.safetensors"),
        (b"\xff" * 64, "x.safetensors"),
    ],
)
def test_what_is_no_such_file_is_told(
    worker: WorkerProcess, tmp_path: Path, data: bytes | None, words: str
) -> None:
    path = tmp_path / "x.safetensors"
    if data is not None:
        path.write_bytes(data)
    code, said = ask(worker, path)
    assert code in ("model_file", "unsupported_model", "not_found")
    assert words in said


def test_other_weights_are_named(worker: WorkerProcess, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, {"a.b": np.zeros((2, 2), np.float32)})
    code, said = ask(worker, path)
    assert (code, said.split(",")[0]) == ("unsupported_model", "x.safetensors holds 'a.b'")


def test_clip_skip_goes_as_far_as_the_text_encoder(worker: WorkerProcess) -> None:
    assert worker.call("image_info", model=STARTER_PICTURES)["info"]["clip_skip"] == 4
