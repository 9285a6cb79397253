"""What an order of pictures will need, told before it is drawn.

The networks are planned as they would be for the order, from the files' headers alone: nothing is
uploaded or compiled, so this runs beside a picture that is being drawn.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from engine.formats.diffusers import open_pipeline
from engine.gpu.device import Device
from engine.graph.node import Value
from engine.graph.planner import shared_sizes
from engine.image.pipeline_job import BATCH
from engine.image.pipeline_memory import TooLargeError, available, refuse, within_limits
from engine.image.pipeline_model import ImageModel, describe_model
from engine.image.pipeline_tiles import smaller
from engine.image.pipeline_vae import VaeStage
from engine.image.prompt import encode_prompt
from engine.image.runner_graph import Job, build_step
from engine.image.runner_workspace import Planned
from engine.image.settings import ImageSettings
from engine.image.tiny_preview import build_preview, preview_network
from engine.image.vae import build_decoder, build_encoder
from engine.tensor.descriptor import DType

KEPT_PLANS = 16


@dataclass(frozen=True)
class Forecast:
    """What an order needs, in bytes.

    Attributes:
        need: of weights and working memory together.
        more: of these, what is not held yet.
        free: for what is not held yet; None where the platform does not tell.
        evicts: it fits only once the other models on the device have gone.
        problem: why it does not fit, as a sentence, or "".
        fits: (width, height) that would fit in place of this one, where one does.
        tiled: the picture is decoded in parts, because memory is short.
    """

    need: int
    more: int
    free: int | None
    evicts: bool = False
    problem: str = ""
    fits: tuple[int, int] | None = None
    tiled: bool = False


@dataclass(frozen=True)
class _Plan:
    """One network planned: its object sizes, and the bytes of what lies outside the arena."""

    planned: Planned
    outside: int


@dataclass(frozen=True)
class _Room:
    """Bytes that the order's weights and working memory may take, None where unknown."""

    nbytes: int | None

    def holds(self, need: int) -> bool:
        return self.nbytes is None or need <= self.nbytes


class Forecaster:
    """Plans orders on one device. Any thread may ask."""

    def __init__(self, device: Device, memory_limit: int | None = None) -> None:
        self.device = device
        self._limit = memory_limit
        self._lock = threading.Lock()
        self._key: tuple[Path, Path | None] | None = None
        self._model: ImageModel | None = None
        self._plans: dict[tuple[object, ...], _Plan] = {}

    def forecast(
        self,
        path: Path,
        vae: Path | None,
        wanted: ImageSettings,
        *,
        loaded: ImageModel | None,
        is_same: bool,
        evictable: bool,
    ) -> Forecast:
        """What ``wanted`` needs with the model at ``path``.

        Args:
            loaded: the picture model that is on the device now; ``is_same`` if it is this one,
                with this autoencoder. Another one makes room before this one is loaded.
            evictable: whether the rest of what is held would be given up where both do not fit.

        Raises:
            FormatError: the files are broken.
            SettingError: a setting that cannot be.
        """
        with self._lock:
            model = self._described(path, vae)
            held = held_bytes(loaded)
            others = max(0, self.device.ledger.totals().total - held)
            room = available(self.device, self._limit)
            beside = _Room(None if room is None else max(0, room - others))
            made = self._forecast(model, wanted, beside)
            evicts = bool(made.problem) and evictable
            if evicts:
                made = self._forecast(model, wanted, _Room(room))
                evicts = not made.problem
            kept = held if is_same else 0
            free = None if made.free is None else max(0, made.free - kept)
            return replace(made, more=max(0, made.need - kept), free=free, evicts=evicts)

    def _described(self, path: Path, vae: Path | None) -> ImageModel:
        """A model of which only the shapes are known; its files are let go at once."""
        if self._model is None or self._key != (path, vae):
            with open_pipeline(path, vae=vae) as files:
                self._model = describe_model(self.device, files, self._limit)
            self._key = (path, vae)
            self._plans.clear()
        return self._model

    def _forecast(self, model: ImageModel, wanted: ImageSettings, room: _Room) -> Forecast:
        settings = wanted.settled(model.defaults)
        assert settings.width is not None
        assert settings.height is not None
        factor = model.vae_config.factor
        size = (settings.height // factor, settings.width // factor)
        job = self._job(model, settings, size)
        while not self._job_fits(model, job, room) and job.count > 1:
            job = replace(job, count=job.count // 2)
        step = self._step(model, job)
        need = model.weight_bytes + step.outside + sum(step.planned[0].plan.sizes)
        if not self._job_fits(model, job, room):
            refused = self._refused(model, settings, step, need, room)
            return Forecast(need, need, room.nbytes, problem=str(refused), fits=refused.fits)
        kinds = ["decode", "encode"] if settings.init is not None else ["decode"]
        held = [step, *self._preview(model, job, room)]
        coders = [self._coder(model, kind, size, held, room) for kind in kinds]
        need = self._need(model, [*held, *(plan for plan, _ in coders)])
        return Forecast(need, need, room.nbytes, tiled=any(tiled for _, tiled in coders))

    def _job(self, model: ImageModel, settings: ImageSettings, size: tuple[int, int]) -> Job:
        guided = settings.guided and not model.unet_config.time_cond_dim
        texts = [settings.prompt, settings.negative] if guided else [settings.prompt]
        chunks = max(encode_prompt(model.tokenizers[0], text).chunks for text in texts)
        most = 1 if self.device.caps.software else min(settings.count, BATCH)
        tokens = chunks * model.tokenizers[0].positions
        inpaint = settings.mask is not None
        return Job(most, 2 if guided else 1, *size, tokens, inpaint, model.dtype)

    def _need(self, model: ImageModel, plans: list[_Plan]) -> int:
        shared = shared_sizes([plan.planned[0].plan for plan in plans])
        return model.weight_bytes + sum(plan.outside for plan in plans) + sum(shared)

    def _job_fits(self, model: ImageModel, job: Job, room: _Room) -> bool:
        step = self._step(model, job)
        within = within_limits(self.device, [step.planned[0]])
        return within and room.holds(self._need(model, [step]))

    def _preview(self, model: ImageModel, job: Job, room: _Room) -> list[_Plan]:
        """The decoder of the live preview, which is left out where there is none or no room."""
        network = preview_network(model)
        if network is None:
            return []
        found = self._plans.get(("preview", job))
        if found is None:
            graph, out = build_preview(*network, build_step(model, job).shown, model.dtype)
            found = _Plan(model.workspace.plan(graph), out.nbytes)
            self._keep(("preview", job), found)
        within = within_limits(self.device, [found.planned[0]])
        fits = within and room.holds(self._need(model, [self._step(model, job), found]))
        return [found] if fits else []

    def _step(self, model: ImageModel, job: Job) -> _Plan:
        found = self._plans.get(("step", job))
        if found is None:
            step = build_step(model, job)
            outside = [step.x, step.steps, step.history, step.noise, *step.keys.values()]
            found = _Plan(model.workspace.plan(step.graph), sum(one.nbytes for one in outside))
            self._keep(("step", job), found)
        return found

    def _coder(
        self, model: ImageModel, kind: str, size: tuple[int, int], held: list[_Plan], room: _Room
    ) -> tuple[_Plan, bool]:
        """One direction of the autoencoder, in the largest tiles that fit; whether it is cut."""
        tile = size
        while True:
            plan = self._coded(model, kind, tile)
            less = (smaller(tile[0]), smaller(tile[1]))
            within = within_limits(self.device, [plan.planned[0]])
            if less == tile or (within and room.holds(self._need(model, [*held, plan]))):
                return plan, tile != size
            tile = less

    def _coded(self, model: ImageModel, kind: str, tile: tuple[int, int]) -> _Plan:
        found = self._plans.get((kind, tile))
        if found is None:
            config, weights = model.vae_config, model.vae
            precise = kind == "encode" or VaeStage(model).precise
            dtype = DType.F32 if precise else model.dtype
            if kind == "decode":
                graph, entering, leaving = build_decoder(config, weights, (1, *tile), dtype)
            else:
                sides = (tile[0] * config.factor, tile[1] * config.factor)
                graph, entering, leaving = build_encoder(config, weights, (1, *sides), dtype)
            outside = entering.nbytes + leaving.nbytes
            found = _Plan(model.workspace.plan(graph), outside)
            self._keep((kind, tile), found)
        return found

    def _keep(self, key: tuple[object, ...], plan: _Plan) -> None:
        self._plans[key] = plan
        while len(self._plans) > KEPT_PLANS:
            del self._plans[next(iter(self._plans))]

    def _refused(
        self, model: ImageModel, settings: ImageSettings, step: _Plan, need: int, room: _Room
    ) -> TooLargeError:
        """The refusal in the engine's own words, with a size of the same shape that would fit."""
        assert settings.width is not None
        assert settings.height is not None
        area = settings.width * settings.height
        plan = step.planned[0].plan
        largest = max((v.nbytes for v in plan.places if isinstance(v, Value)), default=0)
        bound = largest / self.device.caps.limits.binding_bytes
        most = need if room.nbytes is None else room.nbytes

        def needed(width: int, height: int) -> int:
            share = width * height / area
            by_memory = need - plan.total + int(plan.total * share)
            return by_memory if share * max(1.0, bound) <= 1.0 else most + 1

        return refuse(settings.width, settings.height, need, most, needed)


def held_bytes(model: ImageModel | None) -> int:
    """Bytes that a loaded model holds now: weights, inputs, outputs and the arena."""
    if model is None:
        return 0
    store = model.workspace.store
    values = [*list(store.weights), *list(store.tensors)]  # snapshots: the engine goes on meanwhile
    return sum(value.nbytes for value in values) + model.workspace.arena_bytes
