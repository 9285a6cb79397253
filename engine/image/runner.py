"""The denoising loop on the GPU: one recorded step, replayed; nothing is read back but previews."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.gpu.commands import submit
from engine.gpu.ledger import Purpose
from engine.gpu.readback import ReadbackRing
from engine.gpu.shaders import BufferRange
from engine.graph.node import Value
from engine.image.pipeline_model import ImageModel
from engine.image.runner_graph import Job, StepGraph, step_table
from engine.image.runner_pieces import Pieces
from engine.image.runner_workspace import Planned
from engine.image.schedulers import Schedule
from engine.image.tiny_preview import NAME as PREVIEW
from engine.image.tiny_preview import TinyPreview, register_preview
from engine.image.unet import ContextGraph, build_context
from engine.kernels.preview import unpack_rgba
from engine.kernels.run import read_tensor, write_tensor

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]
#: Seconds that one submit may take, and operations a second assumed before the first is measured.
SUBMIT_SECONDS = 0.08
FIRST_GUESS_SOFTWARE, FIRST_GUESS_GPU = 4e9, 1e12

OnCall = Callable[[int, Pixels | None], None]


@dataclass(frozen=True)
class Start:
    """What a run begins with; all arrays channels last.

    Attributes:
        x: latents at the first call's noise level, [count, h, w, c].
        text: both branches' hidden states, unconditional first, [batch, tokens, width].
        added: pooled text and sizes, or the embedded guidance, [batch, width], or None.
        noise: fresh noise for a call, [count, h, w, c].
        condition: for inpainting models: the mask and the masked picture's latents, as the
            denoiser reads them, [batch, h, w, 1 + c].
        init, init_noise, mask: for inpainting: the clean latents and their noise as ``x``, and
            [count or 1, h, w, 1], 1 where the picture is made anew.
    """

    x: Floats
    text: Floats
    schedule: Schedule
    guidance: float
    added: Floats | None = None
    condition: Floats | None = None
    noise: Callable[[int], Floats] | None = None
    init: Floats | None = None
    init_noise: Floats | None = None
    mask: Floats | None = None


@dataclass
class Denoiser:
    """The denoiser of a model, compiled for one job.

    Attributes:
        speed: operations a second, measured.
    """

    model: ImageModel
    job: Job
    step: StepGraph
    context: ContextGraph
    speed: float
    pieces: Pieces
    preview: TinyPreview | None
    _linear: bool = False
    _ring: ReadbackRing | None = None

    @classmethod
    def make(
        cls,
        model: ImageModel,
        job: Job,
        step: StepGraph,
        planned: Planned,
        memory_limit: int | None = None,
    ) -> Denoiser:
        """Give all programs memory for what goes in and out; compiled at their first run.

        Raises:
            OutOfMemoryError: they did not fit.
        """
        context = build_context(model.unet_config, model.unet, job.size, job.dtype)
        workspace = model.workspace
        workspace.register("unet.context", context.graph, purpose=Purpose.KV_CACHE)
        for name, value in context.keys.items():
            workspace.store.tensors[step.keys[name]] = workspace.store.tensors[value]
        workspace.register("unet.step", step.graph, planned)
        pieces = Pieces(workspace, "unet.step")
        preview = register_preview(model, step.shown, pieces.operations, memory_limit)
        guess = FIRST_GUESS_SOFTWARE if model.device.caps.software else FIRST_GUESS_GPU
        return cls(model, job, step, context, guess, pieces, preview)

    def release(self) -> None:
        """Give back everything but the arena."""
        if self._ring is not None:
            self._ring.destroy()
            self._ring = None
        for value in self.step.keys.values():
            self.model.workspace.store.tensors.pop(value, None)
        self.model.workspace.forget([PREVIEW, "unet.step", "unet.context"])

    def prepare(self, cancelled: Callable[[], bool]) -> bool:
        """Compile and bind all programs, where that is not done yet; False when cancelled."""
        names = ["unet.context", "unet.step", *([PREVIEW] if self.preview is not None else [])]
        if not self.model.workspace.compile(names, cancelled):
            return False
        self.model.workspace.program("unet.context")
        self.pieces.prepare()
        if self.preview is not None:
            self.preview.pieces.prepare()
        return True

    def run(self, start: Start, on_call: OnCall, cancelled: Callable[[], bool]) -> Floats | None:
        """All calls; ``on_call(call, preview or None)`` follows them as they finish.

        Returns:
            the final latents [count, h, w, c], or None when cancelled.
        """
        if not self.prepare(cancelled):
            return None
        self._begin(start)
        submit(self.model.device, [self.model.workspace.program("unet.context").commands])
        out = self.step.preview if self.preview is None else self.preview.out
        ring = self._ring or ReadbackRing(self.model.device, out.nbytes, 2)
        self._ring = ring
        ring.drain()
        ahead = 1 if self.model.device.caps.software else 2
        finished, last = 0, time.perf_counter()
        calls = start.schedule.calls
        for call in range(calls):
            if cancelled():
                ring.drain()
                return None
            if start.noise is not None and start.schedule.takes_noise(call):
                self._write(self.step.noise, start.noise(call))
            self._submit_call(ring, self._tiny(call, calls))
            if ring.in_flight == ahead:
                last = self._take(ring, on_call, finished, calls, last)
                finished += 1
        while ring.in_flight:
            last = self._take(ring, on_call, finished, calls, last)
            finished += 1
        return self._latents()

    def _begin(self, start: Start) -> None:
        table = step_table(start.schedule, start.guidance)
        self._write(self.step.steps, table)
        self._write(self.step.state, np.zeros(self.step.state.tensor.shape.c, np.uint32))
        self._write(self.step.x, start.x)
        self._write(self.step.history, np.zeros(self.step.history.tensor.shape.elements))
        self._write(self.context.text, start.text)
        step = self.step
        given = zip(
            (step.added, step.condition, step.init, step.init_noise, step.mask),
            (start.added, start.condition, start.init, start.init_noise, start.mask),
            strict=True,
        )
        for value, array in given:
            if value is not None and array is not None:
                self._write(value, array)

    def set_preview(self, factors: Floats | None) -> None:
        """The linear map from latents to colours, as engine.kernels.preview packs it, or none."""
        self._linear = factors is not None
        if factors is not None:
            self._write(self.step.factors, factors)

    def _tiny(self, call: int, calls: int) -> TinyPreview | None:
        """The preview that follows a call besides the linear one."""
        return self.preview if self.preview is not None and self.preview.due(call, calls) else None

    def _submit_call(self, ring: ReadbackRing, tiny: TinyPreview | None) -> None:
        most = self.speed * SUBMIT_SECONDS
        pieces = [*self.pieces.cut(most), *(tiny.pieces.cut(most) if tiny is not None else ())]
        device = self.model.device
        for piece in pieces[:-1]:
            submit(device, [piece])
        out = self.step.preview if tiny is None else tiny.out
        held = self.model.workspace.store.tensors[out]
        assert isinstance(held, BufferRange)
        copies = ring.copy_from((held.buffer, held.offset, out.nbytes))
        ring.filled(submit(device, [pieces[-1]], copies))

    def _take(
        self, ring: ReadbackRing, on_call: OnCall, call: int, calls: int, last: float
    ) -> float:
        """Wait for the oldest call, learn its speed, show it; returns the time."""
        words = ring.take().view(np.uint32)
        now = time.perf_counter()
        tiny = self._tiny(call, calls)
        if call > 0:  # the first call also compiles
            self._learn(now - last, 0.0 if tiny is None else tiny.pieces.operations)
        shape = self.step.x.tensor.shape
        pixels = None
        if tiny is not None:
            pixels = tiny.pixels(words)
        elif self._linear and self.preview is None:
            pixels = unpack_rgba(words, shape.b, shape.h, shape.w)
        on_call(call, pixels)
        return time.perf_counter()

    def _learn(self, seconds: float, more: float) -> None:
        """The speed, from one call and ``more`` operations; pieces follow where it changed much."""
        measured = (self.pieces.operations + more) / max(seconds, 1e-6)
        if not 0.6 < measured / self.speed < 1.6:
            self.speed = measured
            self.pieces.forget()
            if self.preview is not None:
                self.preview.pieces.forget()

    def _latents(self) -> Floats:
        held = self.model.workspace.store.tensors[self.step.x]
        return read_tensor(self.model.device, held, self.step.x.tensor).astype(np.float32)

    def _write(self, value: Value, array: np.ndarray) -> None:
        held = self.model.workspace.store.tensors[value]
        write_tensor(self.model.device, held, value.tensor, array)
