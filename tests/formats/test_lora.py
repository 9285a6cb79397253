"""LoRA files add to a model's weights what diffusers adds, or say why they cannot."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from engine.formats.diffusers import PipelineFiles, open_pipeline
from engine.formats.errors import CorruptFile, FormatError, NotAModelFile, UnsupportedFile
from engine.formats.lora import Lora, load_lora
from engine.formats.lora_names import split_name
from engine.formats.safetensors import write_safetensors

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "checkpoints"
CASES = json.loads((GOLDEN / "loras.json").read_text())
SAMPLES = 8


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The numbers that the golden files' maker gives a tensor of this name."""
    if name.endswith(".alpha"):
        return np.full(shape, 2, np.float32)
    seed = zlib.crc32(name.encode())
    scrambled = (np.arange(int(np.prod(shape)), dtype=np.uint64) * 2654435761 + seed) % 65536
    return (scrambled.astype(np.float32) / 32768 - 1).reshape(shape)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, PipelineFiles]:
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for family in ("sd1", "sdxl"):
        tensors = json.loads(gzip.decompress((GOLDEN / f"{family}.json.gz").read_bytes()))[
            "tensors"
        ]
        zeros = {name: np.zeros(shape, np.float16) for name, shape in tensors.items()}
        write_safetensors(folder / f"{family}.safetensors", zeros)
        made[family] = open_pipeline(folder / f"{family}.safetensors")
    return made


def lora(tmp_path, tensors, metadata=None, name="lora.safetensors") -> Lora:
    made = {
        key: value if isinstance(value, np.ndarray) else numbers(key, tuple(value))
        for key, value in tensors.items()
    }
    write_safetensors(tmp_path / name, made, metadata)
    return load_lora(tmp_path / name)


@pytest.mark.parametrize("name", CASES)
def test_what_is_added_equals_diffusers(tmp_path, models, name):
    case = CASES[name]
    model = models[case["family"]]
    file = lora(tmp_path, case["tensors"], case["metadata"])
    assert file.components == tuple(case["expected"])
    file.check(model)
    for component, expected in case["expected"].items():
        deltas = file.deltas(component, model)
        assert set(deltas) == set(expected)
        for weight, golden in expected.items():
            added = deltas[weight]()
            assert added.dtype == np.float32
            assert added.shape == model.weights[component].shape(weight)
            flat = added.ravel().astype(np.float64)
            picked = flat[:: max(flat.size // SAMPLES, 1)][:SAMPLES]
            np.testing.assert_allclose(picked, golden["samples"], rtol=1e-5, atol=2e-6)
            np.testing.assert_allclose((flat**2).sum(), golden["squares"], rtol=1e-5)


# ---- Names

BLOCK = "down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_q"


@pytest.mark.parametrize(
    ("name", "split"),
    [
        (f"lora_unet_{BLOCK}.lora_down.weight", ("unet", BLOCK, "down")),
        (f"lora_unet_{BLOCK}.alpha", ("unet", BLOCK, "alpha")),
        (f"lora_unet_{BLOCK}.lora_mid.weight", ("unet", BLOCK, "middle")),
        ("lora_te_x.lora_up.weight", ("text_encoder", "x", "up")),
        ("lora_te1_x.lora_up.weight", ("text_encoder", "x", "up")),
        ("lora_te2_x.lora_up.weight", ("text_encoder_2", "x", "up")),
        ("unet.a.to_out.0.lora_A.weight", ("unet", "a_to_out_0", "down")),
        ("unet.a.lora_B.default.weight", ("unet", "a", "up")),
        ("text_encoder_2.a.lora.down.weight", ("text_encoder_2", "a", "down")),
        ("text_encoder.a.lora_linear_layer.up.weight", ("text_encoder", "a", "up")),
        ("unet.attn1.processor.to_out_lora.up.weight", ("unet", "attn1_to_out_0", "up")),
        ("base_model.model.a.to_k.lora_A.weight", ("unet", "a_to_k", "down")),
        ("diffusion_model.input_blocks.1.lora_up.weight", ("unet", "input_blocks_1", "up")),
        ("something.lora_up.weight", None),
        ("lora_unet_a.weight", None),
    ],
)
def test_names_are_taken_apart(name, split):
    assert split_name(name) == split


@pytest.mark.parametrize(
    "prefix",
    [
        "lora_te_text_model_encoder_layers_0_self_attn_q_proj",
        "lora_te1_text_model_encoder_layers_0_self_attn_q_proj",
        "text_encoder.text_model.encoder.layers.0.self_attn.q_proj",
        "text_encoder.encoder.layers.0.self_attn.q_proj",
    ],
)
def test_text_encoders_by_any_spelling(tmp_path, models, prefix):
    down, up = numbers("d", (2, 24)), numbers("u", (24, 2))
    tensors = {f"{prefix}.lora_down.weight": down, f"{prefix}.lora_up.weight": up}
    deltas = lora(tmp_path, tensors).deltas("text_encoder", models["sd1"])
    (added,) = [delta() for delta in deltas.values()]
    assert list(deltas) == ["text_model.encoder.layers.0.self_attn.q_proj.weight"]
    np.testing.assert_allclose(added, up @ down, rtol=1e-6)


def kohya(module: str, down, up, **more) -> dict[str, object]:
    made = {f"{module}.lora_down.weight": down, f"{module}.lora_up.weight": up}
    return made | {f"{module}.{key.replace('_weight', '.weight')}": v for key, v in more.items()}


UNET_Q = f"lora_unet_{BLOCK}"


def test_alpha_over_rank_scales_and_none_means_1(tmp_path, models):
    name = "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.weight"
    plain = lora(tmp_path, kohya(UNET_Q, (4, 64), (64, 4))).deltas("unet", models["sd1"])[name]()
    alpha = np.array(8, np.float32)
    scaled = lora(tmp_path, kohya(UNET_Q, (4, 64), (64, 4), alpha=alpha))
    np.testing.assert_allclose(scaled.deltas("unet", models["sd1"])[name](), 2 * plain, rtol=1e-6)
    assert scaled.rank == 4


def test_convolutions_in_three_parts(tmp_path, models):
    module = "lora_unet_down_blocks_0_resnets_0_conv1"
    tensors = kohya(module, (3, 32, 1, 1), (32, 2, 1, 1), lora_mid_weight=(2, 3, 3, 3))
    deltas = lora(tmp_path, tensors).deltas("unet", models["sd1"])
    (added,) = [delta() for delta in deltas.values()]
    down, up, middle = (
        numbers(f"{module}.lora_{part}.weight", shape)
        for part, shape in (("down", (3, 32)), ("up", (32, 2)), ("mid", (2, 3, 3, 3)))
    )
    expected = np.einsum("oi,ijkl,jr->orkl", up, middle, down)
    np.testing.assert_allclose(added, expected, rtol=1e-4, atol=1e-5)


def test_half_precision_files(tmp_path, models):
    down, up = numbers("d", (4, 64)).astype(np.float16), numbers("u", (64, 4)).astype(np.float16)
    deltas = lora(tmp_path, kohya(UNET_Q, down, up)).deltas("unet", models["sd1"])
    (added,) = [delta() for delta in deltas.values()]
    np.testing.assert_allclose(added, up.astype(np.float32) @ down.astype(np.float32), rtol=1e-6)


def test_components_without_changes_have_none(tmp_path, models):
    file = lora(tmp_path, kohya(UNET_Q, (4, 64), (64, 4)))
    assert file.deltas("text_encoder", models["sd1"]) == {}
    assert file.components == ("unet",)


# ---- What is refused, and how

K = "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (kohya(K, (4, 2048), (64, 4)), "made for Stable Diffusion XL and cannot be added"),
        (kohya(K, (4, 1024), (64, 4)), "made for Stable Diffusion 2"),
        (kohya(K, (4, 24), (63, 4)), "does not fit sd1: it changes"),
        (kohya("lora_unet_down_blocks_7_resnets_0_conv1", (4, 8, 3, 3), (8, 4, 1, 1)), "lacks or"),
        (kohya("lora_te2_text_model_encoder_layers_0_mlp_fc1", (2, 24), (48, 2)), "does not fit"),
    ],
)
def test_a_lora_for_another_model_is_refused(tmp_path, models, tensors, message):
    with pytest.raises(UnsupportedFile, match=message) as caught:
        lora(tmp_path, tensors).check(models["sd1"])
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lora_unet_x.hada_w1_a", "LoHa"),
        ("lora_unet_x.lokr_w1", "LoKr"),
        ("lora_unet_x.dora_scale", "DoRA"),
        ("unet.x.lora_magnitude_vector", "DoRA"),
        ("lora_unet_x.diff", "full differences"),
        ("lora_unet_x.on_input", "IA3"),
        ("emb_params", "textual inversion"),
        ("transformer.x.lora_A.weight", "Flux"),
        ("model.diffusion_model.out.2.weight", "whole model"),
        ("something.else", "no part of a LoRA"),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path, name, message):
    with pytest.raises(UnsupportedFile, match=message):
        lora(tmp_path, {name: (2, 2)})


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({f"{UNET_Q}.lora_down.weight": (4, 64)}, "without its up matrix"),
        ({f"{UNET_Q}.lora_up.weight": (64, 4)}, "without its down matrix"),
        (kohya(UNET_Q, (4, 64), (64, 3)), "do not go together"),
        (kohya(UNET_Q, (4,), (64, 4)), "do not go together"),
        (kohya(UNET_Q, (4, 64), (64, 4, 3, 3)), "do not go together"),
        (kohya(UNET_Q, (0, 64), (64, 0)), "do not go together"),
        (kohya(UNET_Q, (4, 64), (64, 4), alpha=(3,)), "not one number"),
        (kohya(UNET_Q, (4, 64), (64, 4), alpha=np.array(np.nan, np.float32)), "scale of"),
    ],
)
def test_broken_files_are_refused(tmp_path, tensors, message):
    with pytest.raises(CorruptFile, match=message):
        lora(tmp_path, tensors)


def test_a_dora_by_its_settings_is_refused(tmp_path):
    metadata = {"lora_adapter_metadata": json.dumps({"unet.use_dora": True})}
    with pytest.raises(UnsupportedFile, match="DoRA"):
        lora(tmp_path, kohya(UNET_Q, (4, 64), (64, 4)), metadata)


@pytest.mark.parametrize("settings", ["{", "[]", "[" * 99_999, '{"unet.lora_alpha": "x"}'])
def test_unsound_settings_change_nothing(tmp_path, settings):
    file = lora(tmp_path, kohya(UNET_Q, (4, 64), (64, 4)), {"lora_adapter_metadata": settings})
    assert file.rank == 4


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"<html>")
    with pytest.raises(NotAModelFile, match="web page"):
        load_lora(tmp_path / "a.safetensors")
    (tmp_path / "a.pt").write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(FormatError, match="can run code"):
        load_lora(tmp_path / "a.pt")
    write_safetensors(tmp_path / "e.safetensors", {})
    with pytest.raises(UnsupportedFile, match="no tensors"):
        load_lora(tmp_path / "e.safetensors")
