"""From settings to pictures with a loaded model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from engine.formats.diffusers_prediction import GUESSED
from engine.gpu.errors import GpuError
from engine.image.pipeline_model import ImageModel, set_loras
from engine.image.pipeline_pictures import Pixels
from engine.image.pipeline_run import OnStep, Run
from engine.image.pipeline_stages import Cancelled, Stages
from engine.image.settings import ImageSettings
from engine.image.weights_upload import Progress

__all__ = ["Cancelled", "OnStep", "Pictures", "Pipeline", "model_name"]


@dataclass(frozen=True)
class Pictures:
    """What a run made.

    Attributes:
        images: uint8 [h, w, 3], fewer than asked for when cancelled.
        seeds: of each.
        settings: as they were run, nothing left open.
        notes: sentences for the person.
        seconds, seconds_per_step: of the whole run, and of one step of the denoiser.
    """

    images: list[Pixels]
    seeds: list[int]
    settings: ImageSettings
    notes: list[str]
    cancelled: bool
    seconds: float
    seconds_per_step: float | None


class Pipeline:
    """A model at work."""

    def __init__(self, model: ImageModel, memory_limit: int | None = None) -> None:
        self.model = model
        self.stages = Stages(model, memory_limit)

    def generate(
        self, wanted: ImageSettings, on_step: OnStep, cancelled: Cancelled, progress: Progress
    ) -> Pictures:
        """Make the pictures of a settings order.

        ``on_step(step, total, seconds_left, preview)`` counts the steps of all pictures; previews
        are uint8 [pictures, h, w, 4] at the size of the latents.

        Raises:
            ImageError: a setting, a picture file or a size that cannot be.
            GpuError: memory ran out, or the device was lost.
        """
        started = time.perf_counter()
        settings = wanted.settled(self.model.defaults)
        if settings.loras != self.model.loras:
            self.stages.text.forget()
            set_loras(self.model, settings.loras, progress, cancelled)
        run = Run(self.stages, settings, on_step, cancelled, progress)
        try:
            images, seeds = run.pictures()
        except GpuError:
            self.release()
            raise
        if run.stopped:
            self.release()
        return Pictures(
            images=images,
            seeds=seeds,
            settings=settings,
            notes=[*self._notes(settings), *dict.fromkeys(run.notes)],
            cancelled=run.stopped,
            seconds=time.perf_counter() - started,
            seconds_per_step=run.clock.per_step if run.clock.timed else None,
        )

    def _notes(self, settings: ImageSettings) -> list[str]:
        """The model's, without a guess that the person has settled."""
        settled = settings.prediction is not None
        return [note for note in self.model.notes if not (settled and note == GUESSED)]

    def release(self) -> None:
        """Give back the memory of everything but the weights."""
        self.stages.release()


def model_name(path: Path) -> str:
    """What a model is called by its place."""
    return path.stem if path.is_file() else path.name
