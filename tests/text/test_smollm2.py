"""The starter model as people run it: 64 greedy tokens of three prompts equal the reference's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.gpu.device import Device, open_device
from engine.text.engine import TextEngine

from .conftest import golden, greedy, load_file, relative_error


@pytest.fixture(scope="module")
def device():
    opened = open_device()
    yield opened
    opened.close()


def test_greedy_answers_equal_the_reference(device: Device, smollm2: Path) -> None:
    runner = load_file(device, smollm2, 512).runner
    for case in golden("smollm2"):
        assert greedy(runner, case["prompt"], 64) == case["tokens"], case["text"]
        greedy(runner, case["prompt"], 1)
        error = relative_error(runner.logits()[case["ids"]], np.array(case["logits"]))
        assert error < (2e-2 if device.caps.f16 else 1e-3), case["text"]
    runner.destroy()


def test_a_question_gets_a_sensible_answer(device: Device, smollm2: Path) -> None:
    from engine.gpu.findings import Findings
    from engine.text.sampling import Sampling

    engine = TextEngine(device, Findings(None))
    engine.load(smollm2, 512, lambda *_: None, lambda: False)
    pieces: list[str] = []
    answer = engine.chat(
        [{"role": "user", "content": "What is the capital of France?"}],
        Sampling(temperature=0.0),
        False,
        lambda fields: None,
        lambda done, total: None,
        lambda text, count, used: pieces.append(text),
        lambda: False,
    )
    assert answer["text"] == "".join(pieces) == "The capital of France is Paris."
    assert answer["stop_reason"] == "end"
    engine.unload()
