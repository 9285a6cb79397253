"""Settings inside PNG files, in the form that A1111-style tools read and write.

The text "parameters" holds the prompt, a line "Negative prompt: ...", and a last line of names and
values ("Steps: 20, Sampler: DPM++ 2M Karras, CFG scale: 7, Seed: 1, Size: 512x512, ..."). It is
tEXt where Latin-1 can say it, iTXt in UTF-8 otherwise. A second text, "driftwood", holds the same
as JSON, so that a prompt which looks like that form comes back as it was. Files are named without
their folders: a picture that is passed on tells nothing of the person's disk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

from engine.image.errors import PictureFileError, SettingError
from engine.image.png_text import read_png_texts
from engine.image.schedulers import TITLES
from engine.image.settings import MAX_SEED, ImageSettings, LoraChoice, settings_from

KEYWORD, OWN_KEYWORD = "parameters", "driftwood"
NEGATIVE = "Negative prompt:"

_PAIR = re.compile(r'\s*(\w[\w \-/]*):\s*("(?:\\.|[^\\"])*"|[^,]*)(?:,|$)')
_LORA = re.compile(r"<lora:([^:<>]{1,200})(?::(-?\d*\.?\d+))?[^<>]*>")
_SIZE = re.compile(r"(\d{1,5})\s*x\s*(\d{1,5})")
_SAMPLERS = {title.casefold(): name for name, title in TITLES.items()} | {
    "dpm++ 2m sde": "dpmpp_sde",
    "dpm++ sde karras": "dpmpp_sde",
    "euler ancestral": "euler_a",
}


@dataclass(frozen=True)
class Recalled:
    """Settings found in a picture.

    ``model`` is the name of the model that made it; ``others`` the values of the settings line that
    Driftwood has no use for; ``notes`` say what could not be taken over.
    """

    settings: ImageSettings
    model: str = ""
    others: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()


def settings_text(settings: ImageSettings, *, model: str, version: str) -> str:
    """The A1111-style text of settled settings (of one picture: with its own seed)."""
    pairs: dict[str, Any] = {
        "Steps": settings.steps,
        "Sampler": TITLES.get(settings.sampler or "", settings.sampler),
        "CFG scale": _number(settings.guidance),
        "Seed": settings.seed,
        "Size": f"{settings.width}x{settings.height}" if settings.width else None,
        "Model": model,
        "Denoising strength": _number(settings.strength) if settings.init else None,
        "Clip skip": settings.clip_skip if settings.clip_skip > 1 else None,
        "VAE": _base(settings.vae),
        "Lora": ", ".join(f"{_base(lora.path)}:{lora.weight:g}" for lora in settings.loras),
        "Version": version,
    }
    line = ", ".join(f"{name}: {_quoted(value)}" for name, value in pairs.items() if _told(value))
    negative = f"\n{NEGATIVE} {settings.negative}" if settings.negative else ""
    return f"{settings.prompt}{negative}\n{line}"


def save_png(
    path: str | Path,
    pixels: NDArray[np.uint8],
    settings: ImageSettings,
    *,
    model: str,
    version: str,
) -> None:
    """Write a picture, uint8 [height, width, 3 or 4], with its settings inside."""
    info = PngImagePlugin.PngInfo()
    info.add_text(KEYWORD, _sayable(settings_text(settings, model=model, version=version)))
    own = {"model": model, "settings": _portable(settings), "version": version}
    info.add_text(OWN_KEYWORD, json.dumps(own))
    try:
        Image.fromarray(pixels).save(path, format="PNG", pnginfo=info)
    except OSError as error:
        raise PictureFileError(f"{Path(path).name} cannot be written: {error}.") from error


def read_settings(path: str | Path) -> Recalled:
    """The settings inside a PNG. Raises PictureFileError when there are none."""
    path = Path(path)
    texts = read_png_texts(path)
    own = _own(texts.get(OWN_KEYWORD, ""))
    if own is not None:
        return own
    if KEYWORD in texts:
        return parse_settings_text(texts[KEYWORD])
    if "workflow" in texts:
        raise PictureFileError(
            f"{path.name} carries a ComfyUI workflow, which Driftwood cannot turn into settings."
        )
    raise PictureFileError(f"{path.name} carries no settings.")


def parse_settings_text(text: str) -> Recalled:
    """Settings from an A1111-style text; what is missing stays the model's choice."""
    lines = text.strip("\n").split("\n")
    last = _PAIR.findall(lines[-1])
    is_line = len(last) >= 3 or any(name == "Steps" for name, _ in last)
    values = {name: _unquoted(value) for name, value in last} if is_line else {}
    words = lines[:-1] if is_line else lines
    start = next((i for i, line in enumerate(words) if line.startswith(NEGATIVE)), len(words))
    negative = "\n".join(words[start:]).removeprefix(NEGATIVE).strip()
    prompt, loras = _without_loras("\n".join(words[:start]).rstrip("\n"))
    notes: list[str] = []
    fields: dict[str, Any] = {"prompt": prompt, "negative": negative, "loras": loras}
    fields |= _taken(values, notes)
    fields["loras"] = loras or _listed_loras(values.pop("Lora", ""))
    made = _checked(fields, notes)
    model = values.pop("Model", "")
    return Recalled(made, model, values, tuple(notes))


def _taken(values: dict[str, str], notes: list[str]) -> dict[str, Any]:
    """The settings that the last line holds; they leave ``values``."""
    fields: dict[str, Any] = {}
    for name, key, kind in (
        ("Steps", "steps", int),
        ("Seed", "seed", int),
        ("CFG scale", "guidance", float),
        ("Denoising strength", "strength", float),
        ("Clip skip", "clip_skip", int),
    ):
        text = values.pop(name, None)
        if text is not None:
            try:
                fields[key] = kind(text)
            except ValueError:
                notes.append(f"{name} is {text[:40]!r}, which is no number.")
    size = _SIZE.fullmatch(values.pop("Size", "").strip())
    if size:
        fields |= {"width": int(size[1]), "height": int(size[2])}
    vae = values.pop("VAE", "")
    if vae not in ("", "None", "Automatic"):
        fields["vae"] = vae
    sampler = values.pop("Sampler", None)
    if sampler is not None:
        schedule = values.pop("Schedule type", "")
        named = sampler if schedule in ("", "Automatic") else f"{sampler} {schedule}"
        known = _SAMPLERS.get(named.casefold()) or _SAMPLERS.get(sampler.casefold())
        fields["sampler"] = known
        if known is None:
            notes.append(f"The sampler {named[:40]!r} is not one of Driftwood's.")
    return fields


def _checked(fields: dict[str, Any], notes: list[str]) -> ImageSettings:
    """Settings of these values; a value that cannot be is left to the model, with a note."""
    made = ImageSettings(prompt="")
    for name, value in fields.items():
        try:
            made = replace(made, **{name: value})
        except SettingError as error:
            notes.append(str(error))
    return made


def _own(text: str) -> Recalled | None:
    """Settings from our own JSON, or None when it is absent or not sound."""
    try:
        loaded: Any = json.loads(text)
        settings = settings_from(loaded["settings"])
        return Recalled(settings, str(loaded["model"]), {"Version": str(loaded["version"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _portable(settings: ImageSettings) -> dict[str, Any]:
    """Plain values without folders, and without the files that are not part of the look."""
    named = replace(
        settings,
        loras=tuple(LoraChoice(_base(lora.path), lora.weight) for lora in settings.loras),
        vae=_base(settings.vae) or None,
        init=_base(settings.init) or None,
        mask=_base(settings.mask) or None,
        latents=_base(settings.latents) or None,
        seed=min(settings.seed, MAX_SEED) if settings.seed is not None else None,
    )
    return named.as_dict()


def _base(path: str | None) -> str:
    """The file's name without its folders, whichever system wrote the path."""
    return PureWindowsPath(path).name if path else ""


def _told(value: Any) -> bool:
    return value is not None and value != ""


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _quoted(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if re.search(r'[,:\n"]', text) else text


def _unquoted(value: str) -> str:
    if not (len(value) >= 2 and value[0] == value[-1] == '"'):
        return value.strip()
    try:
        return str(cast("object", json.loads(value)))
    except ValueError:
        return value


def _sayable(text: str) -> str:
    """The text without half surrogate pairs, which no encoding can say."""
    return text.encode("utf-8", "replace").decode()


def _without_loras(prompt: str) -> tuple[str, tuple[LoraChoice, ...]]:
    """A prompt without its ``<lora:name:weight>`` tags, and those as choices."""
    loras = tuple(LoraChoice(name, float(weight or 1)) for name, weight in _LORA.findall(prompt))
    return (_LORA.sub("", prompt).strip() if loras else prompt), loras


def _listed_loras(text: str) -> tuple[LoraChoice, ...]:
    found: list[LoraChoice] = []
    for item in filter(None, text.split(", ")):
        name, _, weight = item.rpartition(":")
        try:
            found.append(LoraChoice(name, float(weight)))
        except ValueError:
            found.append(LoraChoice(item))
    return tuple(found)
