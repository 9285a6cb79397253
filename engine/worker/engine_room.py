"""Requests that use the GPU. All of them run on one thread; only the memory figures do not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from engine.models.fit import DEFAULT_CONTEXT, fits
from engine.models.inspection import InstalledModel, model_details
from engine.models.store import Store
from engine.worker.backend import NO_MEMORY, Engine, EngineSettings, OpenEngine
from engine.worker.failures import (
    DoesNotFitError,
    RequestError,
    SettingRefusedError,
    code_of,
)
from engine.worker.job import Job
from engine.worker.protocol import TECHNIQUES

if TYPE_CHECKING:
    from engine.text.sampling import Sampling

log = logging.getLogger(__name__)
SHORTEST_CONTEXT: Final = 16  # tokens; below it nothing can be said
SHORTEST_AUTOMATIC: Final = 512  # tokens; a full GPU gets no shorter context by itself
BENCH_KINDS: Final = ("text", "kernels", "quality")
BENCH_PROMPT, BENCH_TOKENS = 512, 64  # measured unless other numbers are asked for


@dataclass(frozen=True)
class _Loaded:
    """The model on the GPU."""

    model: InstalledModel
    context: int
    about: Mapping[str, Any]  # what Engine.load returned


class Tenant(Protocol):
    """What else lives on the same device."""

    def unload(self) -> str | None:
        """Free its model; the model's name, or None if there was none."""
        ...

    def close(self) -> None:
        """Free everything: the device is about to be closed."""
        ...

    def forget(self) -> None:
        """Let go of what is lost with its device."""
        ...


class EngineRoom:
    """The engine, opened on first use, and the one text model on it.

    ``settings`` are those of the next opening; ``tenant`` shares the device.
    """

    tenant: Tenant | None = None

    def __init__(self, store: Store, open_engine: OpenEngine, settings: EngineSettings) -> None:
        self.settings = settings
        self._store = store
        self._open_engine = open_engine
        self._engine: Engine | None = None
        self._loaded: _Loaded | None = None

    @property
    def loaded_path(self) -> Path | None:
        """The file of the model on the GPU. Any thread may ask."""
        loaded = self._loaded
        return loaded.model.path if loaded else None

    @property
    def loaded_name(self) -> str | None:
        """The name of the model on the GPU. Any thread may ask."""
        loaded = self._loaded
        return loaded.model.name if loaded else None

    @property
    def loaded(self) -> tuple[Path, int] | None:
        """The file of the model on the GPU and its context in tokens. Any thread may ask."""
        loaded = self._loaded
        return (loaded.model.path, loaded.context) if loaded else None

    def context_of(self, model: InstalledModel, wanted: int | None) -> int:
        """The context that a chat would have, in tokens. Any thread may ask."""
        loaded = self._loaded
        if wanted is None and loaded is not None and loaded.model.path == model.path:
            return loaded.context
        return context_for(model, wanted)

    def memory(self) -> Mapping[str, Any]:
        """What is held now. Any thread may ask."""
        engine = self._engine
        return engine.memory() if engine is not None else NO_MEMORY

    def open(self) -> Engine:
        """The engine, opened if it is not. Raises GpuErrors."""
        if self._engine is None:
            self._engine = self._open_engine(self.settings)
        return self._engine

    def close(self) -> None:
        """Give the GPU back."""
        engine, self._engine, self._loaded = self._engine, None, None
        if self.tenant is not None:
            self.tenant.close()
        if engine is not None:
            engine.close()

    def release(self, path: Path | None) -> None:
        """Free the loaded model if it is this file."""
        if path is not None and self.loaded_path == path:
            self._unload()

    def recover(self, error: Exception) -> None:
        """After a failure: what is broken is given back, so that the next request starts clean."""
        from engine.gpu.errors import GpuError

        code = code_of(error) or "internal"
        try:
            if code == "device_lost":
                self.close()
            elif self._loaded is None or code in ("out_of_memory", "shader", "internal"):
                self._unload()
        except GpuError as second:  # a lost device may refuse even to be closed
            log.warning("after %s: %s", code, second)
            self._engine = self._loaded = None
            if self.tenant is not None:
                self.tenant.forget()

    def unload_text(self) -> str | None:
        """Free the text model; its name, or None if there was none."""
        loaded = self._loaded
        self._unload()
        return loaded.model.name if loaded else None

    def doctor(self, job: Job) -> None:
        """Tell about the GPU, also when there is none."""
        from engine.gpu.errors import GpuError

        if job.request.fields.get("refresh"):
            self.close()
        try:
            report = self.open().doctor()
        except GpuError as error:
            report = {"ok": False, "device": None, "problems": [str(error)]}
        job.done(report=report)

    def load(self, job: Job) -> None:
        """Load a model."""
        loaded, warnings = self._ensure_loaded(job, job.request.fields.get("context"))
        job.done(**_about(loaded), memory=self.memory(), warnings=warnings)

    def unload(self, job: Job) -> None:
        """Free the models, or those of one kind."""
        kind = job.request.fields.get("kind")
        if kind != "image":
            self._unload()
        if kind != "text" and self.tenant is not None:
            self.tenant.unload()
        job.done()

    def chat(self, job: Job) -> None:
        """Answer a conversation."""
        asked = job.request.fields
        sampling = sampling_of(asked.get("sampling", {}))
        loaded, warnings = self._ensure_loaded(job, asked.get("context"))
        result = self.open().chat(
            asked["messages"],
            sampling,
            asked.get("continue", False),
            lambda started: job.send("started", **_warned(started, warnings)),
            lambda done, total: job.send("prefill", done=done, total=total),
            _text_sender(job),
            job.cancelled,
        )
        job.done(**{**_about(loaded), **result, "model": loaded.model.name})

    def complete(self, job: Job) -> None:
        """Go on with a text as it is."""
        asked = job.request.fields
        sampling = sampling_of(asked.get("sampling", {}))
        loaded, warnings = self._ensure_loaded(job, asked.get("context"))
        result = self.open().complete(
            asked["prompt"],
            sampling,
            lambda started: job.send("started", **_warned(started, warnings)),
            lambda done, total: job.send("prefill", done=done, total=total),
            _text_sender(job),
            job.cancelled,
        )
        job.done(**{**_about(loaded), **result, "model": loaded.model.name})

    def bench(self, job: Job) -> None:
        """Measure."""
        asked = dict(job.request.fields)
        kind: str = asked.pop("kind")
        if kind not in BENCH_KINDS:
            raise RequestError(f'There is no bench "{kind}". There are: {", ".join(BENCH_KINDS)}.')
        name = ""
        if kind != "kernels":
            if "model" not in asked:
                raise RequestError(f"The bench {kind} needs a model.")
            needed = asked.get("prompt_tokens", BENCH_PROMPT) + asked.get("tokens", BENCH_TOKENS)
            context = asked.get("context", max(needed, SHORTEST_CONTEXT))
            loaded, _ = self._ensure_loaded(job, context)
            name = loaded.model.name
        options = {key: asked[key] for key in ("prompt_tokens", "tokens") if key in asked}
        report = self.open().bench(kind, progress=job.phase, cancelled=job.cancelled, **options)
        job.done(report={"model": name, **report} if name else report)

    def change_settings(self, job: Job) -> None:
        """Close the engine; the next request opens it with the new settings."""
        asked = job.request.fields
        without = tuple(asked.get("without", self.settings.without))
        unknown = [one for one in without if one not in TECHNIQUES]
        if unknown:
            raise SettingRefusedError(
                f'There is no technique "{unknown[0]}". There are: {", ".join(TECHNIQUES)}.'
            )
        self.close()
        self.settings = EngineSettings(
            backend=asked.get("backend", self.settings.backend) or None,
            device=asked.get("device", self.settings.device) or None,
            without=without,
        )
        job.done()

    def _unload(self) -> None:
        self._loaded = None
        if self._engine is not None:
            self._engine.unload()

    def _ensure_loaded(self, job: Job, wanted: int | None) -> tuple[_Loaded, list[str]]:
        """The wanted model on the GPU, loaded if it is not, and what to tell of it.

        ``wanted`` is the context in tokens; None takes what is loaded, or the usual one, shortened
        where the memory is short. Raises the errors of all rooms.
        """
        model = self._store.find(job.request.fields["model"])
        if model.problem:
            self._raise_problem(model)
        if model.kind != "text":
            raise RequestError(f"{model.name} makes pictures. Choose a model that writes text.")
        here = self._loaded
        if here and here.model == model and wanted in (None, here.context):
            return here, []
        context = context_for(model, wanted)
        self._unload()
        engine = self.open()
        warnings = self._make_room(model, context)
        if wanted is None:
            context = fitting_context(model, context, engine.memory())
        check_fit(model, context, engine.memory())
        about = engine.load(model.path, context, job.phase, job.cancelled)
        self._loaded = _Loaded(model, context, about)
        return self._loaded, warnings

    def _make_room(self, model: InstalledModel, context: int) -> list[str]:
        """Unload the picture model where both do not fit; what to tell of it."""
        free = free_bytes(self.memory())
        if free is None or self.tenant is None or model.need(context).total <= free:
            return []
        name = self.tenant.unload()
        return (
            []
            if name is None
            else [
                f"{name} was unloaded: it and {model.name} do not fit in the GPU's memory together."
            ]
        )

    def _raise_problem(self, model: InstalledModel) -> None:
        """Open a broken file again, for the error's own type."""
        model_details(model.path)
        raise RequestError(model.problem or "")


def context_for(model: InstalledModel, wanted: int | None) -> int:
    """The context to load with, in tokens. Raises SettingRefusedError."""
    longest = model.context or DEFAULT_CONTEXT
    if wanted is None:
        return min(DEFAULT_CONTEXT, longest)
    if wanted > longest:
        raise SettingRefusedError(
            f"{model.name} was made for a context of at most {longest:,} tokens; "
            f"{wanted:,} were asked for."
        )
    if wanted < SHORTEST_CONTEXT:
        raise SettingRefusedError(
            f"A context of {wanted:,} tokens is too short; the shortest is {SHORTEST_CONTEXT}."
        )
    return wanted


def sampling_of(asked: Mapping[str, Any]) -> Sampling:
    """The sampler's settings, nulls left out. Raises SettingError."""
    from engine.text.sampling import Sampling

    return Sampling.from_mapping({k: v for k, v in asked.items() if v is not None})


def check_fit(model: InstalledModel, context: int, memory: Mapping[str, Any]) -> None:
    """Raise DoesNotFitError unless the model fits with a context of this many tokens."""
    free = free_bytes(memory)
    if free is not None and (problem := fits(model.need(context), free)):
        raise DoesNotFitError(problem)


def fitting_context(model: InstalledModel, context: int, memory: Mapping[str, Any]) -> int:
    """``context``, halved until the model fits; as it was where no half of it does."""
    free = free_bytes(memory)
    shorter = context
    while free is not None and model.need(shorter).total > free:
        shorter //= 2
        if shorter < SHORTEST_AUTOMATIC:
            return context
    return shorter


def free_bytes(memory: Mapping[str, Any]) -> int | None:
    """What is free on the GPU, or None where the platform does not tell."""
    total, used = memory["device_total"], memory["device_used"]
    if total is None or used is None:
        return None  # the allocation itself will tell
    return total - used


def _warned(started: Mapping[str, Any], warnings: list[str]) -> Mapping[str, Any]:
    """``started`` with our own warnings beside the engine's."""
    own = started.get("warning")
    said = [*warnings, own] if own else warnings
    return {**started, "warning": " ".join(said) or None}


def _about(loaded: _Loaded) -> dict[str, Any]:
    return {"model": loaded.model.name, **loaded.about, "context": loaded.context}


def _text_sender(job: Job) -> Any:
    def send(text: str, token_count: int, context_used: int) -> None:
        job.send("text", text=text, token_count=token_count, context_used=context_used)

    return send
