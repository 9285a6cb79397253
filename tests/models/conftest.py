"""Fixtures for model files: a home of one's own, small GGUF files, a local web server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from models.file_server import FileServer

from engine.formats.gguf import write_gguf
from engine.formats.quants import Quant

MakeGguf = Callable[..., Path]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of Driftwood's folders below a folder of this test; no token and no proxy of ours."""
    folder = tmp_path / "home"
    monkeypatch.setenv("DRIFTWOOD_HOME", str(folder))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


@pytest.fixture
def make_gguf(tmp_path: Path) -> MakeGguf:
    """Write a small llama file: ``make_gguf("name", rows=8, **metadata)``."""

    def make(name: str = "tiny", rows: int = 8, folder: Path | None = None, **more: object) -> Path:
        path = (folder or tmp_path) / f"{name}.gguf"
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata: dict[str, object] = {
            "general.license": "apache-2.0",
            "llama.block_count": 2,
            "llama.context_length": 512,
            "llama.embedding_length": 64,
            "llama.feed_forward_length": 128,
            "llama.attention.head_count": 4,
            "llama.attention.head_count_kv": 2,
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        weights = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64)
        write_gguf(path, "llama", metadata, {"token_embd.weight": (weights, Quant.F32)})
        return path

    return make


@pytest.fixture
def server() -> Iterator[FileServer]:
    """A web server that is closed after the test."""
    one = FileServer()
    one.start()
    yield one
    one.close()
