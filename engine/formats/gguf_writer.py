"""Write GGUF version 3 files: beside the target, then renamed, so no reader sees half a file."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from engine.formats.errors import FormatError
from engine.formats.gguf_header import ARRAY, BOOL, DEFAULT_ALIGNMENT, MAGIC, NUMBERS, STRING
from engine.formats.kinds import CHUNK_WEIGHTS, Quant, check_raw
from engine.formats.quantiser import quantise

Tensors = Mapping[str, tuple[NDArray[Any], Quant]]

U32, I32, F32, U64, I64 = 4, 5, 6, 10, 11
_KIND_OF_DTYPE = {np.dtype(code): kind for kind, code in NUMBERS.items()}


def write_gguf(
    path: str | Path, architecture: str, metadata: Mapping[str, object], tensors: Tensors
) -> None:
    """Write a GGUF file.

    A tensor is ``(array, quant)``: a uint8 array holds rows as stored (``[..., row_bytes]``), a
    float array is quantised on the way, row by row. Metadata values are bool, int, float, str,
    bytes, numpy arrays, or lists of one kind; ``general.architecture`` is added. An existing file
    is replaced. Raises FormatError for values that GGUF cannot hold, OSError when the disk does.
    """
    path = Path(path)
    entries = {"general.architecture": architecture, **metadata}
    alignment = entries.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise FormatError(f"general.alignment is a power of two, not {alignment!r}.")
    shapes = {name: _shape(name, array, quant) for name, (array, quant) in tensors.items()}
    header = _header(entries, tensors, shapes, alignment)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(header)
            _pad(file, alignment)
            for name, (array, quant) in tensors.items():
                _write_rows(file, array.reshape(-1, array.shape[-1]), quant, shapes[name][-1])
                _pad(file, alignment)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _shape(name: str, array: NDArray[Any], quant: Quant) -> tuple[int, ...]:
    """The logical shape, in numpy order, of what the caller gave."""
    if not 1 <= array.ndim <= 4 or array.size == 0:
        raise FormatError(f"Tensor {name!r} has the shape {list(array.shape)}; 1 to 4 axes.")
    if array.dtype != np.uint8:
        quant.row_bytes(array.shape[-1])
        return array.shape
    if array.shape[-1] % quant.block_bytes:
        raise FormatError(
            f"Tensor {name!r} has rows of {array.shape[-1]} bytes, not a multiple of "
            f"{quant.name}'s {quant.block_bytes}."
        )
    return (*array.shape[:-1], array.shape[-1] // quant.block_bytes * quant.block)


def _header(
    entries: Mapping[str, object],
    tensors: Tensors,
    shapes: Mapping[str, tuple[int, ...]],
    alignment: int,
) -> bytes:
    parts = [MAGIC, struct.pack("<IQQ", 3, len(tensors), len(entries))]
    parts += [_string(key) + _value(key, value) for key, value in entries.items()]
    offset = 0
    for name, (_, quant) in tensors.items():
        shape = shapes[name]
        parts.append(_string(name))
        parts.append(struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape)))
        parts.append(struct.pack("<IQ", quant.value, offset))
        nbytes = int(np.prod(shape[:-1], dtype=np.int64)) * quant.row_bytes(shape[-1])
        offset += -(-nbytes // alignment) * alignment
    return b"".join(parts)


def _write_rows(file: BinaryIO, rows: NDArray[Any], quant: Quant, cols: int) -> None:
    step = max(1, CHUNK_WEIGHTS // cols)
    for first in range(0, len(rows), step):
        chunk = np.ascontiguousarray(rows[first : first + step])
        if chunk.dtype != np.uint8:
            chunk = quantise(chunk.astype(np.float32, copy=False), quant)
        check_raw(chunk, quant, cols)
        file.write(chunk.data)


def _pad(file: BinaryIO, alignment: int) -> None:
    file.write(b"\0" * (-file.tell() % alignment))


def _string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def _value(key: str, value: object) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _string(value)
    if isinstance(value, bytes):
        return _array(np.frombuffer(value, np.uint8))
    if isinstance(value, np.ndarray):
        return _array(_checked(key, cast("NDArray[Any]", value)))
    if isinstance(value, bool | int | float):
        array = _number_array(key, [value], U32)
        return struct.pack("<I", _KIND_OF_DTYPE[array.dtype]) + array.tobytes()
    if isinstance(value, Sequence):
        return _sequence(key, list(cast("Sequence[Any]", value)))
    raise FormatError(f"GGUF cannot hold {key!r}, a {type(value).__name__}.")


def _sequence(key: str, items: list[Any]) -> bytes:
    if items and all(isinstance(item, str) for item in items):
        packed = b"".join(map(_string, items))
        return struct.pack("<IIQ", ARRAY, STRING, len(items)) + packed
    if all(isinstance(item, bool | int | float) for item in items):
        return _array(_number_array(key, items, I32))
    raise FormatError(f"GGUF cannot hold {key!r}: a list has items of one plain kind.")


def _array(array: NDArray[Any]) -> bytes:
    kind = _KIND_OF_DTYPE[array.dtype]
    return struct.pack("<IIQ", ARRAY, kind, array.size) + array.tobytes()


def _checked(key: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim != 1 or array.dtype not in _KIND_OF_DTYPE:
        raise FormatError(
            f"GGUF cannot hold {key!r}: {array.dtype} {list(array.shape)} is not a plain vector."
        )
    return array


def _number_array(key: str, items: list[Any], whole: int) -> NDArray[Any]:
    """Numbers in the kind that GGUF files use: bool, float32, or the first integer that fits."""
    if items and all(isinstance(item, bool) for item in items):
        return np.array(items, NUMBERS[BOOL])
    if any(isinstance(item, float) for item in items):
        return np.array(items, NUMBERS[F32])
    low, high = min(items, default=0), max(items, default=0)
    for kind in (whole, U32, I32, I64, U64):
        limits = np.iinfo(NUMBERS[kind])
        if limits.min <= low and high <= limits.max:
            return np.array(items, NUMBERS[kind])
    raise FormatError(f"GGUF cannot hold {key!r}: {low} to {high} needs more than 64 bits.")
