"""Many pipelines compiled at once: a GPU's driver takes half a second for one large kernel.

wgpu-native compiles on threads of ours, Dawn on its own. What fails here fails again, with its
message, when the pipeline is asked for by itself.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from engine.gpu.device import Device
from engine.gpu.errors import GpuError, ShaderError
from engine.gpu.shaders import BindingSlot, Pipeline, begin_pipeline, compile_pipeline, pipeline_key

MOST_THREADS = 8  # of ours
AHEAD = 16  # pipelines that Dawn has in hand at once: who cancels waits for these


@dataclass(frozen=True)
class Source:
    """WGSL (entry point ``main``), what it binds, and what errors call it."""

    text: str
    slots: tuple[BindingSlot, ...]
    label: str


def compile_all(
    device: Device, sources: Sequence[Source], cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Fill the device's cache with those of ``sources`` that it lacks, until ``cancelled()``.

    Raises:
        DeviceLostError: the driver dropped the device.
    """
    missing = {pipeline_key(s.text, s.slots): s for s in sources}
    missing = {key: s for key, s in missing.items() if key not in device.pipelines}
    if len(missing) < 2 or device.caps.software:  # a software driver compiles at the first run
        return
    if device.caps.backend == "dawn":
        _on_its_threads(device, list(missing.values()), cancelled)
    else:
        _on_our_threads(device, missing, cancelled)


def _on_our_threads(
    device: Device, missing: dict[Any, Source], cancelled: Callable[[], bool]
) -> None:
    def work(source: Source) -> bool:
        if not cancelled():
            try:
                compile_pipeline(device, source.text, source.slots, source.label)
            except GpuError:
                return False
        return True

    threads = min(MOST_THREADS, os.cpu_count() or 1, len(missing))
    with ThreadPoolExecutor(threads, thread_name_prefix="compile") as pool:
        good = all(list(pool.map(work, missing.values())))
    if not good:  # the library does not say whose error it was, so none of these is trusted
        for key in missing:
            device.pipelines.pop(key, None)
    device.check()


def _on_its_threads(
    device: Device, sources: Sequence[Source], cancelled: Callable[[], bool]
) -> None:
    begun: deque[Callable[[], Pipeline]] = deque()
    for source in sources:
        if cancelled():
            break
        with contextlib.suppress(ShaderError):
            made = begin_pipeline(device, source.text, source.slots, source.label, apart=True)
            begun.append(made)
        if len(begun) == AHEAD:
            _finish(begun.popleft())
    while begun:
        _finish(begun.popleft())
    device.check()


def _finish(wait: Callable[[], Pipeline]) -> None:
    with contextlib.suppress(ShaderError):
        wait()
