"""Make the golden files of the picture networks with diffusers; run once, by hand.

    python tests/golden/make_image.py tiny        (writes tests/golden/image/NAME/)
    python tests/golden/make_image.py starter     (writes tests/golden/image/starter.npz)

Needs torch, diffusers and transformers, which the tests themselves do not. Weights are random and
rounded to f16, and everything is computed in f32.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderTiny,
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    HeunDiscreteScheduler,
    StableDiffusionImg2ImgPipeline,
    StableDiffusionPipeline,
    UNet2DConditionModel,
    UniPCMultistepScheduler,
)
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

FOLDER = Path(__file__).parent / "image"
STARTER = Path(__file__).parents[2] / "assets" / "starter-image"

TEXT: dict[str, dict[str, Any]] = {
    "text-vitl": {"hidden_size": 24, "intermediate_size": 96, "num_hidden_layers": 3, "heads": 2},
    "text-openclip": {"hidden_size": 32, "intermediate_size": 80, "heads": 4, "hidden_act": "gelu"},
    "text-bigg": {"hidden_size": 40, "heads": 5, "hidden_act": "gelu", "projection_dim": 24},
}

UNETS: dict[str, dict[str, Any]] = {
    "unet-sd1": {"cross_attention_dim": 24, "attention_head_dim": 2},
    "unet-sd2": {
        "block_out_channels": (16, 24),
        "cross_attention_dim": 32,
        "attention_head_dim": [2, 3],
        "use_linear_projection": True,
    },
    "unet-sdxl": {
        "block_out_channels": (8, 16, 24),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "cross_attention_dim": 64,
        "attention_head_dim": [1, 2, 3],
        "transformer_layers_per_block": [1, 2, 2],
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 8,
        "projection_class_embeddings_input_dim": 24 + 6 * 8,
    },
    "unet-starter": {
        "in_channels": 8,
        "out_channels": 8,
        "block_out_channels": (16, 24),
        "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        "layers_per_block": 2,
        "cross_attention_dim": 24,
        "attention_head_dim": 2,
    },
    "unet-lcm": {
        "block_out_channels": (8, 16),
        "cross_attention_dim": 24,
        "attention_head_dim": 1,
        "time_cond_proj_dim": 12,
    },
}


def randomised(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Weights of variance 1 / fan-in, gains around 1, biases around 0; none at its default."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim > 1:
            value = noise * parameter[0].numel() ** -0.5
        elif name.endswith("bias"):
            value = noise * 0.1
        else:
            value = 1 + noise * 0.2
        parameter.data = value.half().float()
    return model.eval()


def save(name: str, model: Any, expected: dict[str, Any]) -> None:
    """Write config.json, model.safetensors (f16) and expected.npz."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config.to_dict() if hasattr(model.config, "to_dict") else dict(model.config)
    left_out = ("_name_or_path", "_use_default_values")
    plain = {k: v for k, v in config.items() if k not in left_out and v is not None}
    text = json.dumps(plain, indent=1, default=list, sort_keys=True)
    (folder / "config.json").write_text(text + "\n")
    skip = "position_ids"
    state = {k: v.half().contiguous() for k, v in model.state_dict().items() if skip not in k}
    if "text_projection.weight" in state or isinstance(model, CLIPTextModel):
        state = {text_key(k): v for k, v in state.items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    arrays = {k: v.detach().numpy() if torch.is_tensor(v) else v for k, v in expected.items()}
    np.savez_compressed(folder / "expected.npz", **arrays)


def text_key(name: str) -> str:
    """The key as files have it; newer transformers leave the prefix out."""
    plain = name.startswith(("text_model.", "text_projection"))
    return name if plain else f"text_model.{name}"


def make_text(name: str, options: dict[str, Any], seed: int) -> None:
    """Hidden states of every depth, the normed last one, and the pooled and projected ones."""
    heads = options.pop("heads")
    defaults = {
        "vocab_size": 101,
        "intermediate_size": 72,
        "num_hidden_layers": 3,
        "max_position_embeddings": 16,
        "hidden_act": "quick_gelu",
        "bos_token_id": 99,
        "eos_token_id": 100,
        "pad_token_id": 100,
    }
    config = CLIPTextConfig(**{**defaults, **options}, num_attention_heads=heads)
    projected = "projection_dim" in options
    kind = CLIPTextModelWithProjection if projected else CLIPTextModel
    model = randomised(kind(config), seed)
    tokens = np.full((2, 16), 100, np.int64)
    tokens[:, 0] = 99
    tokens[0, 1:8] = [3, 14, 15, 92, 65, 35, 89]
    tokens[1, 1:4] = [27, 18, 28]
    with torch.no_grad():
        out = model(torch.from_numpy(tokens), output_hidden_states=True)
    expected = {"tokens": tokens, "last_hidden_state": out.last_hidden_state}
    expected |= {f"hidden_{i}": state for i, state in enumerate(out.hidden_states)}
    expected["pooled"] = out.text_embeds if projected else out.pooler_output
    save(name, model, expected)


def make_unet(name: str, options: dict[str, Any], seed: int) -> None:
    """One prediction of two pictures at two time steps, 12 x 8 latents."""
    defaults = {
        "sample_size": 8,
        "in_channels": 4,
        "out_channels": 4,
        "block_out_channels": (16, 32),
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "layers_per_block": 1,
        "norm_num_groups": 8,
    }
    model = randomised(UNet2DConditionModel(**{**defaults, **options}), seed)
    generator = torch.Generator().manual_seed(seed + 1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    latents = normal(2, model.config.in_channels, 12, 8)
    text = normal(2, 16, model.config.cross_attention_dim)
    more: dict[str, Any] = {}
    extra: dict[str, torch.Tensor] = {}
    if model.config.addition_embed_type:
        sizes = torch.tensor([[96.0, 64, 0, 0, 96, 64], [80, 80, 8, 4, 96, 64]])
        extra = {"text_embeds": normal(2, 24), "time_ids": sizes}
        more["added_cond_kwargs"] = extra
    if model.config.time_cond_proj_dim:
        extra = {"guidance": normal(2, model.config.time_cond_proj_dim)}
        more["timestep_cond"] = extra["guidance"]
    expected: dict[str, Any] = {"latents": latents, "text": text, **extra}
    for step in (981, 20):
        with torch.no_grad():
            out = model(latents, torch.tensor(step), encoder_hidden_states=text, **more).sample
        expected[f"out_{step}"] = out
    if name == "unet-sd1":  # a size that does not halve evenly
        expected["odd_latents"] = normal(1, model.config.in_channels, 7, 9)
        with torch.no_grad():
            odd = model(
                expected["odd_latents"], torch.tensor(500), encoder_hidden_states=text[:1]
            ).sample
        expected["odd_out"] = odd
    save(name, model, expected)


def make_vae(seed: int) -> None:
    """An AutoencoderKL: moments of two pictures, and two latents decoded."""
    model = AutoencoderKL(
        block_out_channels=(16, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=32,
        scaling_factor=0.5,
    )
    randomised(model, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    pictures = torch.randn((2, 3, 24, 16), generator=generator).clamp(-1, 1)
    latents = torch.randn((2, 4, 12, 8), generator=generator)
    with torch.no_grad():
        moments = model.encode(pictures).latent_dist.parameters
        decoded = model.decode(latents).sample
    save(
        "vae-kl",
        model,
        {"pictures": pictures, "moments": moments, "latents": latents, "decoded": decoded},
    )


def make_tiny_vae(seed: int) -> None:
    """An AutoencoderTiny."""
    model = AutoencoderTiny(
        encoder_block_out_channels=(16, 16, 16),
        decoder_block_out_channels=(16, 16, 16),
        num_encoder_blocks=(1, 2, 1),
        num_decoder_blocks=(2, 1, 1),
        latent_channels=4,
    )
    randomised(model, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    pictures = torch.randn((2, 3, 24, 16), generator=generator).clamp(-1, 1)
    latents = torch.randn((2, 4, 6, 4), generator=generator)
    with torch.no_grad():
        encoded = model.encode(pictures).latents
        decoded = model.decode(latents).sample
    save(
        "vae-tiny",
        model,
        {"pictures": pictures, "encoded": encoded, "latents": latents, "decoded": decoded},
    )


def samplers(config: Any) -> Iterator[tuple[str, Any]]:
    """Every sampler that draws no noise of its own, as the app calls it."""
    yield "ddim", DDIMScheduler.from_config(config)
    yield "euler", EulerDiscreteScheduler.from_config(config)
    yield "heun", HeunDiscreteScheduler.from_config(config)
    yield "dpmpp_2m", DPMSolverMultistepScheduler.from_config(config)
    yield (
        "dpmpp_2m_karras",
        DPMSolverMultistepScheduler.from_config(config, use_karras_sigmas=True),
    )
    yield "unipc", UniPCMultistepScheduler.from_config(config)


def latents_of(call: Callable[..., Any], **options: Any) -> np.ndarray:
    return call(output_type="latent", **options).images.numpy()


def make_starter() -> None:
    """The starter model draws one prompt: 6 steps of every sampler, 20 of DDIM, from an image."""
    torch.set_num_threads(2)
    pipe = StableDiffusionPipeline.from_pretrained(STARTER, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    noise = np.random.Generator(np.random.PCG64(7)).standard_normal((1, 8, 16, 16), np.float32)
    common = {"height": 128, "width": 128, "guidance_scale": 4.5}
    config = pipe.scheduler.config
    arrays: dict[str, np.ndarray] = {"noise": noise}
    for name, scheduler in samplers(config):
        pipe.scheduler = scheduler
        start = torch.from_numpy(noise)
        arrays[f"{name}_6"] = latents_of(
            pipe, prompt="a red apple", latents=start, num_inference_steps=6, **common
        )
    pipe.scheduler = DDIMScheduler.from_config(config)
    start = torch.from_numpy(noise)
    final = latents_of(pipe, prompt="a red apple", latents=start, num_inference_steps=20, **common)
    picture = decoded(pipe, final)
    arrays |= {"ddim_20": final, "picture": picture}
    plain = {**common, "guidance_scale": 1.0}
    arrays["unguided_6"] = latents_of(
        pipe, prompt="a red apple", latents=start, num_inference_steps=6, **plain
    )
    arrays |= from_image(pipe, picture, noise)
    np.savez_compressed(FOLDER / "starter.npz", **arrays)


def decoded(pipe: Any, latents: np.ndarray) -> np.ndarray:
    """Latents to uint8 [h, w, 3]."""
    with torch.no_grad():
        image = pipe.vae.decode(torch.from_numpy(latents) / pipe.vae.config.scaling_factor).sample
    rgb = (image / 2 + 0.5).clamp(0, 1)[0].permute(1, 2, 0).numpy()
    return (rgb * 255).round().astype(np.uint8)


class FixedNoise:
    """Stands in for the pipeline's random numbers: the encoder's mean, then our noise."""

    def __init__(self, noise: np.ndarray) -> None:
        self._noise = noise

    def __enter__(self) -> None:
        from diffusers.pipelines.stable_diffusion import (
            pipeline_stable_diffusion_img2img as img2img,
        )

        def randn(shape: Any, **_: Any) -> torch.Tensor:
            assert tuple(shape) == self._noise.shape
            return torch.from_numpy(self._noise)

        def mean(output: Any, *_: Any, **__: Any) -> torch.Tensor:
            return output.latent_dist.mean

        self._module = img2img
        self._kept = img2img.randn_tensor, img2img.retrieve_latents
        img2img.randn_tensor, img2img.retrieve_latents = randn, mean

    def __exit__(self, *_: object) -> None:
        self._module.randn_tensor, self._module.retrieve_latents = self._kept


def from_image(pipe: Any, picture: np.ndarray, noise: np.ndarray) -> dict[str, np.ndarray]:
    """Image to image, and inpainting of the left half, of the picture with another prompt."""
    image = torch.from_numpy(picture.astype(np.float32) / 255).permute(2, 0, 1)[None]
    again = StableDiffusionImg2ImgPipeline(**pipe.components, requires_safety_checker=False)
    again.set_progress_bar_config(disable=True)
    options = {"guidance_scale": 4.5, "num_inference_steps": 10, "strength": 0.6}
    found: dict[str, np.ndarray] = {}
    with FixedNoise(noise), torch.no_grad():
        found["img2img"] = latents_of(again, prompt="a green apple", image=image, **options)
        found["init_latents"] = (
            pipe.vae.encode(image * 2 - 1).latent_dist.mean * pipe.vae.config.scaling_factor
        ).numpy()
        # The inpainting pipeline takes only 4 latent channels, so its blending is done here.
        kept = torch.from_numpy(found["init_latents"])
        mask = torch.zeros((1, 1, 16, 16))
        mask[..., :8] = 1

        def blend(pipe: Any, i: int, _: Any, values: dict[str, Any]) -> dict[str, Any]:
            steps = pipe.scheduler.timesteps[-6:]
            known = kept
            if i + 1 < len(steps):
                known = pipe.scheduler.add_noise(
                    kept, torch.from_numpy(noise), steps[i + 1 : i + 2]
                )
            return {"latents": (1 - mask) * known + mask * values["latents"]}

        found["inpaint"] = latents_of(
            again, prompt="a green apple", image=image, callback_on_step_end=blend, **options
        )
    return found


def main() -> None:
    """Make what the first argument names."""
    FOLDER.mkdir(exist_ok=True)
    if sys.argv[1] == "starter":
        make_starter()
        return
    for seed, (name, options) in enumerate(TEXT.items()):
        make_text(name, dict(options), 100 + seed)
    for seed, (name, options) in enumerate(UNETS.items()):
        make_unet(name, options, 200 + seed)
    make_vae(300)
    make_tiny_vae(400)


if __name__ == "__main__":
    main()
