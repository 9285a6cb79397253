"""The pictures of the fake worker: it draws coloured noise that clears up, step by step.

The first word of a prompt directs it: ``/error CODE`` fails with that code after two steps,
``/crash`` ends the process there, ``/hang`` stays in one step until stopped. Prompts have a token a
word and are cut at LIMIT. A pixel needs PIXEL bytes, of which FREE are free. A file's name tells
what it is: a LoRA (with ``xl`` in it one for SDXL), a VAE, or with ``bad`` in it none of both.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fake_models import DEVICE, MIB, installed

from engine.worker.protocol import ERROR_CODES, Request

if TYPE_CHECKING:
    from fake_worker import FakeWorker

STARTER = "starter-image"
OTHER = "stable-diffusion-1.5"
LIMIT = 32
PIXEL, FREE = 2048, 1024 * MIB
ROOM = (720, 720)  # a square that fits into FREE
NAMES = ("apple", "rocket", "heart", "ladybug")
PROMPTS = (
    "a red apple",
    "3d emoji of a rocket",
    "a purple heart",
    "clip art of a ladybug",
    "a pink cat",
    "castle",
)
INFO: dict[str, Any] = {
    "family": "custom",
    "size": [128, 128],
    "sizes": [[128, 128], [96, 128], [128, 96]],
    "steps": 20,
    "guidance": 4.5,
    "sampler": "dpmpp_2m",
    "samplers": ["dpmpp_2m", "euler", "euler_a", "ddim", "unipc", "lcm"],
    "prompts": list(PROMPTS),
    "good_at": "single objects, animals, plants and faces in the look of emoji and clip art",
    "token_limit": LIMIT,
    "clip_skip": 12,
    "img2img": True,
    "inpaint": True,
}

# a model for inpainting, of which the file does not say what it predicts
OWN: dict[str, dict[str, Any]] = {
    OTHER: {"strength": 1.0, "prediction": "v_prediction", "prediction_guessed": True},
}


def image_models() -> dict[str, dict[str, Any]]:
    """The picture models that are here."""
    fields = {"kind": "image", "family": "custom", "quant": "F16", "context": 0}
    return {
        STARTER: installed(STARTER, 47, title="Driftwood starter pictures", **fields),
        OTHER: installed(OTHER, 2035, **{**fields, "family": "sd1"}),
    }


class ImageParts:
    """The requests about pictures, for FakeWorker."""

    def do_image_info(self: FakeWorker, request: Request) -> None:
        if self.options.no_pictures:
            self.fail(request, "usage", 'There is no request "image_info".')
        elif request.fields["model"] in self.models:
            self.send(request, "done", info=INFO | OWN.get(request.fields["model"], {}))
        else:
            self.fail(request, "not_found", f'There is no model "{request.fields["model"]}".')

    def do_image_count(self: FakeWorker, request: Request) -> None:
        words = request.fields["prompt"].split()
        cut = " ".join(words[LIMIT - 2 :]) or None
        self.send(request, "done", tokens=len(words) + 2, limit=LIMIT, cut=cut)

    def do_image_fit(self: FakeWorker, request: Request) -> None:
        settings = request.fields["settings"]
        need = settings.get("width", 128) * settings.get("height", 128) * PIXEL
        fits = need <= FREE
        self.send(
            request,
            "done",
            need=need,
            more=need,
            free=FREE,
            evicts=None,
            problem="" if fits else "It is too large.",
            fits=None if fits else list(ROOM),
            tiled=False,
        )

    def do_image_part(self: FakeWorker, request: Request) -> None:
        name = Path(request.fields["path"]).stem
        if "bad" in name:
            self.fail(request, "model_file", f"{name} is no LoRA.")
        elif "xl" in name:
            problem = f"{name} was made for Stable Diffusion XL."
            self.send(request, "done", kind="lora", name=name, hint="", problem=problem)
        else:
            kind = "vae" if "vae" in name else "lora"
            self.send(request, "done", kind=kind, name=name, hint="", problem="")

    def do_image_settings(self: FakeWorker, request: Request) -> None:
        from PIL import Image

        path = Path(request.fields["path"])
        try:
            with Image.open(path) as image:
                text = image.info.get("driftwood")
        except OSError:
            self.fail(request, "not_found", f"{path.name} is not there.")
            return
        if text is None:
            self.fail(request, "model_file", f"{path.name} carries no settings.")
        else:
            own = json.loads(text)
            self.send(request, "done", settings=own["settings"], model=own.get("model", ""))

    def do_image(self: FakeWorker, request: Request) -> None:
        settings: dict[str, Any] = request.fields["settings"]
        kept, self.loaded_pictures = self.loaded_pictures, request.fields["model"]
        if kept != request.fields["model"]:
            for phase in ("reading", "uploading", "compiling"):
                for _ in self.steps(request, phase, 47 * MIB, 2):
                    continue
        seed = settings.get("seed", 1)
        total = settings.get("steps", 20)
        tokens = len(settings["prompt"].split()) + 2
        about = {"count": settings.get("count", 1), "tokens": tokens, "token_limit": LIMIT}
        self.send(request, "started", seed=seed, **about, cut=None, warnings=[])
        began = time.perf_counter()
        files: list[str] = []
        for index in range(settings.get("count", 1)):
            if not self.draw(request, settings, index, total):
                return
            path = self.keep(request, settings, index, files)
            width, height = settings.get("width", 128), settings.get("height", 128)
            fields = {"index": index, "path": str(path), "seed": seed + index}
            self.send(request, "picture", width=width, height=height, **fields)
        seconds = time.perf_counter() - began
        self.send(
            request,
            "done",
            files=files,
            seed=seed,
            seconds=seconds,
            seconds_per_step=seconds / total,
            model=request.fields["model"],
            device=DEVICE,
            backend="wgpu",
            peak_bytes=300 * MIB,
            warnings=[],
        )

    def draw(
        self: FakeWorker, request: Request, settings: dict[str, Any], index: int, total: int
    ) -> bool:
        """The steps of one picture; False if the request has ended."""
        from fake_drawing import picture, png  # needs Pillow, which most workers do without

        prompt = settings["prompt"]
        directive, _, argument = prompt.partition(" ")
        for step in range(1, total + 1):
            if self.wait(request, 3600.0 if directive == "/hang" else self.options.delay):
                self.fail(request, "cancelled", "Drawing was stopped.")
                return False
            if step == 3 and directive == "/crash":
                os._exit(3)
            if step == 3 and directive == "/error":
                code = argument if argument in ERROR_CODES else "internal"
                self.fail(request, code, f"A scripted failure ({code}).")
                return False
            wants_preview = request.fields.get("preview") and step < total
            size = min(settings.get("width", 128), 64), min(settings.get("height", 128), 64)
            image = picture(prompt, settings.get("seed", 1) + index, step / total, *size)
            self.send(
                request,
                "step",
                index=index,
                step=step,
                total=total,
                seconds_left=(total - step) * self.options.delay,
                preview=png(image) if wants_preview else None,
            )
        return True

    def keep(
        self: FakeWorker, request: Request, settings: dict[str, Any], index: int, files: list[str]
    ) -> Path:
        """Write a finished picture."""
        from fake_drawing import picture, save

        output = request.fields.get("output")
        folder = Path(request.fields.get("folder", "."))
        seed = settings.get("seed", 1) + index
        size = settings.get("width", 128), settings.get("height", 128)
        path = Path(output) if output else folder / f"{time.time_ns()}-{seed}.png"
        if output and index:
            path = path.with_name(f"{path.stem}-{index + 1}{path.suffix}")
        image = picture(settings["prompt"], seed, 1.0, *size)
        save(path, image, {**settings, "seed": seed}, request.fields["model"])
        files.append(str(path))
        return path
