"""The picture engine as the worker sees it: a device and at most one model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.formats.diffusers import PipelineFiles, open_pipeline
from engine.gpu.device import Device
from engine.gpu.findings import Findings
from engine.image.errors import ImageError
from engine.image.forecast import Forecaster
from engine.image.pipeline import Cancelled, OnStep, Pictures, Pipeline, model_name
from engine.image.pipeline_model import load_model, weight_kind
from engine.image.selftest import check_device
from engine.image.settings import ImageSettings
from engine.image.weights_upload import Progress, never, silent

Fields = dict[str, Any]


class ImageEngine:
    """Loads picture models and draws on one device. Not safe for threads.

    Attributes:
        memory_limit: bytes that may be held in all, or None for what the device has.
    """

    def __init__(
        self,
        device: Device,
        memory_limit: int | None = None,
        findings: Findings | None = None,
    ) -> None:
        """``findings`` keep what the self-test found; without them the device is trusted."""
        self.device = device
        self._findings = findings
        self.memory_limit = memory_limit
        self._pipeline: Pipeline | None = None
        self._forecaster = Forecaster(device, memory_limit)

    @property
    def pipeline(self) -> Pipeline:
        """The loaded model at work; raises ImageError when there is none."""
        if self._pipeline is None:
            raise ImageError("No picture model is loaded.")
        return self._pipeline

    def load(
        self,
        path: Path,
        *,
        vae: Path | None = None,
        preview: Path | None = None,
        progress: Progress = silent,
        cancelled: Cancelled = never,
    ) -> Fields:
        """Load a diffusers folder or a checkpoint in place of the model before.

        Args:
            vae: an autoencoder to use instead of the model's own.
            preview: a tiny autoencoder (TAESD) for the live preview; None: one beside the model.
            progress: called with ("reading" or "uploading", done, total).

        Returns:
            what the model is: name, family, defaults, limits, notes, bytes.

        Raises:
            FormatError: the files are broken, or not of a kind that is run.
            OutOfMemoryError: they do not fit.
            LoadCancelledError: ``cancelled()`` became true.
            ShaderError: the driver computes wrong results.
        """
        progress("reading", 0, 1)
        files = open_pipeline(path, vae=vae, preview=preview)
        return self.load_files(files, progress=progress, cancelled=cancelled)

    def load_files(
        self,
        files: PipelineFiles,
        *,
        progress: Progress = silent,
        cancelled: Cancelled = never,
    ) -> Fields:
        """Load an open model, which the engine closes; see :meth:`load`."""
        self.unload()
        self._test(files, progress)
        self.device.ledger.reset_peak()
        model = load_model(
            self.device,
            files,
            memory_limit=self.memory_limit,
            progress=progress,
            cancelled=cancelled,
        )
        self._pipeline = Pipeline(model, self.memory_limit)
        return self.info()

    def _test(self, files: PipelineFiles, progress: Progress) -> None:
        """The self-test of what a model needs, where it has not been made on this device."""
        if self._findings is None:
            return
        try:
            kind = weight_kind(self.device, files, self.memory_limit, [])
            check_device(self.device, kind, self._findings, progress)
        except BaseException:
            files.close()
            raise

    def info(self) -> Fields:
        """The loaded model in plain values."""
        model = self.pipeline.model
        defaults = model.defaults
        return {
            "model": model_name(model.files.path),
            "family": model.files.family,
            "parameters": model.files.parameters,
            "weight_bytes": model.weight_bytes,
            "defaults": {
                "width": defaults.width,
                "height": defaults.height,
                "steps": defaults.steps,
                "guidance": defaults.guidance,
                "sampler": defaults.sampler,
                "strength": defaults.strength,
            },
            "prompt_tokens": model.tokenizers[0].limit,
            "latent_channels": model.vae_config.latent_channels,
            "latent_factor": model.vae_config.factor,
            "notes": list(model.notes),
            **self._device_fields(),
        }

    def _device_fields(self) -> Fields:
        return {"device": self.device.caps.device, "backend": self.device.caps.backend}

    def generate(
        self,
        settings: ImageSettings,
        on_step: OnStep | None = None,
        cancelled: Cancelled = never,
        progress: Progress = silent,
    ) -> tuple[list[Any], Fields]:
        """Draw.

        Args:
            on_step: called with (step, total, seconds left or None, preview or None); the preview
                is uint8 [pictures, h, w, 4] at the size of the latents.
            progress: called with ("uploading", "compiling" or "decoding", done, total).

        Returns:
            the pictures, uint8 [h, w, 3] each, and plain values about them: seeds, settings,
            seconds, seconds_per_step, notes, cancelled, peak_bytes.

        Raises:
            ImageError: a setting, file or size that cannot be (TooLargeError names one that fits).
            GpuError: memory ran out, or the device was lost.
        """
        made = self.pipeline.generate(settings, on_step or _no_step, cancelled, progress)
        return made.images, self._fields(made)

    def _fields(self, made: Pictures) -> Fields:
        return {
            "seeds": made.seeds,
            "settings": made.settings.as_dict(),
            "seconds": made.seconds,
            "seconds_per_step": made.seconds_per_step,
            "notes": made.notes,
            "cancelled": made.cancelled,
            "peak_bytes": self.device.ledger.totals().peak,
            "model": model_name(self.pipeline.model.files.path),
            **self._device_fields(),
        }

    def count_tokens(self, prompt: str) -> Fields:
        """Tokens of a prompt, how many the model reads at once, and what does not fit."""
        from engine.image.prompt import encode_prompt

        encoded = encode_prompt(self.pipeline.model.tokenizers[0], prompt)
        return {
            "tokens": encoded.tokens,
            "limit": encoded.limit,
            "chunks": encoded.chunks,
            "cut": encoded.cut,
            "note": encoded.note,
        }

    def forecast(
        self,
        path: Path,
        settings: ImageSettings,
        *,
        vae: Path | None = None,
        is_loaded: bool = False,
        evictable: bool = False,
    ) -> Fields:
        """What an order needs, without drawing it; any thread may ask.

        Args:
            is_loaded: the model at ``path``, with this autoencoder, is the loaded one.
            evictable: what else is on the device would be given up where both do not fit.

        Returns:
            need, more, free, evicts, problem, fits, tiled: see
            :class:`engine.image.forecast.Forecast`.
        """
        pipeline = self._pipeline
        made = self._forecaster.forecast(
            path,
            vae,
            settings,
            loaded=None if pipeline is None else pipeline.model,
            is_same=is_loaded and pipeline is not None,
            evictable=evictable,
        )
        return asdict(made)

    def bench(self, kind: str, **options: Any) -> Fields:
        """Measure; see :mod:`engine.image.bench`."""
        from engine.image import bench

        return bench.run(self, kind, **options)

    def unload(self) -> None:
        """Free the loaded model, if there is one."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.release()
            pipeline.model.destroy()

    def close(self) -> None:
        """Free everything but the device, which the caller owns."""
        self.unload()


def _no_step(step: int, total: int, seconds_left: float | None, preview: Any) -> None:
    del step, total, seconds_left, preview
