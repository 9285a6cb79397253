"""Devices and models for tests of whole models."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.gpu.device import Device, open_device
from engine.kernels import state as run_state
from engine.text.loader import Loaded, load
from engine.text.runner import Runner

GOLDEN = Path(__file__).parents[1] / "golden" / "llama"

#: Every feature must work with any of these switched off.
SWITCHES = {
    "full": frozenset[str](),
    "no-f16": frozenset({"f16"}),
    "no-subgroups": frozenset({"subgroups"}),
    "small-limits": frozenset({"limits"}),
    "bare": frozenset({"f16", "subgroups", "limits", "dp4a"}),
    "unfused": frozenset({"fusion", "planner"}),
}


@pytest.fixture(scope="session", params=SWITCHES)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """This machine's GPU or its software stand-in, with techniques switched off in turn."""
    opened = open_device(backend="wgpu", without=SWITCHES[request.param])
    yield opened
    opened.close()


def load_file(device: Device, path: Path, context: int) -> Loaded:
    """Load a model without progress."""
    return load(device, path, context, lambda *_: None, lambda: False)


def golden(name: str) -> Any:
    """Expected prompt, tokens and logits of a golden model."""
    return json.loads((GOLDEN / f"{name}.json").read_text())


def greedy(runner: Runner, prompt: list[int], count: int, position: int = 0) -> list[int]:
    """``count`` greedy tokens behind ``prompt``, which starts at ``position`` of the cache."""
    runner.position = position
    runner.begin(0, run_state.pack_params(), [], [])
    assert runner.prefill(prompt, lambda: False, lambda done, total: None)
    return list(runner.decode(count))


def relative_error(have: np.ndarray, want: np.ndarray) -> float:
    """Largest difference, as a part of the largest expected logit."""
    return float(np.abs(have - want).max() / np.abs(want).max())


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The starter model's file; the test command fetches it and names it in the environment."""
    path = os.environ.get("DRIFTWOOD_TEST_MODEL")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("DRIFTWOOD_TEST_MODEL is not set: the test command fetches the model.")
        pytest.skip("DRIFTWOOD_TEST_MODEL names no model file")
    return Path(path)
