"""The number types and the parts that models come in, and what is said when some is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from formats.checkpoint_files import FAMILIES, STARTER, checkpoint, golden, numbers

from engine.formats.diffusers import open_pipeline
from engine.formats.errors import CorruptFile, FormatError, UnsupportedFile
from engine.formats.safetensors import open_safetensors, write_safetensors

CONVOLUTION = "model.diffusion_model.input_blocks.1.0.in_layers.2.weight"
TOKENS = {
    "sd1": "cond_stage_model.transformer.text_model.embeddings.token_embedding.weight",
    "sd2": "cond_stage_model.model.token_embedding.weight",
    "sdxl": "conditioner.embedders.1.model.token_embedding.weight",
}
VAE = "first_stage_model.decoder.conv_out.bias"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(STARTER, tmp_path / "model")
    return tmp_path / "model"


def as_bfloat(path: Path) -> None:
    """Rewrite a file of float32 as bfloat16, which numpy has no name for."""
    with open_safetensors(path) as file:
        bits = {
            name: (file.array(name).view(np.uint32) >> 16).astype(np.uint16).view(np.float16)
            for name in file.tensors
        }
    write_safetensors(path, bits)
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    for entry in header.values():
        entry["dtype"] = "BF16"
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + size :])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_checkpoints_of_every_number_type(tmp_path: Path, family: str, kind: str) -> None:
    path = checkpoint(tmp_path / "m.safetensors", family)
    if kind == "BF16":
        as_bfloat(path)
    elif kind == "F16":
        with open_safetensors(path) as file:
            half = {name: file.array(name).astype(np.float16) for name in file.tensors}
        write_safetensors(path, half)
    shape = tuple(golden(family)["tensors"][CONVOLUTION])
    with open_pipeline(path) as model:
        source = model.weights["unet"]
        assert source.dtype("down_blocks.0.resnets.0.conv1.weight") == kind
        values = source.array("down_blocks.0.resnets.0.conv1.weight")
        exact = numbers(CONVOLUTION, shape)
        np.testing.assert_allclose(values, exact, atol={"F32": 0, "F16": 5e-4, "BF16": 8e-3}[kind])
        assert model.nbytes == model.parameters * (4 if kind == "F32" else 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_tensors_of_a_checkpoint_are_named(tmp_path: Path, family: str) -> None:
    path, tokens = tmp_path / "m.safetensors", TOKENS[family]
    for name, part in ((CONVOLUTION, "UNet"), (VAE, "VAE")):
        checkpoint(path, family, without=[name])
        with pytest.raises(CorruptFile, match=f"{part} lacks 1 tensor"):
            open_pipeline(path)
    width = golden(family)["tensors"][tokens][1]
    checkpoint(path, family, more={tokens: np.zeros((50, width + 2), np.float32)})
    with pytest.raises(FormatError, match="another shape"):
        open_pipeline(path)
    checkpoint(path, family, more={VAE + "es": np.zeros(3, np.float32)})
    with pytest.raises(UnsupportedFile, match=r"1 tensor .*decoder\.conv_out\.biases"):
        open_pipeline(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_inpainting_checkpoints_are_known_by_their_first_layer(tmp_path: Path, family: str) -> None:
    first = "model.diffusion_model.input_blocks.0.0.weight"
    outputs = golden(family)["tensors"][first][0]
    kernel = np.zeros((outputs, 9, 3, 3), np.float32)
    path = checkpoint(tmp_path / "m.safetensors", family, more={first: kernel})
    with open_pipeline(path) as model:
        assert model.reads_mask
        assert model.notes == ()
        assert model.scheduler["prediction_type"] == "epsilon"


@pytest.mark.parametrize(
    ("channels", "message"),
    [(8, "InstructPix2Pix"), (5, "a depth map"), (6, "takes 6 channels\\.")],
)
def test_denoisers_that_read_something_else_are_refused(
    tmp_path: Path, channels: int, message: str
) -> None:
    first = "model.diffusion_model.input_blocks.0.0.weight"
    outputs = golden("sd1")["tensors"][first][0]
    kernel = np.zeros((outputs, channels, 3, 3), np.float32)
    path = checkpoint(tmp_path / "m.safetensors", "sd1", more={first: kernel})
    with pytest.raises(UnsupportedFile, match=message):
        open_pipeline(path)


def cut(folder: Path, stem: str, index: str, variant: str = "") -> None:
    """Cut a network's file in three with an index."""
    whole = folder / f"{stem}.safetensors"
    with open_safetensors(whole) as file:
        tensors = {name: file.array(name).astype(np.float16) for name in file.tensors}
    whole.unlink()
    table: dict[str, str] = {}
    for part in range(3):
        name = f"{stem}{variant}-0000{part + 1}-of-00003.safetensors"
        chosen = sorted(tensors)[part::3]
        write_safetensors(folder / name, {key: tensors[key] for key in chosen})
        table |= dict.fromkeys(chosen, name)
    (folder / index).write_text(json.dumps({"metadata": {}, "weight_map": table}))


@pytest.mark.parametrize(
    ("part", "stem", "index", "variant"),
    [
        (
            "unet",
            "diffusion_pytorch_model",
            "diffusion_pytorch_model.safetensors.index.fp16.json",
            ".fp16",
        ),
        ("vae", "diffusion_pytorch_model", "diffusion_pytorch_model.safetensors.index.json", ""),
        ("text_encoder", "model", "model.safetensors.index.json", ""),
        ("text_encoder", "model", "model.fp16.safetensors.index.json", ".fp16"),
    ],
)
def test_every_network_may_come_in_parts(
    folder: Path, part: str, stem: str, index: str, variant: str
) -> None:
    cut(folder / part, stem, index, variant)
    with open_pipeline(folder) as model, open_pipeline(STARTER) as whole:
        for name in whole.weights[part].names():
            np.testing.assert_array_equal(
                model.weights[part].array(name), whole.weights[part].array(name)
            )


def test_a_part_that_is_missing_or_lacks_a_tensor_is_named(folder: Path) -> None:
    stem = "diffusion_pytorch_model"
    cut(folder / "unet", stem, f"{stem}.safetensors.index.json")
    part = folder / "unet" / f"{stem}-00002-of-00003.safetensors"
    with open_safetensors(part) as file:
        tensors = {name: file.array(name) for name in file.tensors}
    lost = sorted(tensors)[0]
    del tensors[lost]
    write_safetensors(part, tensors)
    with pytest.raises(CorruptFile, match=f"The UNet lacks 1 tensor .*{lost}"):
        open_pipeline(folder)
    part.unlink()
    with pytest.raises(FormatError, match="00002-of-00003"):
        open_pipeline(folder)
