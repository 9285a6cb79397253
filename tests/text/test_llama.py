"""Whole llama models against transformers: greedy tokens equal, logits within the stated error."""

from __future__ import annotations

import numpy as np
import pytest

from engine.gpu.device import Device

from .conftest import GOLDEN, golden, greedy, load_file, relative_error

TINY = sorted(path.stem for path in GOLDEN.glob("*.gguf"))


def tolerance(device: Device) -> float:
    """2e-2 where anything is f16, 1e-3 where all is f32."""
    return 2e-2 if device.caps.f16 else 1e-3


@pytest.fixture(params=TINY)
def case(request: pytest.FixtureRequest, device: Device):
    loaded = load_file(device, GOLDEN / f"{request.param}.gguf", 256)
    yield loaded.runner, golden(request.param)
    loaded.runner.destroy()


def test_tiny_models_agree_with_the_reference(case, device: Device) -> None:
    runner, want = case
    greedy(runner, want["prompt"], 1)
    assert relative_error(runner.logits(), np.array(want["logits"])) < tolerance(device)
    have = greedy(runner, want["prompt"], len(want["tokens"]))
    assert have == want["tokens"]


def test_chunks_do_not_change_the_result(device: Device) -> None:
    want = golden("grouped-f32")
    loaded = load_file(device, GOLDEN / "grouped-f32.gguf", 256)
    runner = loaded.runner
    whole = want["prompt"]
    greedy(runner, whole, 1)
    expected = runner.logits()
    for start in range(0, len(whole), 7):  # pieces that fill no chunk, and a rest of 6
        greedy(runner, whole[start : start + 7], 1, start)
    assert relative_error(runner.logits(), expected) < tolerance(device)
    runner.destroy()


def test_everything_is_given_back(device: Device) -> None:
    before = device.ledger.totals().total
    load_file(device, GOLDEN / "tied-f16.gguf", 64).runner.destroy()
    assert device.ledger.totals().total == before
