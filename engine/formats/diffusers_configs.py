"""Configurations of picture networks, as data: read from JSON, checked, defaults filled in.

The names of the fields follow diffusers' JSON where that is clear. Per-block values are tuples
with one entry for each down block; up blocks run through them in reverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from engine.formats.errors import CorruptFile, UnsupportedFile

Config = Mapping[str, Any]

MAX_CHANNELS = 1 << 16
MAX_BLOCKS = 16

# Options of UNet2DConditionModel that change the network, with the values that are run.
_UNET_ONLY: Mapping[str, tuple[Any, ...]] = {
    "act_fn": ("silu", "swish"),
    "addition_embed_type": (None, "text_time"),
    "attention_type": ("default",),
    "center_input_sample": (False,),
    "class_embed_type": (None,),
    "class_embeddings_concat": (False,),
    "conv_in_kernel": (3,),
    "conv_out_kernel": (3,),
    "cross_attention_norm": (None,),
    "downsample_padding": (1,),
    "dual_cross_attention": (False,),
    "encoder_hid_dim": (None,),
    "encoder_hid_dim_type": (None,),
    "mid_block_only_cross_attention": (None, False),
    "mid_block_scale_factor": (1, 1.0),
    "mid_block_type": ("UNetMidBlock2DCrossAttn",),
    "num_class_embeds": (None,),
    "only_cross_attention": (False,),
    "resnet_out_scale_factor": (1, 1.0),
    "resnet_skip_time_act": (False,),
    "resnet_time_scale_shift": ("default",),
    "reverse_transformer_layers_per_block": (None,),
    "time_embedding_act_fn": (None,),
    "time_embedding_type": ("positional",),
    "timestep_post_act": (None,),
    "class_conditional": (None, False),
}


@dataclass(frozen=True)
class UNetConfig:
    """The denoiser, diffusers' UNet2DConditionModel.

    ``heads`` and ``transformer_layers`` count for each down block (0 where it has no attention);
    ``added_dim`` is the width of the added embedding's input (SDXL: pooled text and six sizes), or
    0; ``time_cond_dim`` the width of the guidance embedding of LCM models, or 0.
    """

    in_channels: int
    out_channels: int
    block_out_channels: tuple[int, ...]
    down_attention: tuple[bool, ...]
    up_attention: tuple[bool, ...]
    layers_per_block: tuple[int, ...]
    heads: tuple[int, ...]
    transformer_layers: tuple[int, ...]
    cross_attention_dim: int
    use_linear_projection: bool
    norm_groups: int
    norm_eps: float
    flip_sin_to_cos: bool
    freq_shift: float
    added_dim: int
    added_time_dim: int
    time_cond_dim: int
    sample_size: int

    @property
    def time_embed_dim(self) -> int:
        """Width of the time embedding."""
        return self.block_out_channels[0] * 4


@dataclass(frozen=True)
class VaeConfig:
    """The autoencoder, diffusers' AutoencoderKL."""

    in_channels: int
    out_channels: int
    latent_channels: int
    block_out_channels: tuple[int, ...]
    layers_per_block: int
    norm_groups: int
    mid_attention: bool
    quant_conv: bool
    post_quant_conv: bool
    scaling_factor: float
    shift_factor: float
    force_upcast: bool
    sample_size: int

    @property
    def factor(self) -> int:
        """Pixels a latent stands for, along one side."""
        return 1 << (len(self.block_out_channels) - 1)


@dataclass(frozen=True)
class TinyVaeConfig:
    """The tiny autoencoder, diffusers' AutoencoderTiny (TAESD)."""

    in_channels: int
    out_channels: int
    latent_channels: int
    encoder_channels: tuple[int, ...]
    decoder_channels: tuple[int, ...]
    encoder_blocks: tuple[int, ...]
    decoder_blocks: tuple[int, ...]
    scaling_factor: float
    latent_magnitude: float
    latent_shift: float

    @property
    def factor(self) -> int:
        """Pixels a latent stands for, along one side."""
        return 1 << (len(self.decoder_blocks) - 1)


@dataclass(frozen=True)
class TextConfig:
    """A CLIP text encoder. ``projection_dim`` is 0 for one without a pooled, projected output."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    positions: int
    act: str
    norm_eps: float
    projection_dim: int
    eos_id: int


@dataclass(frozen=True)
class _Fields:
    """Checked access to the values of one JSON object."""

    data: Config
    label: str

    def bad(self, key: str, want: str) -> CorruptFile:
        found = str(self.data.get(key))[:60]
        return CorruptFile(f"{self.label} says {key} = {found}, and {want} is needed.")

    def integer(self, key: str, default: int, least: int = 1, most: int = MAX_CHANNELS) -> int:
        value = self.data.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.bad(key, f"a whole number from {least} to {most:,}")
        return value

    def number(self, key: str, default: float) -> float:
        value = self.data.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
            raise self.bad(key, "a number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.data.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.bad(key, "true or false")
        return value

    def integers(self, key: str, default: tuple[int, ...], most: int = MAX_CHANNELS) -> Any:
        """A tuple of 1 to MAX_BLOCKS positive whole numbers."""
        value = self.data.get(key)
        value = default if value is None else value
        if not isinstance(value, list | tuple):
            raise self.bad(key, "a list of whole numbers")
        items = tuple(cast("tuple[Any, ...]", value))
        sound = all(type(item) is int and 1 <= item <= most for item in items)
        if not sound or not 1 <= len(items) <= MAX_BLOCKS:
            raise self.bad(key, f"a list of 1 to {MAX_BLOCKS} whole numbers up to {most:,}")
        return items

    def per_block(self, key: str, default: int, blocks: int) -> tuple[int, ...]:
        """One whole number for every block, given as one for all or as a list."""
        value = self.data.get(key)
        if isinstance(value, list | tuple):
            items = cast("tuple[int, ...]", self.integers(key, (), 4096))
            if len(items) != blocks:
                raise self.bad(key, f"a list of {blocks} numbers, one for each block,")
            return items
        return (self.integer(key, default, 1, 4096),) * blocks

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.data.get(key)
        value = default if value is None else value
        items: tuple[Any, ...] = ()
        if isinstance(value, list | tuple):
            items = tuple(cast("list[Any]", value))
        sound = all(isinstance(item, str) for item in items)
        if not sound or not 1 <= len(items) <= MAX_BLOCKS:
            raise self.bad(key, "a list of block names")
        return cast("tuple[str, ...]", items)

    def side(self, key: str, default: int) -> int:
        """A square's side; of a pair the longer."""
        value = self.data.get(key)
        if isinstance(value, list | tuple):
            return max(cast("tuple[int, ...]", self.integers(key, ())))
        return self.integer(key, default)


def read_unet_config(data: Config, label: str = "The UNet's config.json") -> UNetConfig:
    """Check a UNet2DConditionModel's JSON. Raises UnsupportedFile for options that are not run."""
    fields = _Fields(data, label)
    for key, allowed in _UNET_ONLY.items():
        value = data.get(key, allowed[0])
        if value not in allowed and value is not None:
            raise UnsupportedFile(
                f"{label} asks for {key} = {str(value)[:60]}, a kind of UNet that Driftwood does "
                "not run. It runs those of Stable Diffusion 1, 2 and XL."
            )
    channels = fields.integers("block_out_channels", (320, 640, 1280, 1280))
    blocks = len(channels)
    down = _attention(fields, "down_block_types", "DownBlock2D", blocks)
    up = _attention(fields, "up_block_types", "UpBlock2D", blocks)
    head_key = "num_attention_heads" if data.get("num_attention_heads") else "attention_head_dim"
    heads = fields.per_block(head_key, 8, blocks)
    depth = fields.per_block("transformer_layers_per_block", 1, blocks)
    cross = fields.per_block("cross_attention_dim", 1280, blocks)
    if len(set(cross)) > 1:
        raise UnsupportedFile(f"{label} gives its blocks text of different widths: {cross}.")
    added = data.get("addition_embed_type") == "text_time"
    config = UNetConfig(
        in_channels=fields.integer("in_channels", 4),
        out_channels=fields.integer("out_channels", 4),
        block_out_channels=channels,
        down_attention=down,
        up_attention=up,
        layers_per_block=fields.per_block("layers_per_block", 2, blocks),
        heads=heads,
        transformer_layers=depth,
        cross_attention_dim=cross[0],
        use_linear_projection=fields.flag("use_linear_projection", False),
        norm_groups=fields.integer("norm_num_groups", 32),
        norm_eps=fields.number("norm_eps", 1e-5),
        flip_sin_to_cos=fields.flag("flip_sin_to_cos", True),
        freq_shift=fields.number("freq_shift", 0.0),
        added_dim=fields.integer("projection_class_embeddings_input_dim", 0) if added else 0,
        added_time_dim=fields.integer("addition_time_embed_dim", 256) if added else 0,
        time_cond_dim=fields.integer("time_cond_proj_dim", 0, 0),
        sample_size=fields.side("sample_size", 64),
    )
    _check_division(fields, channels, heads, config.norm_groups)
    return config


def _attention(fields: _Fields, key: str, plain: str, blocks: int) -> tuple[bool, ...]:
    """Which blocks of a side attend to the text."""
    cross = f"CrossAttn{plain}"
    default = (cross,) * (blocks - 1) + (plain,)
    kinds = fields.texts(key, default if plain == "DownBlock2D" else default[::-1])
    unknown = [kind for kind in kinds if kind not in (plain, cross)]
    if unknown:
        raise UnsupportedFile(
            f"{fields.label} has a block of the kind {unknown[0][:60]}, which Driftwood does not "
            f"run. It runs {plain} and {cross}."
        )
    if len(kinds) != blocks:
        raise fields.bad(key, f"a list of {blocks} kinds, one for each block,")
    return tuple(kind == cross for kind in kinds)


def _check_division(
    fields: _Fields, channels: tuple[int, ...], heads: tuple[int, ...], groups: int
) -> None:
    for count, head_count in zip(channels, heads, strict=True):
        if count % groups:
            raise fields.bad("norm_num_groups", f"a divisor of {count} channels")
        if count % head_count:
            raise fields.bad("attention_head_dim", f"a divisor of {count} channels")


def read_vae_config(data: Config, label: str = "The VAE's config.json") -> VaeConfig:
    """Check an AutoencoderKL's JSON."""
    fields = _Fields(data, label)
    channels = fields.integers("block_out_channels", (64,))
    for key, kind in (
        ("down_block_types", "DownEncoderBlock2D"),
        ("up_block_types", "UpDecoderBlock2D"),
    ):
        kinds = fields.texts(key, (kind,) * len(channels))
        if set(kinds) != {kind} or len(kinds) != len(channels):
            raise UnsupportedFile(f"{label} has {key} = {list(kinds)}; only {kind} is run.")
    if data.get("act_fn", "silu") not in ("silu", "swish"):
        raise UnsupportedFile(f"{label} has the activation {data.get('act_fn')}; silu is run.")
    if data.get("latents_mean") or data.get("latents_std"):
        raise UnsupportedFile(f"{label} shifts each latent channel by itself, which is not run.")
    config = VaeConfig(
        in_channels=fields.integer("in_channels", 3),
        out_channels=fields.integer("out_channels", 3),
        latent_channels=fields.integer("latent_channels", 4),
        block_out_channels=channels,
        layers_per_block=fields.integer("layers_per_block", 1, 1, 16),
        norm_groups=fields.integer("norm_num_groups", 32),
        mid_attention=fields.flag("mid_block_add_attention", True),
        quant_conv=fields.flag("use_quant_conv", True),
        post_quant_conv=fields.flag("use_post_quant_conv", True),
        scaling_factor=fields.number("scaling_factor", 0.18215),
        shift_factor=fields.number("shift_factor", 0.0),
        force_upcast=fields.flag("force_upcast", True),
        sample_size=fields.side("sample_size", 512),
    )
    _check_division(fields, channels, (1,) * len(channels), config.norm_groups)
    return config


def read_tiny_vae_config(data: Config, label: str = "The VAE's config.json") -> TinyVaeConfig:
    """Check an AutoencoderTiny's JSON."""
    fields = _Fields(data, label)
    for key, value in (("act_fn", "relu"), ("upsampling_scaling_factor", 2)):
        if data.get(key, value) != value:
            raise UnsupportedFile(f"{label} has {key} = {data.get(key)}; {value} is run.")
    if data.get("upsample_fn", "nearest") != "nearest":
        raise UnsupportedFile(f"{label} enlarges by {data.get('upsample_fn')}; nearest is run.")
    encoder = fields.integers("encoder_block_out_channels", (64, 64, 64, 64))
    decoder = fields.integers("decoder_block_out_channels", (64, 64, 64, 64))
    if len({*encoder, *decoder}) > 1:
        raise UnsupportedFile(f"{label} has blocks of different widths, which are not run.")
    return TinyVaeConfig(
        in_channels=fields.integer("in_channels", 3),
        out_channels=fields.integer("out_channels", 3),
        latent_channels=fields.integer("latent_channels", 4),
        encoder_channels=encoder,
        decoder_channels=decoder,
        encoder_blocks=fields.per_block("num_encoder_blocks", 1, len(encoder))
        if "num_encoder_blocks" in data
        else (1, 3, 3, 3),
        decoder_blocks=fields.per_block("num_decoder_blocks", 1, len(decoder))
        if "num_decoder_blocks" in data
        else (3, 3, 3, 1),
        scaling_factor=fields.number("scaling_factor", 1.0),
        latent_magnitude=fields.number("latent_magnitude", 3.0),
        latent_shift=fields.number("latent_shift", 0.5),
    )


def read_text_config(
    data: Config, label: str = "The text encoder's config.json", *, projected: bool = False
) -> TextConfig:
    """Check a CLIPTextModel's JSON; ``projected`` when its file holds a text projection."""
    fields = _Fields(data, label)
    kind = data.get("model_type", "clip_text_model")
    if kind not in ("clip_text_model", "clip"):
        raise UnsupportedFile(
            f"{label} is of the kind {str(kind)[:40]}, and Driftwood runs CLIP text encoders."
        )
    act = data.get("hidden_act", "quick_gelu")
    if act not in ("quick_gelu", "gelu"):
        raise UnsupportedFile(f"{label} has the activation {act}; quick_gelu and gelu are run.")
    hidden = fields.integer("hidden_size", 512)
    heads = fields.integer("num_attention_heads", 8)
    if hidden % heads:
        raise fields.bad("num_attention_heads", f"a divisor of {hidden}")
    vocab = fields.integer("vocab_size", 49408, 1, 1 << 22)
    return TextConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size", 2048, 1, 1 << 18),
        layers=fields.integer("num_hidden_layers", 12, 1, 256),
        heads=heads,
        positions=fields.integer("max_position_embeddings", 77, 3, 4096),
        act=act,
        norm_eps=fields.number("layer_norm_eps", 1e-5),
        projection_dim=fields.integer("projection_dim", 512) if projected else 0,
        eos_id=vocab - 1,
    )
