"""Vocabularies for the tests: small committed ones, and real ones where a file is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.formats.gguf import open_gguf
from engine.text.tokenizer import Tokenizer, load_tokenizer

GOLDEN = Path(__file__).parent.parent / "golden" / "tokenizers"


def golden(name: str) -> Any:
    """A committed reference file."""
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Texts that tokenizers disagree about."""
    return golden("texts")


@pytest.fixture(scope="session")
def bpe_golden() -> Any:
    """A byte-level vocabulary and llama.cpp's ids."""
    return golden("bpe")


@pytest.fixture(scope="session")
def spm_golden() -> Any:
    """SentencePiece vocabularies and SentencePiece's ids."""
    return golden("spm")


@pytest.fixture(scope="session")
def models_golden() -> Any:
    """llama.cpp's ids with real vocabularies."""
    return golden("models")


def byte_metadata(control: Sequence[str], user: Sequence[str] = ()) -> dict[str, Any]:
    """A vocabulary of the 256 bytes without merges, behind the given special tokens."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = [chr(value) for value in printable] + [chr(256 + place) for place in range(68)]
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*control, *user, *letters],
        "tokenizer.ggml.token_type": [3] * len(control) + [4] * len(user) + [1] * len(letters),
        "tokenizer.ggml.merges": [],
    }


@pytest.fixture(scope="session")
def make_bytes() -> Callable[..., dict[str, Any]]:
    """:func:`byte_metadata`."""
    return byte_metadata


@pytest.fixture(scope="session")
def chatml() -> Tokenizer:
    """A byte vocabulary with ChatML's control tokens."""
    metadata = byte_metadata(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return load_tokenizer(metadata | {"tokenizer.ggml.eos_token_id": 2})


def _real(variable: str) -> Mapping[str, object]:
    path = os.environ.get(variable)
    if path is None:
        pytest.skip(f"{variable} names no model file")
    with open_gguf(Path(path)) as file:
        return dict(file.metadata)


@pytest.fixture(scope="session")
def smollm2() -> Mapping[str, object]:
    """Metadata of the starter model."""
    return _real("DRIFTWOOD_TEST_MODEL")


@pytest.fixture(scope="session")
def gemma3() -> Mapping[str, object]:
    """Metadata of gemma-3-270m."""
    return _real("DRIFTWOOD_TEST_GEMMA")
