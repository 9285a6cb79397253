"""What the form holds, what a model offers, and how both become a request. No Qt."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

STEP = 8  # sizes are multiples of this
SMALLEST, LARGEST = 64, 4096
MOST_STEPS = 150
MOST_GUIDANCE = 20.0
MOST_COUNT = 16
SEEDS = 2**32  # random seeds, short enough to be copied by hand
MOST_SEED = 2**53 - 1
MOST_LORAS = 16
MOST_WEIGHT = 2.0  # of a LoRA; below zero it takes away what it would add
MOST_CLIP_SKIP = 12
STRENGTHS = (0.75, 1.0)  # what models begin with: most of them, and those for inpainting

# a sampler's name in requests -> its words, and what to expect of it
SAMPLERS: Mapping[str, tuple[str, str]] = {
    "dpmpp_2m": ("DPM++ 2M", "Quick and steady: a good first choice"),
    "dpmpp_2m_karras": ("DPM++ 2M Karras", "As DPM++ 2M, with more work on fine detail"),
    "unipc": ("UniPC", "Good with few steps"),
    "euler": ("Euler", "Simple and smooth"),
    "euler_a": ("Euler ancestral", "Livelier; more steps change the picture"),
    "dpmpp_sde": ("DPM++ SDE", "Livelier and richer, at twice the time a step"),
    "heun": ("Heun", "Exact, at twice the time a step"),
    "ddim": ("DDIM", "The classic; repeats exactly"),
    "lcm": ("LCM", "For models made to need 4 to 8 steps"),
}

# what a model predicts, in requests -> its words, and which models do
PREDICTIONS: Mapping[str, tuple[str, str]] = {
    "epsilon": ("Noise (epsilon)", "Most models"),
    "v_prediction": ("Velocity (v)", "Stable Diffusion 2 for 768 pixels, and models made of it"),
    "sample": ("Picture (sample)", "Few models"),
}


@dataclass(frozen=True)
class Lora:
    """A LoRA file and how strongly it acts."""

    path: str
    weight: float = 1.0


@dataclass(frozen=True)
class Values:
    """The form. seed None: another one each time; init, mask and vae: files, "" without."""

    prompt: str = ""
    negative: str = ""
    width: int = 512
    height: int = 512
    steps: int = 20
    guidance: float = 7.0
    seed: int | None = None
    sampler: str = ""
    count: int = 1
    init: str = ""
    strength: float = 0.75
    mask: str = ""
    loras: tuple[Lora, ...] = ()
    vae: str = ""
    clip_skip: int = 1
    prediction: str = ""  # one of PREDICTIONS; "": the model's own


@dataclass(frozen=True)
class Info:
    """What a picture model can do and does best, as ``image_info`` tells it.

    clip_skip: the most that it can be, 0 where the model has no use for it.
    prediction: what it predicts; prediction_guessed where its file does not tell.
    """

    model: str = ""
    family: str = ""
    width: int = 512
    height: int = 512
    sizes: tuple[tuple[int, int], ...] = ()
    steps: int = 20
    guidance: float = 7.0
    sampler: str = ""
    samplers: tuple[str, ...] = tuple(SAMPLERS)
    prompts: tuple[str, ...] = ()
    good_at: str = ""
    token_limit: int = 77
    clip_skip: int = 0
    strength: float = STRENGTHS[0]
    prediction: str = "epsilon"
    prediction_guessed: bool = False
    img2img: bool = True
    inpaint: bool = True


def info_from(model: str, fields_: Mapping[str, Any]) -> Info:
    """The facts of a model; what is missing or odd stays as it is usual."""
    width, height = _pair(fields_.get("size")) or (512, 512)
    sizes = tuple(pair for one in _items(fields_.get("sizes")) if (pair := _pair(one)))
    if (width, height) not in sizes:
        sizes = ((width, height), *sizes)
    samplers = tuple(str(one) for one in _items(fields_.get("samplers")))
    good = fields_.get("good_at") or ""
    return Info(
        model=model,
        family=str(fields_.get("family") or ""),
        width=width,
        height=height,
        sizes=sizes,
        steps=_whole(fields_.get("steps"), 1, MOST_STEPS, 20),
        guidance=_number(fields_.get("guidance"), 0, MOST_GUIDANCE, 7.0),
        sampler=str(fields_.get("sampler") or (samplers[0] if samplers else "")),
        samplers=samplers or tuple(SAMPLERS),
        prompts=tuple(str(one) for one in _items(fields_.get("prompts"))),
        good_at=good if isinstance(good, str) else "; ".join(str(one) for one in _items(good)),
        token_limit=_whole(fields_.get("token_limit"), 1, 10**6, 77),
        clip_skip=_whole(fields_.get("clip_skip"), 0, MOST_CLIP_SKIP, 0),
        strength=_number(fields_.get("strength"), 0.05, 1, STRENGTHS[0]),
        prediction=_prediction(fields_.get("prediction")) or "epsilon",
        prediction_guessed=bool(fields_.get("prediction_guessed", False)),
        img2img=bool(fields_.get("img2img", True)),
        inpaint=bool(fields_.get("inpaint", True)),
    )


def defaults_of(info: Info) -> Values:
    """The form as the model likes it."""
    return Values(
        width=info.width,
        height=info.height,
        steps=info.steps,
        guidance=info.guidance,
        sampler=info.sampler,
        strength=info.strength,
    )


def adapted(values: Values, info: Info) -> Values:
    """The person's words with another model's size, steps, guidance and sampler."""
    own = defaults_of(info)
    return replace(
        own,
        prompt=values.prompt,
        negative=values.negative,
        seed=values.seed,
        count=values.count,
        init=values.init if info.img2img else "",
        mask=values.mask if info.inpaint and info.img2img else "",
        strength=own.strength if values.strength in STRENGTHS else values.strength,
        loras=values.loras,
        vae=values.vae,
        clip_skip=min(values.clip_skip, max(info.clip_skip, 1)),
    )


def values_from(settings: Mapping[str, Any], base: Values) -> Values:
    """Values from a picture's or a kept form's settings; what they lack is as in ``base``."""

    def number(name: str, least: float, most: float) -> float:
        return _number(settings.get(name), least, most, getattr(base, name))

    seed = settings.get("seed")
    return Values(
        prompt=_words(settings, "prompt", base.prompt),
        negative=_words(settings, "negative", ""),
        width=snapped(_whole(settings.get("width"), SMALLEST, LARGEST, base.width)),
        height=snapped(_whole(settings.get("height"), SMALLEST, LARGEST, base.height)),
        steps=int(number("steps", 1, MOST_STEPS)),
        guidance=number("guidance", 0, MOST_GUIDANCE),
        seed=_whole(seed, 0, MOST_SEED, 0) if _is_number(seed) else None,
        sampler=_words(settings, "sampler", base.sampler) or base.sampler,
        count=_whole(settings.get("count"), 1, MOST_COUNT, 1),
        init=_words(settings, "init", ""),
        strength=number("strength", 0.05, 1),
        mask=_words(settings, "mask", ""),
        loras=_loras(settings.get("loras")),
        vae=_words(settings, "vae", ""),
        clip_skip=_whole(settings.get("clip_skip"), 1, MOST_CLIP_SKIP, 1),
        prediction=_prediction(settings.get("prediction")),
    )


def kept(values: Values) -> dict[str, Any]:
    """Plain values for the settings file; :func:`values_from` reads them again."""
    return asdict(values)


def order(values: Values, seed: int) -> dict[str, Any]:
    """The ``settings`` of an ``image`` request."""
    made: dict[str, Any] = {field.name: getattr(values, field.name) for field in fields(values)}
    made["seed"] = seed
    made["guidance"] = float(values.guidance)
    made["loras"] = [asdict(one) for one in values.loras] or None
    if values.clip_skip == 1:
        made["clip_skip"] = None
    if not values.init:
        made["mask"] = ""
        made["strength"] = None
    return {name: value for name, value in made.items() if value is not None and value != ""}


def random_seed() -> int:
    """A seed for one more try."""
    return secrets.randbelow(SEEDS)


def snapped(size: int) -> int:
    """The nearest size that a model can make."""
    return min(max(round(size / STEP) * STEP, SMALLEST), LARGEST)


def fitted_size(width: int, height: int, pixels: int) -> tuple[int, int]:
    """A size of about so many pixels in the shape of a picture, which may be 4 to 1 at most."""
    shape = min(max(width / max(1, height), 0.25), 4.0)
    return snapped(int((pixels * shape) ** 0.5)), snapped(int((pixels / shape) ** 0.5))


def sampler_words(name: str) -> str:
    """A sampler's name for people."""
    return SAMPLERS.get(name, (name, ""))[0]


def size_words(width: int, height: int) -> str:
    """``512 x 512`` with a real multiplication sign."""
    return f"{width} \N{MULTIPLICATION SIGN} {height}"


def shortened(text: str, most: int) -> str:
    """At most so many letters, with an ellipsis where something was left out."""
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def pictures_words(count: int) -> str:
    """``1 picture``, ``4 pictures``."""
    return "1 picture" if count == 1 else f"{count} pictures"


def _loras(value: object) -> tuple[Lora, ...]:
    """LoRA files from plain values; what makes no sense is left out."""
    made: list[Lora] = []
    for one in _items(value):
        path = one.get("path") if isinstance(one, Mapping) else None
        if isinstance(path, str) and path:
            weight = _number(one.get("weight"), -MOST_WEIGHT, MOST_WEIGHT, 1.0)
            made.append(Lora(path, round(weight, 2)))
    return tuple(made[:MOST_LORAS])


def _prediction(value: object) -> str:
    return value if isinstance(value, str) and value in PREDICTIONS else ""


def _words(settings: Mapping[str, Any], name: str, fallback: str) -> str:
    value = settings.get(name)
    return value if isinstance(value, str) else fallback


def _pair(value: object) -> tuple[int, int] | None:
    """A size from [w, h], "WxH" or one side."""
    sides: Sequence[Any] = ()
    if isinstance(value, str):
        sides = [int(part) for part in value.lower().split("x") if part.strip().isdigit()]
    elif _is_number(value):
        sides = [value, value]
    elif isinstance(value, list | tuple):
        sides = value
    if len(sides) != 2 or not all(map(_is_number, sides)):
        return None
    return snapped(int(sides[0])), snapped(int(sides[1]))


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number(value: Any, least: float, most: float, fallback: float) -> float:
    return min(max(float(value), least), most) if _is_number(value) else fallback


def _whole(value: Any, least: int, most: int, fallback: int) -> int:
    return min(max(int(value), least), most) if _is_number(value) else fallback
