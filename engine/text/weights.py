"""From a GGUF file to weights on the GPU: which matrices, how stacked and cut, and their upload."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from engine.formats.gguf import GgufFile, TensorInfo
from engine.formats.packed import pack_into, packed_words
from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import BufferRange
from engine.graph.node import Role, Value
from engine.kernels.run import WeightPart
from engine.tensor.weights import WeightDesc
from engine.text.config import TransformerConfig
from engine.text.errors import UnsupportedModelError
from engine.text.model import stack_name

#: Raw bytes packed by one thread at a time: long enough to amortise a task, short enough to cancel.
CHUNK_BYTES = 8 << 20

Progress = Callable[[str, int, int], None]
Cancelled = Callable[[], bool]


class LoadCancelledError(Exception):
    """The person asked to stop loading; everything allocated so far has been given back."""


@dataclass(frozen=True)
class WeightPlan:
    """One matrix on the GPU and the file's tensors stacked into it, first rows first."""

    value: Value
    sources: tuple[TensorInfo, ...]


def plan_matrix(file: GgufFile, name: str, sources: Sequence[str], limit: int) -> WeightPlan:
    """Describe the stack of ``sources`` as one packed matrix, cut below ``limit`` bytes."""
    infos = tuple(file.tensors[source] for source in sources)
    rows = sum(info.shape[0] for info in infos)
    cols = infos[0].shape[1]
    code_words, scale_words = packed_words(infos[0].quant, cols)
    desc = WeightDesc(
        rows, cols, infos[0].quant.name.lower(), code_words, scale_words, (rows,)
    ).split(limit)
    return WeightPlan(Value(name, desc, Role.WEIGHT), infos)


def plan_layer(
    file: GgufFile, layer: int, matrices: Mapping[str, Sequence[str]], limit: int
) -> Iterator[WeightPlan]:
    """The matrices of one layer: stacked where kinds and columns agree, else one by one."""
    prefix = f"blk.{layer}."
    for names in matrices.values():
        full = [prefix + name for name in names]
        infos = [file.tensors[name] for name in full]
        stackable = len({(info.quant, info.shape[1]) for info in infos}) == 1
        if stackable:
            yield plan_matrix(file, stack_name(prefix, names), full, limit)
        else:
            yield from (plan_matrix(file, name, [name], limit) for name in full)


def check_tensors(file: GgufFile, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Every tensor that the architecture needs must be there, with its shape.

    Raises:
        UnsupportedModelError: names the first ones that are missing or of another shape.
    """
    missing = [name for name in expected if name not in file.tensors]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UnsupportedModelError(
            f"The model file lacks {len(missing)} of {len(expected)} tensors: "
            f"{', '.join(missing[:3])}{more}."
        )
    for name, shape in expected.items():
        if tuple(file.tensors[name].shape) != shape:
            raise UnsupportedModelError(
                f"The tensor {name} has the shape {tuple(file.tensors[name].shape)}, "
                f"where {shape} is needed."
            )


def expected_shapes(
    config: TransformerConfig, norms: Sequence[str], matrices: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a llama-like model, without the optional output."""
    width, kv = config.embedding, config.kv_heads * config.head_dim
    sizes = {
        "attn_q.weight": (config.query_channels, width),
        "attn_k.weight": (kv, width),
        "attn_v.weight": (kv, width),
        "attn_output.weight": (width, config.query_channels),
        "ffn_gate.weight": (config.feed_forward, width),
        "ffn_up.weight": (config.feed_forward, width),
        "ffn_down.weight": (width, config.feed_forward),
    }
    expected: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (config.vocabulary, width),
        "output_norm.weight": (width,),
    }
    for layer in range(config.layers):
        expected |= {f"blk.{layer}.{norm}": (width,) for norm in norms}
        for names in matrices.values():
            expected |= {f"blk.{layer}.{name}": sizes[name] for name in names}
    return expected


@dataclass(frozen=True)
class _Chunk:
    """Rows ``first`` to ``last`` of a source, which go to ``row`` of a part's buffers."""

    source: TensorInfo
    first: int
    last: int
    part: WeightPart
    row: int


def allocate_weight(device: Device, desc: WeightDesc) -> tuple[WeightPart, ...]:
    """Empty buffers for every part of a matrix."""
    parts: list[WeightPart] = []
    for index in range(len(desc.parts)):
        codes = device.create_buffer(desc.code_bytes(index), Purpose.WEIGHTS)
        scales = None
        if desc.scale_words:
            buffer = device.create_buffer(desc.scale_bytes(index), Purpose.WEIGHTS)
            scales = BufferRange(buffer, 0, buffer.nbytes)
        parts.append(WeightPart(BufferRange(codes, 0, codes.nbytes), scales))
    return tuple(parts)


def upload_weights(
    device: Device,
    file: GgufFile,
    plans: Sequence[WeightPlan],
    store: dict[Value, tuple[WeightPart, ...]],
    progress: Progress,
    cancelled: Cancelled,
) -> None:
    """Allocate, pack (in threads) and upload every planned matrix; fills ``store``.

    Raises:
        OutOfMemoryError: a buffer did not fit.
        LoadCancelledError: ``cancelled()`` became true.
    """
    for plan in plans:
        store[plan.value] = allocate_weight(device, plan.value.weight)
    total = sum(info.nbytes for plan in plans for info in plan.sources)
    chunks = (chunk for plan in plans for chunk in _chunks(plan, store[plan.value]))
    workers = min(8, os.cpu_count() or 1)
    waiting: deque[tuple[_Chunk, Future[tuple[np.ndarray, np.ndarray]]]] = deque()
    done = 0
    with ThreadPoolExecutor(workers, thread_name_prefix="pack") as pool:
        try:
            for chunk in chunks:
                waiting.append((chunk, pool.submit(_pack, file, chunk)))
                if len(waiting) > 2 * workers:
                    done += _upload_next(device, waiting)
                    progress("uploading", done, total)
                if cancelled():
                    raise LoadCancelledError
            while waiting:
                done += _upload_next(device, waiting)
                progress("uploading", done, total)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _chunks(plan: WeightPlan, parts: tuple[WeightPart, ...]) -> Iterator[_Chunk]:
    """Cut a matrix where a source, a part or the chunk size ends."""
    desc = plan.value.weight
    ends = [start + rows for start, rows in zip(desc.starts, desc.parts, strict=True)]
    row, part = 0, 0
    for source in plan.sources:
        step = max(1, CHUNK_BYTES * source.shape[0] // source.nbytes)
        first = 0
        while first < source.shape[0]:
            if row == ends[part]:
                part += 1
            count = min(step, source.shape[0] - first, ends[part] - row)
            yield _Chunk(source, first, first + count, parts[part], row - desc.starts[part])
            first += count
            row += count


def _pack(file: GgufFile, chunk: _Chunk) -> tuple[np.ndarray, np.ndarray]:
    quant, cols = chunk.source.quant, chunk.source.shape[1]
    code_words, scale_words = packed_words(quant, cols)
    rows = chunk.last - chunk.first
    codes = np.empty((rows, code_words), np.uint32)
    scales = np.empty((rows, scale_words), np.uint32)
    raw = file.raw(chunk.source.name)
    pack_into(raw, quant, cols, codes, scales, first=chunk.first, last=chunk.last)
    return codes, scales


def _upload_next(
    device: Device, waiting: deque[tuple[_Chunk, Future[tuple[np.ndarray, np.ndarray]]]]
) -> int:
    """Upload the oldest packed chunk; returns the bytes of the file that it stands for."""
    chunk, future = waiting.popleft()
    codes, scales = future.result()
    row_bytes = codes.shape[1] * 4
    device.upload(chunk.part.codes.buffer, codes, chunk.row * row_bytes)
    if chunk.part.scales is not None:
        device.upload(chunk.part.scales.buffer, scales, chunk.row * scales.shape[1] * 4)
    return (chunk.last - chunk.first) * (chunk.source.nbytes // chunk.source.shape[0])
