"""How a picture was made, in a few words, as far as its file tells. No Qt."""

from __future__ import annotations

import time
from pathlib import PurePath

from app.images.values import shortened, size_words
from app.storage.pictures import Picture
from app.storage.pictures_text import negative_of, pairs_of

LONGEST = 40  # letters of a value; files of other programs hold anything
FACTS = {"Seed": "seed {}", "Steps": "{} steps", "Sampler": "{}", "CFG scale": "guidance {}"}
INGREDIENTS = {
    "Model": "{}",
    "VAE": "VAE {}",
    "Clip skip": "CLIP skip {}",
    "Denoising strength": "change {}",
}


def facts_of(picture: Picture) -> str:
    """``128 x 128 · seed 17 · 20 steps · DPM++ 2M · guidance 4.5``."""
    pairs = pairs_of(picture.text)
    parts = [size_words(picture.width, picture.height)] if picture.width else []
    return " · ".join([*parts, *_told(pairs, FACTS)])


def ingredients_of(picture: Picture) -> str:
    """``starter-image · LoRA ink 0.8 · VAE soft · CLIP skip 2 · without blur``."""
    pairs = pairs_of(picture.text)
    parts = _told(pairs, INGREDIENTS)
    loras = [f"LoRA {_stem(name)} {weight}" for name, weight in _loras(pairs.get("Lora", ""))]
    parts[1:1] = loras
    negative = negative_of(picture.text)
    if negative:
        parts.append(f"without {negative}")
    return " · ".join(parts)


def tip_of(picture: Picture) -> str:
    """What a picture is, in a few lines."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(picture.modified / 1e9))
    lines = [picture.prompt[:300], facts_of(picture), ingredients_of(picture)[:300], when]
    return "\n".join(line for line in lines if line)


def _told(pairs: dict[str, str], forms: dict[str, str]) -> list[str]:
    return [
        form.format(shortened(_stem(pairs[name]) if name == "VAE" else pairs[name], LONGEST))
        for name, form in forms.items()
        if pairs.get(name)
    ]


def _loras(text: str) -> list[tuple[str, str]]:
    """Names and weights of ``a.safetensors:0.8, b.safetensors:1``."""
    made: list[tuple[str, str]] = []
    for one in filter(None, text.split(", ")):
        name, _, weight = one.rpartition(":")
        made.append((name, weight) if name else (weight, "1"))
    return made


def _stem(name: str) -> str:
    path = PurePath(name)
    return path.stem if path.suffix == ".safetensors" else name
