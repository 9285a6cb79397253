"""LoRA files go into the weights and come out again, and only what changes is uploaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from image.goldens import STARTER

from engine.formats.errors import FormatError
from engine.formats.safetensors import write_safetensors
from engine.gpu.device import Device
from engine.image.engine import ImageEngine
from engine.image.pipeline_model import ImageModel, set_loras
from engine.image.settings import LoraChoice
from engine.image.weights_upload import never, silent

MODULE = "text_model.encoder.layers.0.self_attn.q_proj"
VALUE = (
    "text_encoder.text_model.encoder.layers.0.self_attn.q_proj.weight+k_proj.weight+v_proj.weight"
)


@pytest.fixture(scope="module")
def model(device: Device) -> Iterator[ImageModel]:
    engine = ImageEngine(device)
    engine.load(STARTER)
    yield engine.pipeline.model
    engine.close()


@pytest.fixture
def lora(tmp_path: Path) -> str:
    """A LoRA of rank 2 for one projection of the text encoder, under kohya's names."""
    rng = np.random.default_rng(1)
    name = "lora_te_" + MODULE.replace(".", "_")
    path = tmp_path / "style.safetensors"
    write_safetensors(
        path,
        {
            f"{name}.lora_down.weight": rng.standard_normal((2, 256)).astype(np.float32),
            f"{name}.lora_up.weight": rng.standard_normal((256, 2)).astype(np.float32),
            f"{name}.alpha": np.array(2.0, np.float32),
        },
    )
    return str(path)


def stacked(model: ImageModel) -> np.ndarray:
    """Queries, keys and values of the first layer as they go to the GPU."""
    weights = model.texts[0]
    (value,) = [value for value in weights.recipes if value.name == VALUE]
    return weights.array(value)


def test_a_lora_changes_its_weights_and_leaves_nothing_behind(model: ImageModel, lora: str) -> None:
    uploads: list[int] = []

    def progress(phase: str, done: int, total: int) -> None:
        uploads.append(total)

    before = stacked(model)
    set_loras(model, [LoraChoice(lora, 0.5)], progress, never)
    assert model.loras == (LoraChoice(lora, 0.5),)
    assert set(uploads) == {768 * 256 * 2}  # the stack, in 16 bits, and nothing else
    set_loras(model, [], progress, never)
    assert np.array_equal(stacked(model), before)
    assert model.loras == ()


def test_the_weight_scales_what_is_added(model: ImageModel, lora: str) -> None:
    before = stacked(model)
    changes: list[np.ndarray] = []
    for weight in (0.5, 1.0):
        set_loras(model, [LoraChoice(lora, weight)], silent, never)
        changes.append(stacked(model) - before)
    set_loras(model, [], silent, never)
    assert np.abs(changes[0][:256]).max() > 0.1
    assert np.allclose(2 * changes[0], changes[1], atol=1e-5)
    assert not changes[1][256:].any()  # keys and values stay


def test_a_lora_for_another_model_changes_nothing(model: ImageModel, tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    name = "lora_unet_down_blocks_3_attentions_0_proj_in"
    ends = {"lora_down": (2, 1280), "lora_up": (1280, 2)}
    write_safetensors(
        path, {f"{name}.{end}.weight": np.zeros(shape, np.float32) for end, shape in ends.items()}
    )
    before = stacked(model)
    with pytest.raises(FormatError):
        set_loras(model, [LoraChoice(str(path))], silent, never)
    assert model.loras == ()
    assert np.array_equal(stacked(model), before)
