"""Text-to-image models open whole, under diffusers' names, or say what is wrong with them."""

from __future__ import annotations

import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from formats.checkpoint_files import (
    FAMILIES,
    STARTER,
    VAE_WEIGHTS,
    checkpoint,
    golden,
    numbers,
    shard,
)

from engine.formats.diffusers import open_pipeline, open_vae
from engine.formats.diffusers_configs import (
    read_text_config,
    read_tiny_vae_config,
    read_unet_config,
    read_vae_config,
)
from engine.formats.diffusers_names import (
    skip_channels,
    text_tensors,
    tiny_vae_tensors,
    unet_tensors,
    vae_tensors,
)
from engine.formats.diffusers_prediction import guess_prediction
from engine.formats.errors import FormatError, UnsupportedFile
from engine.formats.safetensors import open_safetensors, write_safetensors


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {family: checkpoint(folder / f"{family}.safetensors", family) for family in FAMILIES}


# ---- Networks are known by heart


@pytest.mark.parametrize(
    ("config", "tensors", "parameters"),
    [
        ({"cross_attention_dim": 768}, 686, 859_520_964),
        (
            {
                "cross_attention_dim": 1024,
                "attention_head_dim": [5, 10, 20, 20],
                "use_linear_projection": True,
            },
            686,
            865_910_724,
        ),
        (
            {
                "cross_attention_dim": 2048,
                "attention_head_dim": [5, 10, 20],
                "use_linear_projection": True,
                "block_out_channels": [320, 640, 1280],
                "down_block_types": ["DownBlock2D"] + ["CrossAttnDownBlock2D"] * 2,
                "up_block_types": ["CrossAttnUpBlock2D"] * 2 + ["UpBlock2D"],
                "transformer_layers_per_block": [1, 2, 10],
                "addition_embed_type": "text_time",
                "projection_class_embeddings_input_dim": 2816,
            },
            1680,
            2_567_463_684,
        ),
        ({"cross_attention_dim": 768, "time_cond_proj_dim": 256}, 687, 859_602_884),
    ],
    ids=["sd1", "sd2", "sdxl", "lcm"],
)
def test_unets_have_the_published_number_of_parameters(config, tensors, parameters):
    shapes = unet_tensors(read_unet_config(config))
    assert (len(shapes), count(shapes)) == (tensors, parameters)


def count(shapes) -> int:
    return sum(int(np.prod(shape)) for shape in shapes.values())


def test_the_other_networks_have_the_published_number_of_parameters():
    vae = {"block_out_channels": [128, 256, 512, 512], "layers_per_block": 2}
    assert count(vae_tensors(read_vae_config(vae))) == 83_653_863
    assert count(tiny_vae_tensors(read_tiny_vae_config({}))) == 2_445_063
    clip = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
    assert count(text_tensors(read_text_config(clip))) == 123_060_480


def test_skips_are_listed_as_the_down_blocks_make_them():
    config = read_unet_config({"cross_attention_dim": 768})
    assert skip_channels(config) == (
        320,
        320,
        320,
        320,
        640,
        640,
        640,
        1280,
        1280,
        1280,
        1280,
        1280,
    )


# ---- The starter model


def test_the_starter_model_opens_whole():
    with open_pipeline(STARTER) as model:
        assert (model.kind, model.family, model.notes) == ("folder", "custom", ())
        assert set(model.weights) == {"unet", "vae", "text_encoder"}
        assert model.parameters == 24_495_059
        assert model.unet.heads == (4, 4)
        assert (model.vae.latent_channels, model.vae.factor) == (8, 8)
        assert model.texts[0].positions == model.tokenizers[0].positions == 32
        assert model.scheduler["prediction_type"] == "v_prediction"
        assert model.weights["unet"].dtype("conv_in.weight") == "F16"


def test_the_starter_model_names_its_licence_and_credits():
    assert "Twitter, Inc and other contributors. CC-BY-4.0" in (STARTER / "CREDITS").read_text()
    about = json.loads((STARTER / "about.json").read_text())
    assert about["parameters"] == 24_495_059
    assert len(about["example_prompts"]) >= 8


def test_weights_are_read_as_float32_in_their_own_shape():
    with open_pipeline(STARTER) as model:
        weights = model.weights["unet"]
        file = open_safetensors(STARTER / "unet" / "diffusion_pytorch_model.safetensors")
        values = weights.array("conv_in.weight")
        assert values.dtype == np.float32
        assert values.shape == weights.shape("conv_in.weight") == (128, 8, 3, 3)
        np.testing.assert_array_equal(values, file.array("conv_in.weight"))
        with pytest.raises(FormatError, match="no weight named 'conv_on'"):
            weights.array("conv_on")


# ---- Checkpoints, against diffusers' own conversion


@pytest.mark.parametrize("family", FAMILIES)
def test_checkpoints_convert_as_diffusers_converts_them(checkpoints, family):
    expected = golden(family)["expected"]
    with open_pipeline(checkpoints[family]) as model:
        assert set(model.weights) == set(expected)
        for part, tensors in expected.items():
            source = model.weights[part]
            assert set(source.names()) == set(tensors)
            for name, (shape, checksum) in tensors.items():
                values = source.array(name)
                assert squeezed(values.shape) == squeezed(tuple(shape)), name
                assert zlib.crc32(values.tobytes()) == checksum, name


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:2] if shape[2:] == (1, 1) else shape


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoints_configuration_is_worked_out(checkpoints, family):
    stated = read_unet_config({**golden(family)["unet"], "sample_size": 64})
    with open_pipeline(checkpoints[family]) as model:
        found = model.unet
        # A block without attention has no depth and no heads that a file could show.
        assert [d for d, a in zip(found.transformer_layers, found.down_attention, strict=True) if a]
        assert replace(found, heads=(), transformer_layers=()) == replace(
            stated, heads=(), transformer_layers=()
        )
        assert found.heads == stated.heads
        assert found.transformer_layers == stated.transformer_layers
        act = {"sd1": ["quick_gelu"], "sd2": ["gelu"], "sdxl": ["quick_gelu", "gelu"]}
        assert [text.act for text in model.texts] == act[family]
        assert [pad.pad for pad in model.tokenizers] == [
            "<|endoftext|>" if act == "quick_gelu" else "!" for act in act[family]
        ]
        assert model.vae.layers_per_block == 2


def test_only_xl_encoders_project_their_pooled_output(checkpoints):
    dims = {}
    for family, path in checkpoints.items():
        with open_pipeline(path) as model:
            dims[family] = [text.projection_dim for text in model.texts]
    assert dims == {"sd1": [0], "sd2": [0], "sdxl": [0, 40]}


def family_note(tmp_path, name: str, metadata=None, more=None, **options) -> tuple[str, int]:
    """What a Stable Diffusion 2 file of this name predicts, and how many notes say so."""
    family = options.pop("family", "sd2")
    write_safetensors(tmp_path / name, {"x": np.zeros(1, np.float32)} | (more or {}), metadata)
    with open_safetensors(tmp_path / name) as file:
        prediction, notes = guess_prediction(file, family, **options)
    return prediction, len(notes)


@pytest.mark.parametrize(
    ("name", "metadata", "prediction", "notes"),
    [
        ("v2-1_768-ema-pruned.safetensors", None, "v_prediction", 0),
        ("512-base-ema.safetensors", None, "epsilon", 0),
        ("sd_turbo.safetensors", None, "epsilon", 0),
        ("mine.safetensors", None, "v_prediction", 1),
        ("mine.safetensors", {"modelspec.prediction_type": "epsilon"}, "epsilon", 0),
        ("base.safetensors", {"modelspec.prediction_type": "v"}, "v_prediction", 0),
        (
            "mine.safetensors",
            {"modelspec.architecture": "stable-diffusion-v2-768-v"},
            "v_prediction",
            0,
        ),
        ("mine.safetensors", {"modelspec.architecture": "other"}, "v_prediction", 1),
    ],
)
def test_what_stable_diffusion_2_predicts(tmp_path, name, metadata, prediction, notes):
    assert family_note(tmp_path, name, metadata) == (prediction, notes)


@pytest.mark.parametrize(
    ("text", "prediction", "notes"),
    [
        ('model:\n  params:\n    parameterization: "v"\n', "v_prediction", 0),
        ("model:\n  params:\n    parameterization: eps\n", "epsilon", 0),
        ("model:\n  target: ldm.models.diffusion.ddpm.LatentDiffusion\n", "epsilon", 0),
        ("a: b\n", "v_prediction", 1),
        ("parameterization: odd\n", "v_prediction", 1),
    ],
)
def test_a_configuration_beside_the_file_tells(tmp_path, text, prediction, notes):
    (tmp_path / "mine.yaml").write_text(text)
    assert family_note(tmp_path, "mine.safetensors") == (prediction, notes)


def test_names_tell_v_prediction_in_any_family(tmp_path):
    name = "noob-vpred-1.0.safetensors"
    assert family_note(tmp_path, name, family="sdxl") == ("v_prediction", 0)
    assert family_note(tmp_path, "improvpredator.safetensors", family="sdxl") == ("epsilon", 0)


def test_inpainting_models_predict_noise(tmp_path):
    assert family_note(tmp_path, "mine.safetensors", inpainting=True) == ("epsilon", 0)


def test_a_marker_tensor_tells_v_prediction(tmp_path):
    more = {"v_pred": np.zeros(1, np.float32)}
    assert family_note(tmp_path, "base.safetensors", None, more) == ("v_prediction", 0)


def test_the_prediction_can_be_overruled(checkpoints):
    with open_pipeline(checkpoints["sd1"], prediction="v_prediction") as model:
        assert model.scheduler["prediction_type"] == "v_prediction"
    with pytest.raises(UnsupportedFile, match="not 'noise'"):
        open_pipeline(checkpoints["sd1"], prediction="noise")


# ---- Separate autoencoders


def vae_file(path: Path, prefix: str) -> Path:
    tensors = {
        name.replace("first_stage_model.", prefix): numbers(name, tuple(shape))
        for name, shape in golden("sd1")["tensors"].items()
        if name.startswith("first_stage_model.")
    }
    write_safetensors(path, tensors)
    return path


@pytest.mark.parametrize("prefix", ["first_stage_model.", ""])
def test_a_vae_file_stands_in_for_the_models_own(tmp_path, checkpoints, prefix):
    vae = vae_file(tmp_path / "vae.safetensors", prefix)
    with open_pipeline(checkpoints["sd1"], vae=vae) as model:
        assert model.weights["vae"].weights["decoder.conv_in.weight"].file.path == vae
        assert model.vae.scaling_factor == 0.18215


def test_a_bare_vae_file_takes_the_scale_and_the_groups_of_its_model():
    with open_pipeline(STARTER, vae=STARTER / "vae" / VAE_WEIGHTS) as model:
        assert model.vae.scaling_factor == pytest.approx(0.4825415)
        assert model.vae.norm_groups == 16


def test_vaes_under_diffusers_names_old_and_new(tmp_path):
    source = open_safetensors(STARTER / "vae" / "diffusion_pytorch_model.safetensors")
    new = {name: source.array(name) for name in source.tensors}
    old_parts = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    old = {}
    for name, values in new.items():
        for today, before in old_parts.items():
            name = name.replace(f"attentions.0.{today}.", f"attentions.0.{before}.")
        old[name] = values
    assert set(old) != set(new)
    for tensors in (new, old):
        write_safetensors(tmp_path / "vae.safetensors", tensors)
        vae = open_vae(tmp_path / "vae.safetensors")
        np.testing.assert_array_equal(
            vae.weights.array("encoder.mid_block.attentions.0.to_out.0.weight"),
            new["encoder.mid_block.attentions.0.to_out.0.weight"],
        )


def test_a_tiny_vae_opens_by_its_layers(tmp_path):
    shapes = tiny_vae_tensors(read_tiny_vae_config({}))
    tensors = {name: np.zeros(shape, np.float16) for name, shape in shapes.items()}
    write_safetensors(tmp_path / "taesd.safetensors", tensors)
    vae = open_vae(tmp_path / "taesd.safetensors")
    assert len(vae.weights.names()) == 134
    assert vae.scaled(0.18215).scaling_factor == 1.0


def test_a_vae_is_found_in_a_models_folder():
    assert open_vae(STARTER).weights.nbytes == 6_841_494


# ---- Folders in other forms


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree(STARTER, tmp_path / "model")
    return tmp_path / "model"


def test_half_precision_variants_are_found(folder):
    unet = folder / "unet"
    (unet / "diffusion_pytorch_model.safetensors").rename(
        unet / "diffusion_pytorch_model.fp16.safetensors"
    )
    assert open_pipeline(folder).parameters == 24_495_059


def test_weights_in_parts_are_put_together(folder):
    shard(folder)
    assert open_pipeline(folder).parameters == 24_495_059


def test_text_encoders_without_the_classic_prefix_open_too(folder):
    path = folder / "text_encoder" / "model.safetensors"
    with open_safetensors(path) as file:
        bare = {name.removeprefix("text_model."): file.array(name) for name in file.tensors}
    write_safetensors(path, bare)
    with open_pipeline(folder) as model:
        assert "text_model.final_layer_norm.bias" in model.weights["text_encoder"]


def test_the_index_file_and_a_folder_with_one_checkpoint_open_too(folder, tmp_path):
    assert open_pipeline(folder / "model_index.json").family == "custom"
    (tmp_path / "other").mkdir()
    checkpoint(tmp_path / "other" / "sd1.safetensors", "sd1")
    assert open_pipeline(tmp_path / "other").kind == "checkpoint"
