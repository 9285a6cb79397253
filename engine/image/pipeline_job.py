"""What the denoiser is compiled for: as many pictures at once as fit, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.graph.node import Value
from engine.image.pipeline_memory import available, fits, held_with, refuse
from engine.image.pipeline_model import ImageModel
from engine.image.pipeline_text import TextStage
from engine.image.pipeline_vae import VaeStage
from engine.image.runner import Denoiser
from engine.image.runner_graph import Job, StepGraph, build_step
from engine.image.runner_workspace import Planned
from engine.tensor.descriptor import DType

#: Pictures in one batch, at most: more hide how far the first one is and gain little.
BATCH = 4


@dataclass
class Denoisers:
    """The denoiser compiled last, and the choice of the next.

    Attributes:
        overflowed: f16 was too small for this model once, so jobs are f32 from then on.
    """

    model: ImageModel
    text: TextStage
    vae: VaeStage
    memory_limit: int | None = None
    overflowed: bool = False
    _current: Denoiser | None = None
    _last: tuple[Job, tuple[StepGraph, Planned, int]] | None = None

    def job(
        self, *, count: int, copies: int, latents: tuple[int, int], tokens: int, inpaint: bool
    ) -> Job:
        """The job for an order, with as many pictures at once as fit.

        Raises:
            TooLargeError: not even one picture fits; the message names a size that does.
        """
        dtype = DType.F32 if self.overflowed else self.model.dtype
        most = 1 if self.model.device.caps.software else min(count, BATCH)
        job = Job(most, copies, *latents, tokens, inpaint, dtype)
        if self._current is not None and self._current.job == job:
            return job
        self.release()
        while not self._fits(job):
            if job.count == 1:
                self._refuse(job)
            job = replace(job, count=job.count // 2)
        self.vae.decoder(*latents)
        return job

    def with_count(self, job: Job, count: int) -> Job:
        """The same job for fewer pictures (the rest of an order)."""
        return replace(job, count=count)

    def precise(self, job: Job) -> Job:
        """The same job with f32 activations, from now on."""
        self.overflowed = True
        return replace(job, dtype=DType.F32)

    def get(self, job: Job) -> Denoiser:
        """The denoiser of a job, planned and with memory for its inputs."""
        if self._current is None or self._current.job != job:
            self.release()
            step, planned, _ = self._planned(job)
            self._current = Denoiser.make(self.model, job, step, planned, self.memory_limit)
            self._last = None
        return self._current

    def release(self) -> None:
        """Give back the current denoiser's memory."""
        if self._current is not None:
            self._current.release()
            self._current = None

    def _fits(self, job: Job) -> bool:
        _, planned, extra = self._planned(job)
        device, workspace = self.model.device, self.model.workspace
        return fits(device, workspace, [planned[0]], extra, self.memory_limit)

    def _planned(self, job: Job) -> tuple[StepGraph, Planned, int]:
        """The step, its plan, and the bytes of what lies outside the arena; kept for the last."""
        if self._last is None or self._last[0] != job:
            step = build_step(self.model, job)
            outside = [step.x, step.steps, step.history, step.noise, *step.keys.values()]
            planned = self.model.workspace.plan(step.graph)
            extra = sum(value.nbytes for value in outside)
            self._last = (job, (step, planned, extra))
        return self._last[1]

    def _refuse(self, job: Job) -> None:
        _, (planned, _), extra = self._planned(job)
        device, workspace = self.model.device, self.model.workspace
        room = available(device, self.memory_limit) or 0
        need = held_with(device, workspace, [planned], extra)
        fixed = need - planned.plan.total
        factor = self.model.vae_config.factor
        area = job.height * job.width
        largest = max((v.nbytes for v in planned.plan.places if isinstance(v, Value)), default=0)
        scale = max(1.0, largest / device.caps.limits.binding_bytes)

        def needed(width: int, height: int) -> int:
            share = (width // factor) * (height // factor) / area
            by_memory = fixed + int(planned.plan.total * share)
            return by_memory if share * scale <= 1.0 else room + 1

        raise refuse(job.width * factor, job.height * factor, need, room, needed)
