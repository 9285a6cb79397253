"""The golden files of the picture networks (tests/golden/make_image.py)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.formats.quants import Quant
from engine.formats.safetensors import SafetensorsFile, open_safetensors
from engine.image.weights import NetworkWeights

FOLDER = Path(__file__).parents[1] / "golden" / "image"
STARTER = Path(__file__).parents[2] / "assets" / "starter-image"


class FileSource:
    """The weights of one safetensors file by name."""

    def __init__(self, file: SafetensorsFile) -> None:
        self._file = file

    def __contains__(self, name: object) -> bool:
        return name in self._file.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file.tensors[name].shape)

    def array(self, name: str) -> np.ndarray:
        return self._file.array(name)


@dataclass(frozen=True)
class Golden:
    """One small network: its configuration, weights, and what diffusers computes."""

    config: Any
    weights: NetworkWeights
    expected: dict[str, np.ndarray]

    def nhwc(self, name: str) -> np.ndarray:
        """A picture or latents of the file, channels last."""
        return self.expected[name].transpose(0, 2, 3, 1)


@lru_cache
def _files(name: str) -> tuple[dict[str, Any], SafetensorsFile, dict[str, np.ndarray]]:
    folder = FOLDER / name
    data = json.loads((folder / "config.json").read_text())
    file = open_safetensors(folder / "model.safetensors")
    return data, file, dict(np.load(folder / "expected.npz"))


def golden(name: str, read: Callable[..., Any], quant: Quant = Quant.F16, **options: Any) -> Golden:
    """A golden file by name; ``read`` checks its JSON."""
    data, file, expected = _files(name)
    config = read(data, **options)
    return Golden(config, NetworkWeights(name, FileSource(file), quant), expected)


def close(have: np.ndarray, want: np.ndarray, most: float) -> None:
    """Refuse numbers further apart than ``most`` of the largest."""
    have = np.reshape(have, want.shape)
    worst = float(np.max(np.abs(have - want))) / float(np.max(np.abs(want)))
    assert worst <= most, f"off by {worst:.2e} of the largest number; {most:.0e} is allowed"
