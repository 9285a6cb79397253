"""The orders whose pictures diffusers has drawn (tests/golden/make_pictures.py), by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from image.tiny_pipelines import HEIGHT, WIDTH

SEED = 41
SAID = "A red apple's photo, 35mm; café  —  猫?"  # what CLIP's own vocabulary cuts up
PROMPT, NEGATIVE = "a red apple", "sky"
SAMPLERS = (
    "ddim",
    "euler",
    "euler_a",
    "heun",
    "dpmpp_2m",
    "dpmpp_2m_karras",
    "dpmpp_sde",
    "unipc",
    "lcm",
)
LETTERS = "a b c d e f g h i j k l m n o p q r s t u v w x y z"  # 26 tokens
LONG = (f"{LETTERS} {LETTERS} a b c d e f g h i j k l m n o p q r s t u v w", "x y z red apple")


#: Kinds that are drawn in test_model_files.py and test_pretended_devices.py.
ELSEWHERE = ("sd1-file", "sdxl-file", "small")


@dataclass(frozen=True)
class Words:
    """A prompt as chunks of plain text; ``weights`` goes by position, the start token being 0."""

    chunks: tuple[str, ...]
    weights: dict[int, float] = field(default_factory=dict[int, float])


@dataclass(frozen=True)
class Case:
    """One order.

    Attributes:
        settings: of the order, by their names in ImageSettings.
        words, unwanted: what the prompts mean, where they are more than plain text.
        init, mask: whether it starts from :func:`start_picture`, and :func:`mask_picture`.
        loras: files of :mod:`image.tiny_loras` by name, with weights.
        other_vae: whether another autoencoder takes the place of the model's.
    """

    kind: str
    settings: dict[str, Any]
    words: Words | None = None
    unwanted: Words | None = None
    init: bool = False
    mask: bool = False
    loras: tuple[tuple[str, float], ...] = ()
    other_vae: bool = False

    @property
    def branches(self) -> int:
        """How often the denoiser runs for a picture at once."""
        return 1 if self.kind == "lcm" or self.settings["guidance"] in (0, 1) else 2


def by_kind(branches: int) -> list[str]:
    """The cases of folders, one kind after the other, so that each is loaded once."""
    names = [
        name
        for name, case in CASES.items()
        if case.branches == branches and case.kind not in ELSEWHERE
    ]

    def place(name: str) -> tuple[bool, str, bool]:
        case = CASES[name]
        return case.other_vae, case.kind, bool(case.loras)

    return sorted(names, key=place)


def order(sampler: str, steps: int = 4, guidance: float = 5.0, **more: Any) -> dict[str, Any]:
    """Settings of an order."""
    made = {"prompt": PROMPT, "negative": NEGATIVE, "sampler": sampler, "steps": steps}
    return {**made, "guidance": guidance, "seed": SEED, "width": WIDTH, "height": HEIGHT, **more}


def skipping(kind: str, sampler: str, clip_skip: int) -> Case:
    """CLIP skip for both prompts, as A1111's tools have it; diffusers skips only the first's."""
    settings = order(sampler, clip_skip=clip_skip)
    return Case(kind, settings, Words((PROMPT,)), Words((NEGATIVE,)))


def _cases() -> Iterator[tuple[str, Case]]:
    for sampler in SAMPLERS:
        yield f"sd1 {sampler}", Case("sd1", order(sampler))
    yield "sd1 unguided", Case("sd1", order("euler", guidance=1.0))
    yield "sd1 clip-skip", skipping("sd1", "ddim", 2)
    yield "sd1 clip-skip 3", skipping("sd1", "ddim", 3)
    for sampler in ("ddim", "euler_a", "heun", "dpmpp_2m", "dpmpp_sde", "unipc", "lcm"):
        settings = order(sampler, 5, strength=0.6)
        yield f"sd1 from a picture {sampler}", Case("sd1", settings, init=True)
    for sampler in ("ddim", "euler_a", "dpmpp_2m_karras"):
        settings = order(sampler, 5, strength=0.6)
        yield f"sd1 inpainting {sampler}", Case("sd1", settings, init=True, mask=True)
    yield (
        "sd1 weighted",
        Case(
            "sd1",
            order("ddim", prompt="a (red:1.6) [apple]", negative="(sky:0.5)"),
            Words((PROMPT,), {2: 1.6, 3: 1 / 1.1}),
            Words((NEGATIVE,), {1: 0.5}),
        ),
    )
    yield (
        "sd1 long",
        Case("sd1", order("ddim", prompt=" ".join(LONG)), Words(LONG), Words((NEGATIVE, ""))),
    )
    for name, loras in LORAS.items():
        yield f"sd1 lora {name}", Case("sd1", order("ddim"), loras=loras)
    yield "sd1 other vae", Case("sd1", order("ddim"), other_vae=True)
    yield "taesd", Case("taesd", order("ddim", guidance=1.0))
    settings = order("ddim", guidance=1.0, strength=0.8)
    yield "taesd from a picture", Case("taesd", settings, init=True)
    for sampler in ("ddim", "euler", "dpmpp_2m_karras", "unipc"):
        yield f"sd2 {sampler}", Case("sd2", order(sampler))
    yield "sd2 clip-skip", skipping("sd2", "ddim", 2)
    yield (
        "sd2 weighted",
        Case(
            "sd2",
            order("ddim", prompt="a (red) apple"),
            Words((PROMPT,), {2: 1.1}),
            Words((NEGATIVE,)),
        ),
    )
    for sampler in ("ddim", "euler", "euler_a", "dpmpp_2m", "unipc", "lcm"):
        yield f"zero-snr {sampler}", Case("zero-snr", order(sampler))
    yield "zero-snr from a picture", Case("zero-snr", order("ddim", strength=0.8), init=True)
    yield "sdxl euler", Case("sdxl", order("euler"))
    yield "sdxl dpmpp_2m_karras", Case("sdxl", order("dpmpp_2m_karras"))
    yield "sdxl without a negative prompt", Case("sdxl", order("euler", negative=""))
    yield "sdxl-words without a negative prompt", Case("sdxl-words", order("euler", negative=""))
    yield "sdxl clip-skip", skipping("sdxl", "euler", 2)
    yield "sdxl from a picture", Case("sdxl", order("euler", strength=0.6), init=True)
    yield "sdxl lora", Case("sdxl", order("euler"), loras=(("sdxl", 0.8),))
    for steps in (1, 2, 4):
        yield f"sd-turbo {steps}", Case("sd-turbo", order("euler", steps, 0.0))
        yield f"sdxl-turbo {steps}", Case("sdxl-turbo", order("euler_a", steps, 0.0))
    yield (
        "sd-turbo from a picture",
        Case("sd-turbo", order("euler", 2, 0.0, strength=0.5), init=True),
    )
    for guidance in (1.5, 8.0):
        yield f"lcm {guidance}", Case("lcm", order("lcm", guidance=guidance))
    for kind in ("sd1-file", "sdxl-file"):
        yield kind, Case(kind, order("euler", 2, 1.0, prompt=SAID))
    yield "small", Case("small", order("euler", 2, 1.0))
    yield "lcm one step", Case("lcm", order("lcm", 1, 8.0))
    yield "lcm from a picture", Case("lcm", order("lcm", guidance=8.0, strength=0.5), init=True)


LORAS = {
    "kohya": (("kohya", 0.7),),
    "peft": (("peft", 1.0),),
    "both": (("kohya", 0.7), ("peft", -0.5)),
}
CASES: dict[str, Case] = dict(_cases())


def start_picture() -> np.ndarray:
    """A picture to start from, uint8 [HEIGHT, WIDTH, 3]: waves of colour."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH] / WIDTH
    waves = [np.sin(7 * x + 2 * y), np.sin(5 * y * y + 1), np.cos(9 * x * y)]
    return np.asarray(np.rint(127.5 + 110 * np.stack(waves, axis=-1)), np.uint8)


def mask_picture() -> np.ndarray:
    """A mask, uint8 [HEIGHT, WIDTH]: white where the picture is made anew, in whole latents."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[16:48, 24:] = 255
    return mask
