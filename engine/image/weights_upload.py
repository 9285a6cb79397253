"""Bring the weights that graphs asked for to the GPU: packed in threads, uploaded in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from engine.formats.packed import Packed
from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import BufferRange
from engine.graph.node import Value
from engine.image.errors import ImageError
from engine.image.weights import NetworkWeights
from engine.kernels.run import Store, WeightPart
from engine.tensor.weights import WeightDesc

Progress = Callable[[str, int, int], None]
Cancelled = Callable[[], bool]
Item = tuple[NetworkWeights, Value]


def silent(phase: str, done: int, total: int) -> None:
    """A progress that nobody follows."""
    del phase, done, total


def never() -> bool:
    """Nobody cancels."""
    return False


class LoadCancelledError(ImageError):
    """The person asked to stop loading; everything allocated so far has been given back."""

    def __init__(self) -> None:
        super().__init__("Loading was stopped.")


def missing(networks: Iterable[NetworkWeights], store: Store) -> list[Item]:
    """What graphs asked for and is not on the GPU yet."""
    return [
        (weights, value)
        for weights in networks
        for value in weights.recipes
        if value not in store.weights and value not in store.tensors
    ]


def upload(
    device: Device,
    items: Sequence[Item],
    store: Store,
    progress: Progress,
    cancelled: Cancelled,
) -> None:
    """Pack and upload values, into new buffers or over what lies there.

    Raises:
        OutOfMemoryError: a buffer did not fit.
        LoadCancelledError: ``cancelled()`` became true.
    """
    for _, value in items:
        _allocate(device, value, store)
    total = sum(value.nbytes for _, value in items)
    workers = min(8, os.cpu_count() or 1)
    waiting: deque[tuple[Value, Future[Packed | np.ndarray]]] = deque()
    done = 0

    def take() -> None:
        nonlocal done
        value, future = waiting.popleft()
        _write(device, value, future.result(), store)
        done += value.nbytes
        progress("uploading", done, total)

    with ThreadPoolExecutor(workers, thread_name_prefix="pack") as pool:
        try:
            for weights, value in items:
                waiting.append((value, pool.submit(_made, weights, value)))
                if len(waiting) > 2 * workers:
                    take()
                if cancelled():
                    raise LoadCancelledError
            while waiting:
                take()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _made(weights: NetworkWeights, value: Value) -> Packed | np.ndarray:
    if isinstance(value.desc, WeightDesc):
        return weights.packed(value)
    return weights.array(value)


def _allocate(device: Device, value: Value, store: Store) -> None:
    desc = value.desc
    if not isinstance(desc, WeightDesc):
        if value not in store.tensors:
            buffer = device.create_buffer(desc.nbytes, Purpose.WEIGHTS)
            store.tensors[value] = BufferRange(buffer, 0, buffer.nbytes)
        return
    if value in store.weights:
        return
    parts: list[WeightPart] = []
    for index in range(len(desc.parts)):
        codes = device.create_buffer(desc.code_bytes(index), Purpose.WEIGHTS)
        scales = None
        if desc.scale_words:
            buffer = device.create_buffer(desc.scale_bytes(index), Purpose.WEIGHTS)
            scales = BufferRange(buffer, 0, buffer.nbytes)
        parts.append(WeightPart(BufferRange(codes, 0, codes.nbytes), scales))
    store.weights[value] = tuple(parts)


def _write(device: Device, value: Value, made: Packed | np.ndarray, store: Store) -> None:
    desc = value.desc
    if isinstance(made, Packed) and isinstance(desc, WeightDesc):
        for part, first, rows in zip(store.weights[value], desc.starts, desc.parts, strict=True):
            device.upload(part.codes.buffer, made.codes[first : first + rows])
            if part.scales is not None:
                device.upload(part.scales.buffer, made.scales[first : first + rows])
        return
    target = store.tensors[value]
    assert isinstance(target, BufferRange)
    assert isinstance(made, np.ndarray)
    device.upload(target.buffer, made.astype(np.float32), target.offset)
