"""One order of pictures while it is made: text, noise, denoising, decoding, and their mishaps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.image.errors import ImageError
from engine.image.noise import START, noise, step_noise
from engine.image.pipeline_pictures import (
    Pixels,
    dead,
    latent_mask,
    read_latents,
    read_mask,
    read_picture,
    to_pixels,
)
from engine.image.pipeline_stages import Cancelled, Stages
from engine.image.pipeline_text import Conditions, embedded_guidance, sizes_and_pooled
from engine.image.runner import Start
from engine.image.runner_graph import Floats, Job
from engine.image.schedulers import Schedule, make_schedule
from engine.image.settings import ImageSettings
from engine.image.weights_upload import Progress
from engine.tensor.descriptor import DType

OnStep = Callable[[int, int, float | None, Pixels | None], None]


@dataclass(frozen=True)
class Init:
    """What a run starts from besides noise: the picture, its latents, the masks."""

    picture: Floats
    latents: Floats
    mask: Floats | None


@dataclass
class Clock:
    """Steps done and how long they took, for the time left."""

    total: int
    done: int = 0
    spent: float = 0.0
    timed: int = 0
    last: float = field(default_factory=time.perf_counter)

    def tick(self, steps: int) -> float | None:
        """Note that ``steps`` are done in all; seconds left, once that can be told."""
        now = time.perf_counter()
        if self.done > 0:  # the first one also compiles
            self.spent += now - self.last
            self.timed += steps - self.done
        self.done, self.last = steps, now
        return None if self.timed == 0 else self.per_step * (self.total - steps)

    @property
    def per_step(self) -> float:
        """Seconds of a step."""
        return self.spent / max(self.timed, 1)


@dataclass
class Run:
    """One order while it is made."""

    stages: Stages
    settings: ImageSettings
    on_step: OnStep
    cancelled: Cancelled
    progress: Progress
    notes: list[str] = field(default_factory=list[str])
    stopped: bool = False

    def __post_init__(self) -> None:
        settings, model = self.settings, self.stages.model
        assert settings.width is not None
        assert settings.height is not None
        factor = model.vae_config.factor
        self.width, self.height = settings.width, settings.height
        self.latent_size = (self.height // factor, self.width // factor)
        self.channels = model.vae_config.latent_channels
        self.schedule = self._schedule(1.0 if settings.init is None else self.strength)
        self.clock = Clock(self.schedule.steps * settings.count)

    def _schedule(self, strength: float) -> Schedule:
        assert self.settings.sampler is not None
        assert self.settings.steps is not None
        config = self.stages.model.files.scheduler
        if self.settings.prediction is not None:
            config = {**config, "prediction_type": self.settings.prediction}
        return make_schedule(self.settings.sampler, config, self.settings.steps, strength=strength)

    @property
    def strength(self) -> float:
        """How much of the picture to start from is taken away."""
        assert self.settings.strength is not None
        return self.settings.strength

    @property
    def seed(self) -> int:
        """The first picture's seed."""
        assert self.settings.seed is not None
        return self.settings.seed

    @property
    def guidance(self) -> float:
        """How strongly the prompt pulls."""
        return 1.0 if self.settings.guidance is None else self.settings.guidance

    @property
    def both_branches(self) -> bool:
        """Whether the negative prompt runs beside; LCM denoisers read the guidance instead."""
        return self.settings.guided and not self.stages.model.unet_config.time_cond_dim

    def pictures(self) -> tuple[list[Pixels], list[int]]:
        """All pictures, or those that were done when the person stopped."""
        images: list[Pixels] = []
        conditions = self._conditions()
        job = self._job(conditions)
        init = self._init()
        given = self._given_noise()
        condition = self._condition(init)
        first = 0
        while first < self.settings.count and not self._stop():
            count = min(job.count, self.settings.count - first)
            if count != job.count:
                job = self.stages.denoisers.with_count(job, count)
            start = self._start(conditions, init, condition, given, first, count)
            latents = self._denoised(job, start, first)
            if latents is None:
                break
            for picture in self._decoded(latents):
                images.append(self._composed(picture, init))
            first += count
        self.stopped = len(images) < self.settings.count
        return images, [self.seed + index for index in range(len(images))]

    def _stop(self) -> bool:
        return self.cancelled()

    def _conditions(self) -> Conditions:
        settings, text = self.settings, self.stages.text
        text.register(settings.clip_skip)
        conditions = text.conditions(
            settings.prompt,
            settings.negative,
            guided=self.both_branches,
            clip_skip=settings.clip_skip,
        )
        self.notes += conditions.notes
        if conditions.redone:
            self.notes.append("The text encoder overflowed in 16 bits and ran in 32.")
        return conditions

    def _job(self, conditions: Conditions) -> Job:
        """What the denoiser is compiled for; refuses sizes that do not fit before they start."""
        branches, tokens, _ = conditions.text.shape
        return self.stages.denoisers.job(
            count=self.settings.count,
            copies=branches,
            latents=self.latent_size,
            tokens=tokens,
            inpaint=self.settings.mask is not None,
        )

    def _init(self) -> Init | None:
        settings = self.settings
        if settings.init is None:
            return None
        picture = read_picture(settings.init, self.width, self.height)
        mask = None
        if settings.mask is not None:
            mask = read_mask(settings.mask, self.width, self.height)
        latents = self.stages.vae.encode(picture, self.cancelled)
        if latents is None or not np.isfinite(latents).all():
            raise ImageError("The picture to start from could not be encoded.")
        return Init(picture, latents, mask)

    def _condition(self, init: Init | None) -> Floats | None:
        """What an inpainting model reads beside the latents, [h, w, 1 + c].

        The mask, then the latents of the picture with grey in place of what is made anew. Without
        a mask that is everything.
        """
        model = self.stages.model
        if not model.files.reads_mask:
            return None
        anew = np.ones((self.height, self.width), np.bool_)
        picture = np.zeros((self.height, self.width, 3), np.float32)
        if init is not None and init.mask is not None:
            anew = init.mask >= 0.5
            picture = init.picture * ~anew[..., None]
        else:
            self.notes.append(
                "This model is made to fill in parts of a picture. Without a mask it draws all of "
                "it anew."
            )
        latents = self.stages.vae.encode(picture, self.cancelled)
        if latents is None:
            return None
        factor = model.vae_config.factor
        seen = anew[::factor, ::factor, None].astype(np.float32)
        return np.concatenate([seen, latents], axis=-1)

    def _given_noise(self) -> Floats | None:
        path = self.settings.latents
        shape = (self.settings.count, *self.latent_size, self.channels)
        return None if path is None else read_latents(path, shape)

    def _noise(self, given: Floats | None, first: int, count: int) -> Floats:
        """The noise that pictures start from, [count, h, w, c]."""
        if given is not None:
            return given[first : first + count]
        return _channels_last(noise(self.seed + first, count, self._noise_shape, START))

    @property
    def _noise_shape(self) -> tuple[int, int, int]:
        """Channels first, as every other program that counts seeds has it."""
        return (self.channels, *self.latent_size)

    def _start(
        self,
        conditions: Conditions,
        init: Init | None,
        condition: Floats | None,
        given: Floats | None,
        first: int,
        count: int,
    ) -> Start:
        start_noise = self._noise(given, first, count)
        x = start_noise * np.float32(self.schedule.init_noise_scale)
        clean = None
        if init is not None:
            clean = np.repeat(init.latents[None], count, axis=0)
            # diffusers fills a mask from noise alone where nothing of the picture is to be left
            if init.mask is None or self.strength < 1:
                x = self.schedule.noised(clean, start_noise)
        mask = None
        if init is not None and init.mask is not None:
            factor = self.stages.model.vae_config.factor
            mask = latent_mask(init.mask, factor)[None, ..., None]

        def fresh(call: int) -> Floats:
            made = step_noise(self.seed + first, count, self._noise_shape, call)
            return _channels_last(made)

        return Start(
            x=x,
            text=np.repeat(conditions.text, count, axis=0),
            schedule=self.schedule,
            guidance=self.guidance if self.both_branches else 1.0,
            added=self._added(conditions, count),
            condition=_repeated(condition, count * len(conditions.text)),
            noise=fresh,
            init=clean if mask is not None else None,
            init_noise=start_noise if mask is not None else None,
            mask=mask,
        )

    def _added(self, conditions: Conditions, count: int) -> Floats | None:
        model = self.stages.model
        if conditions.pooled is not None:
            pooled = np.repeat(conditions.pooled, count, axis=0)
            return sizes_and_pooled(model, pooled, self.width, self.height)
        if model.unet_config.time_cond_dim:
            one = embedded_guidance(model.unet_config.time_cond_dim, self.guidance)
            return np.repeat(one, count, axis=0)
        return None

    def _denoised(self, job: Job, start: Start, first: int) -> Floats | None:
        """Final latents [count, h, w, c]; once more in f32 where f16 overflowed."""
        latents = self._looped(job, start, first)
        if latents is None or np.isfinite(latents).all():
            return latents
        if job.dtype is DType.F16:
            job = self.stages.denoisers.precise(job)
            self.notes.append("The denoiser overflowed in 16 bits, so it ran again in 32.")
            latents = self._looped(job, start, first)
        if latents is not None and not np.isfinite(latents).all():
            raise ImageError(
                "The denoiser gives numbers that are none: the model is damaged, or a LoRA or the "
                "guidance is far too strong."
            )
        return latents

    def _looped(self, job: Job, start: Start, first: int) -> Floats | None:
        denoiser = self.stages.denoisers.get(job)
        self.progress("compiling", 0, 1)
        if not denoiser.prepare(self._stop):
            return None
        self.progress("compiling", 1, 1)
        denoiser.set_preview(self.stages.colours.factors())
        done, calls = first * self.schedule.steps, self.schedule.step_of

        def on_call(call: int, preview: Pixels | None) -> None:
            if call + 1 < len(calls) and calls[call + 1] == calls[call]:
                return  # the first stage of a two-stage step
            steps = done + (calls[call] + 1) * start.x.shape[0]
            self.on_step(steps, self.clock.total, self.clock.tick(steps), preview)

        return denoiser.run(start, on_call, self._stop)

    def _decoded(self, latents: Floats) -> Iterator[Floats]:
        """The pictures of a batch one by one, until the person stops."""
        for each in latents:
            if self._stop():
                return
            made = self.stages.vae.decode(each, self._on_tile, self.cancelled)
            if made is None:
                return
            picture, redone = made
            if dead(to_pixels(picture)) and not self.stages.vae.precise:
                self.stages.vae.precise, redone = True, True
                again = self.stages.vae.decode(each, self._on_tile, self.cancelled)
                if again is None:
                    return
                picture = again[0]
            if redone:
                self.notes.append(
                    "The autoencoder overflowed in 16 bits, so the picture was decoded in 32."
                )
            self.stages.colours.learn(each, picture)
            yield picture

    def _on_tile(self, done: int, total: int) -> None:
        if total > 1:
            self.notes.append(
                f"Memory is short, so the picture was decoded in {total} overlapping tiles."
            )
        self.progress("decoding", done, total)

    def _composed(self, picture: Floats, init: Init | None) -> Pixels:
        """The picture as bytes; what the mask keeps is the first picture's, pixel for pixel."""
        if init is not None and init.mask is not None:
            part = init.mask[..., None]
            picture = (picture * part + init.picture * (1 - part)).astype(np.float32)
        return to_pixels(picture)


def _repeated(array: Floats | None, count: int) -> Floats | None:
    return None if array is None else np.repeat(array[None], count, axis=0)


def _channels_last(array: Floats) -> Floats:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1))
