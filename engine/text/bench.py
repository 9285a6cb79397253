"""``driftwood bench text``: what was measured, next to what the hardware can do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.kernels import state as run_state
from engine.kernels.roof import copy_bytes_per_second
from engine.text.errors import TextError

if TYPE_CHECKING:
    from engine.text.engine import TextEngine
    from engine.text.runner import Runner


def run(engine: TextEngine, kind: str, **options: Any) -> dict[str, Any]:
    """Measure the loaded model.

    Args:
        kind: "text".
        options: ``prompt_tokens``, ``tokens``, and the callables ``progress`` and ``cancelled``.

    Raises:
        TextError: the kind is unknown, or the context is too short for the tokens asked for.
    """
    if kind != "text":
        raise TextError(f"This version measures text only, not {kind}.")
    return bench_text(
        engine,
        prompt_tokens=int(options.get("prompt_tokens") or 512),
        tokens=int(options.get("tokens") or 64),
        progress=options.get("progress") or _silent,
        cancelled=options.get("cancelled") or (lambda: False),
    )


def _silent(phase: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""


def bench_text(
    engine: TextEngine,
    prompt_tokens: int,
    tokens: int,
    progress: Callable[[str, int, int], None],
    cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """Prefill and decode speed of the loaded model on random tokens, greedy.

    Returns the fields that ``driftwood bench text --json`` prints; rates are per second, the share
    is of a copy kernel's bandwidth measured in the same run.
    """
    active = engine.active
    runner = active.loaded.runner
    if prompt_tokens + tokens > active.loaded.context:
        raise TextError(
            f"{prompt_tokens:,} + {tokens:,} tokens need a context of at least that many; "
            f"the model was loaded with {active.loaded.context:,}."
        )
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, active.loaded.config.vocabulary, prompt_tokens).tolist()
    progress("warming", 0, 3)
    _prefill(runner, prompt, cancelled)  # compiles what is not compiled yet
    _decode(runner, prompt, min(tokens, 4))
    progress("prefill", 1, 3)
    prefill = min(_prefill(runner, prompt, cancelled) for _ in range(_repeats(engine)))
    progress("decode", 2, 3)
    runner.stats.encode_seconds, runner.stats.steps = 0.0, 0
    decode = _decode(runner, prompt, tokens)
    stats = runner.stats
    totals = engine.device.ledger.totals()  # before the roof is measured in buffers of its own
    copy = copy_bytes_per_second(engine.device)
    active.session.cached.clear()
    runner.position = 0
    rate = tokens / decode
    weight_bytes = _bytes_per_token(runner)
    return {
        "prompt_tokens": prompt_tokens,
        "tokens": tokens,
        "prefill_tokens_per_second": prompt_tokens / prefill,
        "decode_tokens_per_second": rate,
        "cpu_encode_ms_per_token": 1e3 * stats.encode_seconds / max(1, stats.steps),
        "dispatches_per_token": len(runner.program("decode").commands),
        "file_bytes": active.loaded.weight_bytes,
        "weight_bytes": weight_bytes,
        "gpu_bytes_peak": totals.peak,
        "gpu_bytes": {purpose.value: size for purpose, size in totals.by_purpose.items()},
        "copy_bytes_per_second": copy,
        "share_of_copy_bandwidth": weight_bytes * rate / copy,
        **runner.plan_figures(),
        "device": engine.device.caps.device,
        "backend": engine.device.caps.backend,
    }


def _repeats(engine: TextEngine) -> int:
    return 1 if engine.device.caps.software else 3


def _bytes_per_token(runner: Runner) -> int:
    """Bytes of weights that one decoded token reads: all matrices but an untied embedding."""
    model = runner.model
    return sum(
        value.nbytes
        for name, value in model.weights.items()
        if name != "token_embd.weight" or model.output_name == name
    )


def _prefill(runner: Runner, prompt: list[int], cancelled: Callable[[], bool]) -> float:
    """Seconds from an empty cache to the first sampled token."""
    runner.position = 0
    runner.begin(0, run_state.pack_params(), prompt, [])
    runner.device.wait()
    start = time.perf_counter()
    runner.prefill(prompt, cancelled, lambda done, total: None)
    next(runner.decode(1))
    return time.perf_counter() - start


def _decode(runner: Runner, prompt: list[int], tokens: int) -> float:
    """Seconds of ``tokens`` decode steps behind the prompt."""
    runner.position = 0
    runner.begin(0, run_state.pack_params(), prompt, [])
    runner.prefill(prompt, lambda: False, lambda done, total: None)
    start = 0.0
    for index, _ in enumerate(runner.decode(tokens + 1)):
        if index == 0:  # prefill's token
            start = time.perf_counter()
    return time.perf_counter() - start
