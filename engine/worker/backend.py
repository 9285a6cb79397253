"""What the worker needs of the text engine, as a protocol; the engine itself is imported late.

Everything is called on the engine thread but :meth:`Engine.memory`, which any thread may call.
Callbacks are called on the engine thread too. The engine polls ``cancelled`` at least once a token
and once a chunk of prefill or upload, and then ends the generation with stop reason ``stopped``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.worker.protocol import MemoryFigures, Message

if TYPE_CHECKING:
    from engine.image.settings import ImageSettings
    from engine.text.sampling import Sampling

Fields = Mapping[str, Any]
Cancelled = Callable[[], bool]
LoadProgress = Callable[[str, int, int], None]  # (phase, done, total)
OnStarted = Callable[[Fields], None]  # the fields of the event "started"
OnPrefill = Callable[[int, int], None]  # (tokens done, tokens in all)
OnStep = Callable[[int, int, float | None, Any], None]  # (step, total, seconds left, preview)
OnText = Callable[[str, int, int], None]  # (new text, tokens of the answer, context used)


@dataclass(frozen=True)
class EngineSettings:
    """Which GPU to open and what to leave out; None means the best one found."""

    backend: str | None = None  # "wgpu" or "dawn"
    device: str | None = None  # a part of the adapter's name
    without: tuple[str, ...] = ()


class Engine(Protocol):
    """A GPU with at most one text model on it."""

    def load(
        self, path: Path, context: int, progress: LoadProgress, cancelled: Cancelled
    ) -> Fields:
        """Load a model in place of the one before.

        Returns ``context, context_max, device, backend``. When it fails or is cancelled, nothing
        stays on the GPU. Raises engine.models.errors.CancelledError, the errors of the rooms below.
        """
        ...

    def chat(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        continue_last: bool,
        on_started: OnStarted,
        on_prefill: OnPrefill,
        on_text: OnText,
        cancelled: Cancelled,
    ) -> Fields:
        """Answer a conversation with the loaded model.

        Returns the fields of ``done`` that protocol.py lists, but for ``model``.
        """
        ...

    def complete(
        self,
        prompt: str,
        sampling: Sampling,
        on_started: OnStarted,
        on_prefill: OnPrefill,
        on_text: OnText,
        cancelled: Cancelled,
    ) -> Fields:
        """Go on with a text, without a chat template. Returns as :meth:`chat`."""
        ...

    def memory(self) -> Fields:
        """The fields of protocol.MemoryFigures.

        Any thread may call it, at any time; it takes well under a millisecond.
        """
        ...

    def doctor(self) -> Fields:
        """What GPU and driver were found, what works, what is missing."""
        ...

    def bench(self, kind: str, **options: Any) -> Fields:
        """Measure; ``kind`` is text, kernels or quality. Options: prompt_tokens, tokens, and the
        callables ``progress`` (phase, done, total) and ``cancelled``."""
        ...

    def unload(self) -> None:
        """Free the loaded model, if there is one."""
        ...

    def close(self) -> None:
        """Free everything and the device."""
        ...


class PictureEngine(Protocol):
    """The picture models on an engine's device, at most one at a time."""

    def load(
        self,
        path: Path,
        *,
        vae: Path | None = None,
        progress: LoadProgress = ...,
        cancelled: Cancelled = ...,
    ) -> Fields:
        """Load a model in place of the one before.

        Returns ``defaults, notes, device, backend`` and more. When it fails or is cancelled,
        nothing stays on the GPU.
        """
        ...

    def generate(
        self,
        settings: ImageSettings,
        on_step: OnStep | None = None,
        cancelled: Cancelled = ...,
        progress: LoadProgress = ...,
    ) -> tuple[list[Any], Mapping[str, Any]]:
        """Draw; see engine.image.engine.ImageEngine.generate."""
        ...

    def forecast(
        self,
        path: Path,
        settings: ImageSettings,
        *,
        vae: Path | None = None,
        is_loaded: bool = False,
        evictable: bool = False,
    ) -> Fields:
        """What an order needs; see engine.image.engine.ImageEngine.forecast. Any thread may ask."""
        ...

    def bench(self, kind: str, **options: Any) -> Mapping[str, Any]:
        """Measure the loaded model, or random weights of some ``shapes``.

        Options besides: width, height, steps, and the callables ``progress`` and ``cancelled``.
        """
        ...

    def count_tokens(self, prompt: str) -> Mapping[str, Any]:
        """``tokens, limit, chunks, cut, note`` of a prompt."""
        ...

    def unload(self) -> None:
        """Free the loaded model, if there is one."""
        ...

    def close(self) -> None:
        """Free everything but the device."""
        ...


OpenEngine = Callable[[EngineSettings], Engine]
OpenPictures = Callable[[Engine], PictureEngine]


def open_engine(settings: EngineSettings) -> Engine:
    """Open the GPU. Raises engine.gpu.errors.NoAdapterError and other GpuErrors."""
    from engine.models.paths import home_paths
    from engine.text.engine import TextEngine

    return TextEngine.open(settings, cache=home_paths().cache)


def open_pictures(engine: Engine) -> PictureEngine:
    """The picture engine on the device of a text engine."""
    from engine.image.engine import ImageEngine
    from engine.text.engine import TextEngine

    if not isinstance(engine, TextEngine):
        raise TypeError("Pictures need the device of a TextEngine.")
    return ImageEngine(engine.device, findings=engine.findings)


NO_MEMORY: MemoryFigures = {
    "weights": 0,
    "kv_cache": 0,
    "activations": 0,
    "other": 0,
    "total": 0,
    "peak": 0,
    "device_total": None,
    "device_used": None,
    "others": None,
    "device_name": "",
    "backend": "",
    "unified": False,
}
