"""Fixtures for the worker: a home of one's own, model files, a server around a played engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from worker.bench import Bench

from engine.formats.gguf import write_gguf
from engine.formats.quants import Quant

MakeModel = Callable[..., Path]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of Driftwood's folders below a folder of this test."""
    folder = tmp_path / "home"
    monkeypatch.setenv("DRIFTWOOD_HOME", str(folder))
    return folder


@pytest.fixture
def make_model(home: Path) -> MakeModel:
    """Put a small llama file into the models folder."""

    def make(name: str = "tiny", broken: bool = False) -> Path:
        path = home / "models" / f"{name}.gguf"
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata: dict[str, object] = {
            "llama.block_count": 1,
            "llama.context_length": 512,
            "llama.embedding_length": 32,
            "llama.attention.head_count": 1,
        }
        weights = np.zeros((4, 32), np.float32)
        write_gguf(path, "llama", metadata, {"token_embd.weight": (weights, Quant.F32)})
        if broken:
            path.write_bytes(path.read_bytes()[:-50])
        return path

    return make


@pytest.fixture
def bench(home: Path, make_model: MakeModel) -> Iterator[Bench]:
    """A server on threads of its own, with one model and a played engine."""
    make_model("tiny")
    one = Bench(home / "models")
    yield one
    one.close()
