"""What an open text-to-image model consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.formats.diffusers_configs import TextConfig, TinyVaeConfig, UNetConfig, VaeConfig
from engine.formats.diffusers_weights import WeightSource
from engine.formats.errors import UnsupportedFile
from engine.formats.safetensors import SafetensorsFile

SCALE, SCALE_XL = 0.18215, 0.13025  # of latents, in Stable Diffusion 1 and 2, and in XL
SIZE_COUNT = 6  # SDXL's added embedding takes six numbers beside the pooled text


@dataclass(frozen=True)
class TokenizerFiles:
    """Where a CLIP tokenizer lies.

    Either ``json`` (tokenizer.json), or ``vocab`` and ``merges``, or nothing: then it is CLIP's own
    (a checkpoint brings none). ``pad`` is the text of the token that fills a prompt up;
    ``positions`` how many tokens the encoder takes, both ends included.
    """

    json: Path | None = None
    vocab: Path | None = None
    merges: Path | None = None
    pad: str = "<|endoftext|>"
    positions: int = 77


@dataclass(frozen=True)
class VaeFiles:
    """An autoencoder by itself: its checked configuration and its weights.

    ``states_scale`` says whether its files tell the scale of latents; a bare file does not, and
    takes that of the model it is used with.
    """

    config: VaeConfig | TinyVaeConfig
    weights: WeightSource
    files: tuple[SafetensorsFile, ...]
    states_scale: bool = False

    def scaled(self, scale: float, own: VaeConfig | None = None) -> VaeConfig | TinyVaeConfig:
        """The configuration to use with a model whose autoencoders usually scale by ``scale``.

        What a bare file's shapes cannot tell is as the model's ``own`` autoencoder states it.
        """
        if self.states_scale or isinstance(self.config, TinyVaeConfig):
            return self.config
        if own is None:
            return replace(self.config, scaling_factor=scale)
        alike = own.block_out_channels == self.config.block_out_channels
        groups = own.norm_groups if alike else self.config.norm_groups
        return replace(self.config, scaling_factor=own.scaling_factor, norm_groups=groups)


@dataclass(frozen=True)
class PipelineFiles:
    """An open text-to-image model.

    ``configs`` and ``weights`` go by component: "unet", "vae", "text_encoder" and, for SDXL,
    "text_encoder_2"; ``configs`` holds the JSON as found or worked out, ``unet``, ``vae`` and
    ``texts`` the checked forms. ``scheduler`` is the scheduler's JSON. ``notes`` are sentences for
    the person: what had to be guessed. ``preview`` is a tiny autoencoder for the live preview.
    """

    path: Path
    name: str
    kind: str  # "folder" or "checkpoint"
    family: str  # "sd1", "sd2", "sdxl" or "custom"
    configs: Mapping[str, Mapping[str, Any]]
    unet: UNetConfig
    vae: VaeConfig | TinyVaeConfig
    texts: tuple[TextConfig, ...]
    weights: Mapping[str, WeightSource]
    tokenizers: tuple[TokenizerFiles, ...]
    scheduler: Mapping[str, Any]
    notes: tuple[str, ...]
    files: tuple[SafetensorsFile, ...]
    preview: VaeFiles | None = None

    @property
    def reads_mask(self) -> bool:
        """Whether the UNet reads a mask and a masked picture beside the latents (inpainting)."""
        return self.unet.in_channels > self.vae.latent_channels

    @property
    def parameters(self) -> int:
        """Numbers in all networks together."""
        return sum(source.parameters for source in self.weights.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all weights as stored."""
        return sum(source.nbytes for source in self.weights.values())

    def close(self) -> None:
        """Let all files go."""
        for file in self.files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def family_of(unet: UNetConfig, encoders: int) -> str:
    """Which family of models a UNet belongs to, by the text it reads."""
    if unet.added_dim and encoders == 2:
        return "sdxl" if unet.cross_attention_dim == 2048 else "custom"
    return {768: "sd1", 1024: "sd2"}.get(unet.cross_attention_dim, "custom")


def _reader(unet: UNetConfig, latents: int) -> str:
    """What kind of model has a UNet that reads more than it makes, as far as that is known."""
    kinds = {
        2 * latents: "edits a picture by an instruction (InstructPix2Pix)",
        latents + 1: "reads a depth map",
        latents + 3: "enlarges a picture",
    }
    kind = kinds.get(unet.in_channels)
    return f", as one that {kind} does" if kind else ""


def check_parts(
    label: str,
    unet: UNetConfig,
    vae: VaeConfig | TinyVaeConfig,
    texts: tuple[TextConfig, ...],
) -> None:
    """Raises UnsupportedFile unless the networks of a model go together."""
    latents = vae.latent_channels
    if unet.out_channels != latents:
        raise UnsupportedFile(
            f"{label}: the UNet makes latents of {unet.out_channels} channels and the VAE reads "
            f"{latents}. They belong to different models."
        )
    masked = 2 * latents + 1 if latents % 4 == 0 else latents
    if unet.in_channels not in (latents, masked):
        raise UnsupportedFile(
            f"{label}: the UNet takes {unet.in_channels} channels{_reader(unet, latents)}. "
            f"Driftwood runs those that take the picture alone ({latents}) or a mask and a masked "
            f"picture besides ({2 * latents + 1})."
        )
    width = sum(text.hidden_size for text in texts)
    if unet.cross_attention_dim != width:
        raise UnsupportedFile(
            f"{label}: the UNet reads text of width {unet.cross_attention_dim}, and the text "
            f"encoders give {width}. They belong to different models."
        )
    added = texts[-1].projection_dim + SIZE_COUNT * unet.added_time_dim
    if unet.added_dim and unet.added_dim != added:
        raise UnsupportedFile(
            f"{label}: the UNet's added embedding has width {unet.added_dim}, and the pooled text "
            f"and sizes give {added}."
        )
