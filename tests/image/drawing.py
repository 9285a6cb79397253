"""An engine that draws cases, with the model and the files that each needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from image.goldens import FOLDER
from image.picture_cases import Case, mask_picture, start_picture
from image.tiny_loras import write_lora
from image.tiny_pipelines import write_model, write_vae
from PIL import Image

from engine.gpu.device import Device
from engine.image.engine import ImageEngine
from engine.image.settings import ImageSettings, settings_from
from engine.tensor.descriptor import DType

#: Mean difference from diffusers' picture, of 255, in 32 and in 16 bits.
CLOSE, CLOSE_IN_16_BITS = 0.05, 1.0


@lru_cache
def _goldens() -> dict[str, np.ndarray]:
    return dict(np.load(FOLDER / "pictures.npz"))


def golden_picture(name: str) -> np.ndarray:
    """What diffusers draws of a case, uint8 [h, w, 3]."""
    return _goldens()[name]


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Mean absolute difference of two pictures of one size, of 255."""
    assert one.shape == other.shape
    return float(np.abs(one.astype(np.float64) - other).mean())


@dataclass
class Studio:
    """Draws on a device; the model stays loaded until another is asked for."""

    device: Device
    folder: Path
    memory_limit: int | None = None
    _loaded: tuple[Path, Path | None] | None = None
    _engine: ImageEngine | None = field(default=None, repr=False)

    @property
    def engine(self) -> ImageEngine:
        """The engine, opened at its first use."""
        if self._engine is None:
            self._engine = ImageEngine(self.device, self.memory_limit)
        return self._engine

    def load(self, path: Path, vae: Path | None = None) -> None:
        """Load a model, if it is not loaded."""
        if self._loaded != (path, vae):
            self.engine.load(path, vae=vae)
            self._loaded = (path, vae)

    def made(self, name: str, write: Callable[[Path], object]) -> Path:
        """A file or folder of the studio, written at its first use."""
        path = self.folder / name
        if not path.exists():
            write(path)
        return path

    def draw(self, case: Case, model: Path | None = None, **more: Any) -> np.ndarray:
        """The picture of a case."""
        pictures, _ = self.draw_all(case, model, **more)
        assert len(pictures) == 1
        return pictures[0]

    def draw_all(
        self, case: Case, model: Path | None = None, **more: Any
    ) -> tuple[list[np.ndarray], dict[str, Any]]:
        """The pictures of a case and what is told of them; ``more`` are further settings."""
        kind = case.kind
        path = model or self.made(kind, lambda path: write_model(path, kind))
        vae = self.made("other-vae", write_vae) if case.other_vae else None
        self.load(path, vae)
        return self.engine.generate(self.order(case, **more))

    def order(self, case: Case, **more: Any) -> ImageSettings:
        """The order of a case."""
        return settings_from({**self.settings(case), **more})

    def settings(self, case: Case) -> dict[str, Any]:
        """The settings of a case, with the files that it names."""
        settings = dict(case.settings)
        if case.init:
            settings["init"] = str(self.made("start.png", _saved(start_picture())))
        if case.mask:
            settings["mask"] = str(self.made("mask.png", _saved(mask_picture())))
        settings["loras"] = [
            {"path": str(self._lora(name)), "weight": weight} for name, weight in case.loras
        ]
        return settings

    def _lora(self, name: str) -> Path:
        return self.made(f"{name}.safetensors", lambda path: write_lora(path, name))

    @property
    def close_enough(self) -> float:
        """How far a picture may be from diffusers', by how the loaded model computes."""
        half = self.engine.pipeline.model.dtype is DType.F16
        return CLOSE_IN_16_BITS if half else CLOSE

    def close(self) -> None:
        """Give everything back."""
        if self._engine is not None:
            self._engine.close()


def _saved(pixels: np.ndarray) -> Callable[[Path], None]:
    return lambda path: Image.fromarray(pixels).save(path)
