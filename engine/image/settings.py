"""What a person asks for: one frozen set of settings, checked when it is made."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from engine.formats.diffusers import PipelineFiles
from engine.formats.diffusers_json import read_json
from engine.formats.diffusers_prediction import PREDICTIONS
from engine.image.errors import SettingError
from engine.image.noise import MAX_SEED, check_seed
from engine.image.schedulers import MAX_STEPS, SAMPLERS, default_sampler

SIZE_STEP = 8
MIN_SIZE, MAX_SIZE = 64, 4096
MAX_COUNT = 64
MAX_GUIDANCE = 50.0
MAX_PROMPT = 10_000  # letters
MAX_LORAS = 16
MAX_LORA_WEIGHT = 10.0
MAX_CLIP_SKIP = 12
USUAL_STRENGTH, INPAINTING_STRENGTH = 0.75, 1.0
RANDOM_SEEDS = 1 << 32  # seeds that are drawn, short enough to be copied by hand


@dataclass(frozen=True)
class LoraChoice:
    """A LoRA file and how strongly it acts."""

    path: str
    weight: float = 1.0


@dataclass(frozen=True)
class ImageSettings:
    """One order of pictures.

    None stands for the model's own choice (size, steps, guidance, sampler, strength) or for a
    random seed.
    Picture k of ``count`` has the seed + k. ``guidance`` 0 or 1 means none. ``init`` is a picture
    to start from, of which ``strength`` (0 to 1] is taken away; ``mask`` a picture whose white
    parts are made anew. ``clip_skip`` 1 takes the text encoder's last layer, 2 the one before.
    ``latents`` is a .npy file of noise to start from. ``prediction`` says what the denoiser
    predicts, where the model's file does not. Raises SettingError for what cannot be.
    """

    prompt: str
    negative: str = ""
    width: int | None = None
    height: int | None = None
    steps: int | None = None
    guidance: float | None = None
    seed: int | None = None
    sampler: str | None = None
    count: int = 1
    init: str | None = None
    strength: float | None = None
    mask: str | None = None
    loras: tuple[LoraChoice, ...] = ()
    clip_skip: int = 1
    vae: str | None = None
    latents: str | None = None
    prediction: str | None = None

    def __post_init__(self) -> None:
        for name in ("prompt", "negative"):
            _check_text(name, getattr(self, name))
        for name in ("width", "height"):
            _check_size(name, getattr(self, name))
        if self.steps is not None:
            _check_whole("number of steps", self.steps, 1, MAX_STEPS)
        if self.guidance is not None:
            _check_number("guidance", self.guidance, 0, MAX_GUIDANCE)
        if self.seed is not None:
            check_seed(self.seed)
        if self.sampler is not None and self.sampler not in SAMPLERS:
            raise SettingError(
                f"There is no sampler named {str(self.sampler)[:40]!r}. Choose one of "
                f"{', '.join(SAMPLERS)}."
            )
        if self.prediction is not None and self.prediction not in PREDICTIONS:
            raise SettingError(
                f"There is no prediction named {str(self.prediction)[:40]!r}. Choose one of "
                f"{', '.join(PREDICTIONS)}."
            )
        _check_whole("number of pictures", self.count, 1, MAX_COUNT)
        if self.strength is not None:
            _check_number("strength", self.strength, 0, 1)
        if self.strength == 0:
            raise SettingError("The strength is 0, which leaves the picture as it is; choose more.")
        _check_whole("CLIP skip", self.clip_skip, 1, MAX_CLIP_SKIP)
        if self.mask is not None and self.init is None:
            raise SettingError("A mask needs a picture to start from. Choose one, or no mask.")
        _check_loras(self.loras)

    @property
    def guided(self) -> bool:
        """Whether the negative prompt is run beside the prompt."""
        return self.guidance is not None and self.guidance not in (0, 1)

    @property
    def latest_seed(self) -> int | None:
        """The seed of the last picture."""
        return None if self.seed is None else self.seed + self.count - 1

    def settled(self, defaults: ModelDefaults) -> ImageSettings:
        """With the model's choices in place of None, and a seed drawn where none was given."""
        seed = secrets.randbelow(RANDOM_SEEDS) if self.seed is None else self.seed
        if seed + self.count - 1 > MAX_SEED:
            raise SettingError(f"The seed is {seed}; with {self.count} pictures it runs too high.")

        def chosen(name: str) -> Any:
            own = getattr(self, name)
            return getattr(defaults, name) if own is None else own

        names = ("width", "height", "steps", "guidance", "sampler", "strength")
        return replace(self, seed=seed, **{name: chosen(name) for name in names})

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; :func:`settings_from` reads them again."""
        made = {field.name: getattr(self, field.name) for field in fields(self)}
        made["loras"] = [{"path": lora.path, "weight": lora.weight} for lora in self.loras]
        return made


@dataclass(frozen=True)
class ModelDefaults:
    """What a model does best where the person chose nothing."""

    width: int
    height: int
    steps: int
    guidance: float
    sampler: str
    strength: float = USUAL_STRENGTH


def settings_from(values: Mapping[str, Any]) -> ImageSettings:
    """Settings from plain values. Raises SettingError for unknown names and impossible values."""
    known = {field.name for field in fields(ImageSettings)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise SettingError(f"There is no picture setting named {str(unknown[0])[:40]!r}.")
    if "prompt" not in values:
        raise SettingError("A picture needs a prompt.")
    made = dict(values)
    made["loras"] = _loras_from(values.get("loras") or ())
    for name in ("init", "mask", "vae", "latents"):
        if made.get(name) is not None and not isinstance(made[name], str):
            raise SettingError(f"The {name} must be the path of a file.")
    return ImageSettings(**made)


def defaults_for(model: PipelineFiles) -> ModelDefaults:
    """The defaults of an open model: its own (about.json), or those of its family."""
    side = min(max(model.unet.sample_size * model.vae.factor, MIN_SIZE), MAX_SIZE)
    sampler = default_sampler(model.scheduler)
    made = ModelDefaults(
        side, side, 20, {"sdxl": 5.0, "custom": 4.5}.get(model.family, 7.5), sampler
    )
    if model.reads_mask:
        made = replace(made, strength=INPAINTING_STRENGTH)
    if "turbo" in model.name.lower():
        made = replace(made, steps=4 if sampler == "lcm" else 2, guidance=0.0)
        made = replace(made, width=min(side, 512), height=min(side, 512))
    elif sampler == "lcm" or model.unet.time_cond_dim:
        guidance = 8.0 if model.unet.time_cond_dim else 1.5
        made = replace(made, steps=6, guidance=guidance, sampler="lcm")
    about = model.path / "about.json"
    if model.kind == "folder" and about.is_file():
        made = _stated(made, read_json(about).get("defaults"))
    return made


def _stated(made: ModelDefaults, stated: Any) -> ModelDefaults:
    """Defaults that a model's about.json states, checked as a person's wishes are."""
    if not isinstance(stated, dict):
        return made
    known = {field.name for field in fields(ModelDefaults)}
    chosen = {
        str(name): value
        for name, value in cast("dict[Any, Any]", stated).items()
        if name in known and value is not None
    }
    settings_from({"prompt": "", **chosen})
    return replace(made, **chosen)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise SettingError(f"The {name} prompt must be text.".replace("prompt prompt", "prompt"))
    if len(value) > MAX_PROMPT:
        what = "prompt" if name == "prompt" else f"{name} prompt"
        raise SettingError(
            f"The {what} has {len(value):,} letters; at most {MAX_PROMPT:,} are read."
        )


def _check_size(name: str, value: object) -> None:
    if value is None:
        return
    _check_whole(name, value, MIN_SIZE, MAX_SIZE)
    size = cast("int", value)
    if size % SIZE_STEP:
        low = size // SIZE_STEP * SIZE_STEP
        raise SettingError(
            f"The {name} is {size}, which is not a multiple of {SIZE_STEP}. Choose "
            f"{max(low, MIN_SIZE)} or {min(low + SIZE_STEP, MAX_SIZE)}."
        )


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise SettingError(
            f"The {name} is {str(value)[:40]}; choose a whole number from {least} to {most:,}."
        )


def _check_number(name: str, value: object, least: float, most: float) -> None:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not sound or not least <= cast("float", value) <= most:
        raise SettingError(
            f"The {name} is {str(value)[:40]}; choose a number from {least:g} to {most:g}."
        )


def _check_loras(loras: tuple[LoraChoice, ...]) -> None:
    if len(loras) > MAX_LORAS:
        raise SettingError(f"{len(loras)} LoRA files are asked for; at most {MAX_LORAS} are used.")
    for lora in loras:
        _check_number("weight of a LoRA", lora.weight, -MAX_LORA_WEIGHT, MAX_LORA_WEIGHT)


def _loras_from(values: Any) -> tuple[LoraChoice, ...]:
    """LoRA choices from a list of {path, weight} or of "path:weight" texts."""
    if not isinstance(values, list | tuple):
        raise SettingError("The LoRA files must be a list.")
    made: list[LoraChoice] = []
    for value in cast("list[Any]", values):
        if isinstance(value, LoraChoice):
            made.append(value)
        elif isinstance(value, str):
            made.append(lora_from_text(value))
        elif isinstance(value, dict) and isinstance(cast("Any", value).get("path"), str):
            entry = cast("dict[str, Any]", value)
            made.append(LoraChoice(entry["path"], entry.get("weight", 1.0)))
        else:
            raise SettingError("A LoRA file is named by its path and a weight.")
    return tuple(made)


def lora_from_text(text: str) -> LoraChoice:
    """A choice written as FILE or FILE:WEIGHT (a drive letter's colon is no weight)."""
    path, colon, weight = text.rpartition(":")
    if not colon or "/" in weight or "\\" in weight:
        return LoraChoice(text)
    try:
        return LoraChoice(path, float(weight))
    except ValueError:
        raise SettingError(
            f"The weight of the LoRA {path[:60]!r} is {weight[:20]!r}; write FILE:0.8, say."
        ) from None
