"""The pictures that the fake worker draws, with their settings inside."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, PngImagePlugin


def picture(prompt: str, seed: int, clear: float, width: int, height: int) -> Image.Image:
    """A soft picture that depends on prompt and seed; clear 0 to 1."""
    number = (hash_of(prompt) * 31 + seed * 2654435761) & 0xFFFFFFFF
    first = tuple((number >> shift) & 255 for shift in (0, 8, 16))
    second = tuple(((number * 7) >> shift) & 255 for shift in (4, 12, 20))
    ramp = Image.linear_gradient("L").resize((width, height))
    image = Image.composite(
        Image.new("RGB", ramp.size, first), Image.new("RGB", ramp.size, second), ramp
    )
    draw = ImageDraw.Draw(image)
    side = min(width, height)
    left, top = (number % 5 + 1) * width // 12, (number % 7 + 1) * height // 14
    draw.ellipse((left, top, left + side // 2, top + side // 2), fill=second)
    if clear < 1:
        noise = Image.effect_noise((width, height), 90).convert("RGB")
        image = Image.blend(noise, image, clear)
    return image


def hash_of(text: str) -> int:
    """A number for a text, the same in every process."""
    return sum((place + 1) * ord(letter) for place, letter in enumerate(text))


def png(image: Image.Image) -> str:
    """A base64 PNG."""
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def save(path: Path, image: Image.Image, settings: dict[str, Any], model: str) -> None:
    """A PNG with its settings, in the form of other tools and in full."""
    info = PngImagePlugin.PngInfo()
    negative = settings.get("negative")
    text = settings["prompt"] + (f"\nNegative prompt: {negative}" if negative else "")
    text += f"\nSteps: {settings.get('steps', 20)}, Seed: {settings['seed']}, Model: {model}"
    info.add_itxt("parameters", text)
    info.add_itxt("driftwood", json.dumps({"settings": settings, "model": model}))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, pnginfo=info)
