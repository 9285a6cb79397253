"""Models that are broken, incomplete or of another kind are refused with the reason."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from formats.checkpoint_files import STARTER, checkpoint, shard

from engine.formats.diffusers import open_pipeline
from engine.formats.diffusers_types import check_parts
from engine.formats.errors import CorruptFile, FormatError, NotAModelFile, UnsupportedFile
from engine.formats.safetensors import open_safetensors, write_safetensors


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree(STARTER, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("unet", "vae", "text", "message"),
    [
        ({"out_channels": 4}, {}, {}, "latents of 4 channels and the VAE reads 8"),
        ({}, {"latent_channels": 16}, {}, "VAE reads 16"),
        ({"in_channels": 12}, {}, {}, r"takes 12 channels.*\(17\)"),
        ({"cross_attention_dim": 768}, {}, {}, "width 768, and the text encoders give 256"),
        ({"added_dim": 100, "added_time_dim": 8}, {}, {"projection_dim": 40}, "width 100.*give 88"),
    ],
)
def test_networks_of_different_models_do_not_go_together(unet, vae, text, message):
    with open_pipeline(STARTER) as model:
        texts = (replace(model.texts[0], **text),)
        with pytest.raises(UnsupportedFile, match=message):
            check_parts("m", replace(model.unet, **unet), replace(model.vae, **vae), texts)
        check_parts("m", replace(model.unet, in_channels=17), model.vae, model.texts)


def refused(path: Path, kind: type[FormatError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        open_pipeline(path)
    assert str(caught.value).endswith(".")


def rewrite(path: Path, change) -> None:
    with open_safetensors(path) as file:
        tensors = {name: file.array(name).astype(np.float16) for name in file.tensors}
    change(tensors)
    write_safetensors(path, tensors)


def edit(path: Path, **values) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_missing_extra_and_misshapen_tensors_are_named(folder):
    path = folder / "unet" / "diffusion_pytorch_model.safetensors"
    rewrite(path, lambda tensors: tensors.pop("mid_block.resnets.0.conv1.bias"))
    refused(folder, CorruptFile, "lacks 1 tensor .*'mid_block.resnets.0.conv1.bias'")
    bias = np.zeros(192, np.float16)
    rewrite(
        path, lambda tensors: tensors.update({"mid_block.resnets.0.conv1.bias": bias, "q": bias})
    )
    refused(folder, UnsupportedFile, "1 tensor that Driftwood does not know .*'q'")
    short = {"mid_block.resnets.0.conv1.bias": bias[:10]}
    rewrite(path, lambda tensors: (tensors.pop("q"), tensors.update(short)))
    refused(folder, UnsupportedFile, r"conv1.bias' is \[10\] instead of \[192\]")


@pytest.mark.parametrize(
    ("file", "values", "kind", "message"),
    [
        ("unet/config.json", {"act_fn": "mish"}, UnsupportedFile, "act_fn = mish"),
        ("unet/config.json", {"class_embed_type": "timestep"}, UnsupportedFile, "class_embed_type"),
        (
            "unet/config.json",
            {"down_block_types": ["SimpleCrossAttnDownBlock2D"] * 2},
            UnsupportedFile,
            "SimpleCrossAttnDownBlock2D",
        ),
        ("unet/config.json", {"block_out_channels": "many"}, CorruptFile, "list of whole numbers"),
        ("unet/config.json", {"block_out_channels": [0, -1]}, CorruptFile, "1 to 16 whole"),
        ("unet/config.json", {"attention_head_dim": 7}, CorruptFile, "divisor of 128"),
        ("unet/config.json", {"attention_head_dim": [1, 2, 3]}, CorruptFile, "list of 2"),
        ("unet/config.json", {"in_channels": True}, CorruptFile, "whole number"),
        ("unet/config.json", {"cross_attention_dim": 64}, UnsupportedFile, "another shape"),
        ("vae/config.json", {"_class_name": "VQModel"}, UnsupportedFile, "VQModel"),
        ("vae/config.json", {"norm_num_groups": 5}, CorruptFile, "divisor of 32"),
        ("vae/config.json", {"scaling_factor": "big"}, CorruptFile, "a number is needed"),
        ("text_encoder/config.json", {"model_type": "t5"}, UnsupportedFile, "t5"),
        ("text_encoder/config.json", {"hidden_act": "relu"}, UnsupportedFile, "relu"),
        ("model_index.json", {"_class_name": "FluxPipeline"}, UnsupportedFile, "FluxPipeline"),
        ("model_index.json", {"text_encoder": [None, None]}, NotAModelFile, "no text encoder"),
        (
            "model_index.json",
            {"image_encoder": ["transformers", "CLIPVision"]},
            UnsupportedFile,
            "more than a prompt",
        ),
    ],
)
def test_configurations_that_are_not_run(folder, file, values, kind, message):
    edit(folder / file, **values)
    refused(folder, kind, message)


def test_pickled_weights_in_a_folder_are_refused_with_the_reason(folder):
    unet = folder / "unet"
    (unet / "diffusion_pytorch_model.safetensors").rename(unet / "diffusion_pytorch_model.bin")
    refused(folder, UnsupportedFile, "can run code")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("unet/diffusion_pytorch_model.safetensors", "no weights in unet"),
        ("vae/config.json", "no vae/config.json"),
        ("model_index.json", "no model_index.json and no .safetensors file"),
        ("scheduler/scheduler_config.json", "scheduler_config.json"),
    ],
)
def test_missing_files_are_named(folder, missing, message):
    (folder / missing).unlink()
    refused(folder, NotAModelFile, message)


def test_a_tokenizer_needs_its_files(folder):
    for name in ("tokenizer.json", "merges.txt"):
        (folder / "tokenizer" / name).unlink()
    refused(folder, NotAModelFile, "neither tokenizer.json nor")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 99_999, b'{"a": 1}'])
def test_broken_json_is_refused(folder, content):
    (folder / "model_index.json").write_bytes(content)
    with pytest.raises(FormatError):
        open_pipeline(folder)


def test_folders_of_pickles_are_refused(tmp_path):
    (tmp_path / "model.ckpt").write_bytes(b"PK\x03\x04" + bytes(99))
    refused(tmp_path, UnsupportedFile, "only PyTorch checkpoints .model.ckpt.")


@pytest.mark.parametrize(
    ("without", "message"),
    [
        (["first_stage_model."], "holds no VAE.*VAE file"),
        (["cond_stage_model."], "no text encoder"),
        (["model.diffusion_model."], "holds a VAE only"),
        (["model.", "cond_", "first_"], "no picture model"),
        (["model.diffusion_model.input_blocks.4."], "lacks"),
        (["model.diffusion_model.output_blocks.5.0.in_layers.2"], "lacks 2 tensors"),
        (["model.diffusion_model.middle_block.1."], "lacks the tensor"),
        (["first_stage_model.decoder.up.1.block.0.norm1.bias"], "The VAE lacks 1 tensor"),
    ],
)
def test_incomplete_checkpoints_are_refused(tmp_path, without, message):
    refused(checkpoint(tmp_path / "m.safetensors", "sd1", without=without), FormatError, message)


def test_surplus_tensors_of_a_checkpoints_networks_are_named(tmp_path):
    more = {"model.diffusion_model.input_blocks.1.2.to_q.weight": np.zeros(3, np.float32)}
    path = checkpoint(tmp_path / "m.safetensors", "sd1", more=more)
    refused(path, UnsupportedFile, "input_blocks.1.2.to_q.weight")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("joint_blocks.0.context_block.adaLN_modulation.1.bias", "Stable Diffusion 3"),
        ("double_blocks.0.img_attn.norm.key_norm.scale", "Flux"),
        ("lora_unet_down_blocks_0.lora_down.weight", "LoRA file"),
        ("control_model.time_embed.0.weight", "ControlNet"),
    ],
)
def test_other_kinds_of_models_are_named(tmp_path, name, message):
    write_safetensors(tmp_path / "m.safetensors", {name: np.zeros(4, np.float32)})
    refused(tmp_path / "m.safetensors", UnsupportedFile, message)


def test_the_refiner_is_refused_by_name(tmp_path):
    more = {"conditioner.embedders.0.model.ln_final.bias": np.zeros(4, np.float32)}
    path = checkpoint(tmp_path / "m.safetensors", "sdxl", without=["conditioner."], more=more)
    refused(path, UnsupportedFile, "refiner")


def test_missing_files_and_pickles_by_path(tmp_path):
    refused(tmp_path / "none.safetensors", NotAModelFile, "no file")
    (tmp_path / "m.ckpt").write_bytes(b"\x80\x02}q\x00.")
    refused(tmp_path / "m.ckpt", UnsupportedFile, "can run code")


def test_random_changes_to_a_folders_json_raise_only_format_errors(folder):
    random = np.random.default_rng(7)
    for name in ("model_index.json", "unet/config.json", "vae/config.json"):
        path = folder / name
        original = path.read_bytes()
        for _ in range(60):
            bent = bytearray(original)
            for place in random.integers(0, len(bent), 3):
                bent[place] = random.integers(32, 127)
            path.write_bytes(bytes(bent))
            try:
                open_pipeline(folder).close()
            except FormatError:
                continue
        path.write_bytes(original)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", 7, "part.bin"])
def test_an_index_names_only_parts_beside_it(folder, name):
    index = shard(folder)
    index.write_text(json.dumps({"weight_map": {"conv_in.weight": name}}))
    refused(folder, CorruptFile, "does not list the parts")
