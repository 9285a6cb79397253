"""Requests about pictures that use the GPU. They run on the engine's thread, on its device."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.models.errors import CancelledError
from engine.models.inspection import InstalledModel, model_details
from engine.models.store import Store
from engine.worker.backend import OpenPictures, PictureEngine
from engine.worker.engine_room import EngineRoom, free_bytes
from engine.worker.failures import DoesNotFitError, RequestError, code_of
from engine.worker.image_files import PictureFiles
from engine.worker.job import Job

if TYPE_CHECKING:
    from engine.image.settings import ImageSettings

TOGETHER: Final = 4  # pictures that are ordered at once; each is written as soon as these are done
SHAPES: Final = ("sd15", "sdxl")  # random weights to measure with, without a download
EIGHT_BITS: Final = 0.55  # of the 16-bit weights' bytes, for weights that are quantised on load


@dataclass(frozen=True)
class _Loaded:
    """The picture model on the GPU; ``vae`` is the separate autoencoder in it."""

    model: InstalledModel
    vae: str | None
    about: Mapping[str, Any]  # what PictureEngine.load returned


class ImageRoom:
    """The picture engine on the text engine's device, and the one picture model on it."""

    def __init__(self, store: Store, engine: EngineRoom, open_pictures: OpenPictures) -> None:
        self._store = store
        self._engine = engine
        self._open_pictures = open_pictures
        self._pictures: PictureEngine | None = None
        self._loaded: _Loaded | None = None

    @property
    def loaded_path(self) -> Path | None:
        """The picture model on the GPU. Any thread may ask."""
        loaded = self._loaded
        return loaded.model.path if loaded else None

    @property
    def is_open(self) -> bool:
        """Whether there is a device to plan for. Any thread may ask."""
        return self._pictures is not None

    def unload(self) -> str | None:
        """Free the picture model; its name, or None if there was none."""
        loaded, self._loaded = self._loaded, None
        if self._pictures is not None:
            self._pictures.unload()
        return loaded.model.name if loaded else None

    def close(self) -> None:
        """Free everything: the device is about to be closed."""
        pictures, self._pictures, self._loaded = self._pictures, None, None
        if pictures is not None:
            pictures.close()

    def forget(self) -> None:
        """Let go of what is lost already, without a word to the device."""
        self._pictures = self._loaded = None

    def recover(self, error: Exception) -> None:
        """After a failure: what may be broken is given back."""
        from engine.gpu.errors import GpuError

        if code_of(error) == "device_lost":
            self._engine.recover(error)
        elif self._loaded is None or isinstance(error, GpuError) or code_of(error) is None:
            self.unload()

    def load(self, job: Job) -> None:
        """Load a picture model."""
        warnings: list[str] = []
        loaded = self._ensure_loaded(job, None, warnings)
        job.done(
            model=loaded.model.name,
            context=0,
            context_max=0,
            device=loaded.about["device"],
            backend=loaded.about["backend"],
            memory=self._engine.memory(),
            warnings=[*warnings, *loaded.about["notes"]],
        )

    def image(self, job: Job) -> None:
        """Make pictures."""
        began = time.perf_counter()
        asked = job.request.fields
        wanted = _settings_of(asked)
        files = PictureFiles.of(asked, wanted.prompt)
        warnings: list[str] = []
        loaded = self._ensure_loaded(job, wanted.vae, warnings)
        settings = _settled(wanted, loaded.about, "count" in asked["settings"])
        order = _Order(job, self._engine_for_pictures(), settings, files, loaded.model.name)
        order.start([*warnings, *loaded.about["notes"]])
        self._run(order)
        job.done(
            files=[str(path) for path in order.written],
            seed=settings.seed,
            seconds=time.perf_counter() - began,
            seconds_per_step=order.seconds_per_step,
            model=loaded.model.name,
            device=loaded.about["device"],
            backend=loaded.about["backend"],
            peak_bytes=order.peak_bytes,
            warnings=list(dict.fromkeys(order.warnings)),
        )

    def fit(self, job: Job) -> None:
        """What an order would need; any thread may ask once :attr:`is_open`."""
        asked = job.request.fields
        wanted = _settings_of(asked)
        model = self._picture_model(asked["model"])
        pictures, here = self._engine_for_pictures(), self._loaded
        made = pictures.forecast(
            model.path,
            wanted,
            vae=None if wanted.vae is None else Path(wanted.vae),
            is_loaded=here is not None and here.model == model and here.vae == wanted.vae,
            evictable=self._engine.loaded_path is not None,
        )
        job.done(**{**made, "evicts": self._engine.loaded_name if made["evicts"] else None})

    def bench(self, job: Job) -> None:
        """Measure pictures: a model's, or random weights of well-known shapes."""
        from engine.image.errors import ImageError

        asked = job.request.fields
        name: str | None = asked.get("model")
        if name is None:
            raise RequestError(f"The bench image needs a model, or one of {', '.join(SHAPES)}.")
        warnings: list[str] = []
        options = {key: asked[key] for key in ("width", "height", "steps") if key in asked}
        if name in SHAPES:
            self.unload()
            options["shapes"] = name
        else:
            name = self._ensure_loaded(job, None, warnings).model.name
        engine = self._engine_for_pictures()
        try:
            report = engine.bench("image", progress=job.phase, cancelled=job.cancelled, **options)
        except ImageError as error:
            if job.cancelled():
                raise CancelledError(str(error)) from error
            raise
        finally:
            if "shapes" in options:
                self.unload()
        job.done(report={"kind": "image", **report, "model": name, "warnings": warnings})

    def _engine_for_pictures(self) -> PictureEngine:
        if self._pictures is None:
            self._pictures = self._open_pictures(self._engine.open())
        return self._pictures

    def _ensure_loaded(self, job: Job, vae: str | None, warnings: list[str]) -> _Loaded:
        """The wanted model on the GPU, loaded if it is not. Raises the errors of all rooms."""
        model = self._picture_model(job.request.fields["model"])
        here = self._loaded
        if here and here.model == model and here.vae == vae:
            return here
        pictures = self._engine_for_pictures()
        self.unload()
        self._make_room(model, warnings)
        path = None if vae is None else Path(vae)
        about = pictures.load(model.path, vae=path, progress=job.phase, cancelled=job.cancelled)
        self._loaded = _Loaded(model, vae, about)
        return self._loaded

    def _picture_model(self, name: str) -> InstalledModel:
        """An installed picture model. Raises the errors of all rooms."""
        model = self._store.find(name)
        if model.problem:
            model_details(model.path)  # for the error's own type
            raise RequestError(model.problem)
        if model.kind != "image":
            raise RequestError(f"{model.name} writes text. Choose a model that makes pictures.")
        return model

    def _run(self, order: _Order) -> None:
        """Draw; once more without the chat model where there is no room beside it."""
        from engine.gpu.errors import OutOfMemoryError
        from engine.image.pipeline_memory import TooLargeError

        try:
            order.run()
        except (TooLargeError, OutOfMemoryError):
            name = None if order.written else self._engine.unload_text()
            if name is None:
                raise
            order.warnings.append(f"{name} was unloaded: the picture does not fit beside it.")
            order.run()

    def _make_room(self, model: InstalledModel, warnings: list[str]) -> None:
        """Refuse a model that cannot fit; unload the chat model where only both do not."""
        free = free_bytes(self._engine.memory())
        if free is None:
            return
        if model.need(0).total > free and (name := self._engine.unload_text()):
            warnings.append(
                f"{name} was unloaded: it and {model.name} do not fit in the GPU's memory together."
            )
            free = free_bytes(self._engine.memory()) or free
        least = int(model.weight_bytes * EIGHT_BITS) + model.activation_bytes
        if least > free:
            raise DoesNotFitError(_too_large(least, free))


def _too_large(least: int, free: int) -> str:
    from engine.models.fit import gib

    return (
        f"This model needs at least {gib(least)} and {gib(free)} are free, {gib(least - free)} too "
        "little. Close other programs that use the GPU, or choose a smaller model."
    )


@dataclass
class _Order:
    """One request for pictures while it is worked on.

    Attributes:
        written: the files of the pictures that are done.
    """

    job: Job
    pictures: PictureEngine
    settings: ImageSettings
    files: PictureFiles
    model: str
    written: list[Path] = field(default_factory=list[Path])
    warnings: list[str] = field(default_factory=list[str])
    seconds_per_step: float | None = None
    peak_bytes: int = 0
    _each: float | None = None  # seconds of a step of one picture
    _told: int = 0  # steps of this part, of all its pictures

    @property
    def seed(self) -> int:
        """The first picture's seed."""
        assert self.settings.seed is not None
        return self.settings.seed

    def start(self, warnings: list[str]) -> None:
        """Tell what is about to be made, and what is cut off the prompt."""
        counted = self.pictures.count_tokens(self.settings.prompt)
        self.warnings = [*warnings, *([counted["note"]] if counted["note"] else [])]
        self.job.send(
            "started",
            seed=self.seed,
            count=self.settings.count,
            tokens=counted["tokens"],
            token_limit=counted["limit"],
            cut=counted["cut"] or None,
            warnings=self.warnings,
        )

    def run(self) -> None:
        """Make and write all pictures. Raises CancelledError once stopped."""
        for first, part in self._parts():
            self._make(first, part)

    def _parts(self) -> Iterator[tuple[int, ImageSettings]]:
        """The order in parts, so that pictures are kept as they are finished."""
        count = self.settings.count
        at_once = count if self.settings.latents is not None else TOGETHER
        for first in range(0, count, at_once):
            some = min(at_once, count - first)
            yield first, replace(self.settings, seed=self.seed + first, count=some)

    def _make(self, first: int, part: ImageSettings) -> None:
        self._told = 0
        tell = partial(self._tell_step, first, part.count)
        images, made = self.pictures.generate(part, tell, self.job.cancelled, self.job.phase)
        self.warnings += made["notes"]
        self.seconds_per_step = made["seconds_per_step"] or self.seconds_per_step
        self.peak_bytes = max(self.peak_bytes, made["peak_bytes"])
        for index, (pixels, seed) in enumerate(zip(images, made["seeds"], strict=True), first):
            path = self.files.write(index, pixels, self.settings, seed, self.model)
            self.written.append(path)
            height, width = pixels.shape[:2]
            self.job.send(
                "picture", index=index, path=str(path), seed=seed, width=width, height=height
            )
        if made["cancelled"]:
            kept = f" Finished pictures: {len(self.written)}." if self.written else ""
            raise CancelledError(f"Drawing was stopped.{kept}")

    def _tell_step(
        self,
        first: int,
        count: int,
        step: int,
        total: int,
        seconds_left: float | None,
        preview: Any,
    ) -> None:
        """Pass on the engine's step, which counts those of all ``count`` pictures of the part."""
        steps = total // count  # of each picture
        batch, self._told = step - self._told, step  # as many pictures as are drawn at once
        index = (step - 1) // steps // batch * batch
        if seconds_left is not None and step < total:
            self._each = seconds_left / (total - step)
        still = total - step + (self.settings.count - first - count) * steps
        wanted = preview is not None and self.job.request.fields.get("preview", False)
        self.job.send(
            "step",
            index=first + index,
            step=(step - index * steps) // batch,
            total=steps,
            seconds_left=None if self._each is None else self._each * still,
            preview=_png(preview) if wanted else None,
        )


def _settings_of(asked: Mapping[str, Any]) -> ImageSettings:
    """The settings of a request, nulls left out. Raises SettingError."""
    from engine.image.settings import settings_from

    values = {k: v for k, v in asked["settings"].items() if v is not None}
    if "latents" in asked:
        values["latents"] = asked["latents"]
    return settings_from(values)


def _settled(wanted: ImageSettings, about: Mapping[str, Any], has_count: bool) -> ImageSettings:
    """The settings with the model's own choices; a file of noise tells size and count itself."""
    from engine.image.pipeline_pictures import fitted_to_latents
    from engine.image.settings import ModelDefaults

    if wanted.latents is not None:
        wanted = fitted_to_latents(wanted, about["latent_factor"], has_count)
    return wanted.settled(ModelDefaults(**about["defaults"]))


def _png(preview: Any) -> str:
    """Previews [pictures, h, w, 4] side by side, as PNG in base64."""
    import numpy as np
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(np.concatenate(list(preview), axis=1)).save(buffer, "PNG", compress_level=1)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
