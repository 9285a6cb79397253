"""Read and check the header of a safetensors file.

A safetensors file is a length (8 bytes, little-endian), a JSON header of that length, and the
numbers. The header names every tensor with its type, shape and place among the numbers. Nothing in
it is believed before it is checked: what comes out of :func:`parse_header` lies whole inside the
file, without overlaps or holes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from engine.formats.errors import (
    CorruptFile,
    FormatError,
    NotAModelFile,
    TruncatedFile,
    UnsupportedFile,
)
from engine.formats.identify import describe

PREFIX_BYTES = 8
MAX_HEADER_BYTES = 16 << 20  # the largest picture models need less than one MiB
MAX_AXES = 8
MAX_TENSOR_BYTES = 1 << 44
NAME_SHOWN = 80  # letters of a name in a message

# Bytes of one number of each type.
DTYPE_BYTES: Mapping[str, int] = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
}


@dataclass(frozen=True)
class SafeTensor:
    """Where a tensor lies and how its numbers are stored.

    ``shape`` is in numpy order, ``()`` for a single number; ``offset`` counts from the file's
    start.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def header_length(head: bytes, size: int, label: str) -> int:
    """Bytes of the JSON header of a file of ``size`` bytes that starts with ``head``."""
    if size == 0 or len(head) <= PREFIX_BYTES or head[PREFIX_BYTES : PREFIX_BYTES + 1] != b"{":
        raise _not_safetensors(head, size, label)
    length = int.from_bytes(head[:PREFIX_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        raise CorruptFile(
            f"{label} is damaged: its header claims {length:,} bytes, and Driftwood reads at "
            f"most {MAX_HEADER_BYTES:,}."
        )
    if PREFIX_BYTES + length > size:
        missing = PREFIX_BYTES + length - size
        raise TruncatedFile(
            f"{label} is cut off inside its header: at least {missing:,} bytes are missing. "
            "Download it again."
        )
    return length


def _not_safetensors(head: bytes, size: int, label: str) -> FormatError:
    pickled = head.startswith(b"PK\x03\x04") or (
        len(head) > 2 and head[0] == 0x80 and head[1] in range(2, 6)
    )
    if pickled:
        return UnsupportedFile(
            f"{label} is a PyTorch checkpoint (pickle). Opening such a file can run code that is "
            "hidden in it, so Driftwood does not. Get the model as .safetensors."
        )
    if size == 0:
        return NotAModelFile(f"{label} is empty. Download it again.")
    what = describe(head, size)
    if what is not None:
        return NotAModelFile(f"{label} is not a safetensors model: it is {what}.")
    return NotAModelFile(f"{label} is not a safetensors model: it starts with {head[:9]!r}.")


def parse_header(
    raw: bytes, start: int, size: int, label: str
) -> tuple[dict[str, SafeTensor], dict[str, str]]:
    """Tensors and metadata of a header; the numbers take bytes ``start`` to ``size`` of the file.

    Raises CorruptFile, TruncatedFile or UnsupportedFile with the reason.
    """
    entries = _load(raw, label)
    metadata = _metadata(entries.pop("__metadata__", {}), label)
    tensors = [_tensor(name, entry, start, label) for name, entry in entries.items()]
    _check_extent(tensors, start, size, label)
    return {tensor.name: tensor for tensor in tensors}, metadata


def shown(name: str) -> str:
    """A name for a message: quoted, of bounded length."""
    return repr(name if len(name) <= NAME_SHOWN else name[:NAME_SHOWN] + "...")


def _load(raw: bytes, label: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in made if names.count(name) > 1)
            raise CorruptFile(f"{label} is damaged: its header has {shown(twice)} twice.")
        return made

    try:
        loaded = json.loads(raw.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:120] or type(error).__name__
        raise CorruptFile(f"{label} is damaged: its header is not JSON ({reason}).") from error
    if not isinstance(loaded, dict):
        raise CorruptFile(f"{label} is damaged: its header is not a JSON object.")
    return cast("dict[str, Any]", loaded)


def _metadata(value: Any, label: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise CorruptFile(f"{label} is damaged: its metadata is not a JSON object.")
    entries = cast("dict[str, Any]", value)
    return {key: text for key, text in entries.items() if isinstance(text, str)}


def _tensor(name: str, entry: Any, start: int, label: str) -> SafeTensor:
    def bad(what: str) -> CorruptFile:
        return CorruptFile(f"{label} is damaged: tensor {shown(name)} {what}.")

    if not isinstance(entry, dict):
        raise bad("has no type, shape and place")
    fields = cast("dict[str, Any]", entry)
    dtype = fields.get("dtype")
    if not isinstance(dtype, str):
        raise bad("has no type")
    if dtype not in DTYPE_BYTES:
        raise UnsupportedFile(
            f"{label} holds numbers of a type that Driftwood does not read: tensor {shown(name)} "
            f"is {dtype[:20]}. Supported are {', '.join(DTYPE_BYTES)}."
        )
    shape = _naturals(fields.get("shape"), MAX_AXES)
    if shape is None:
        raise bad(f"has the impossible shape {str(fields.get('shape'))[:60]}")
    nbytes = math.prod(shape) * DTYPE_BYTES[dtype]
    if nbytes > MAX_TENSOR_BYTES:
        raise bad(f"claims the shape {list(shape)}, {nbytes:,} bytes")
    place = _naturals(fields.get("data_offsets"), 2)
    if place is None or len(place) != 2 or place[1] < place[0]:
        raise bad(f"has the impossible place {str(fields.get('data_offsets'))[:60]}")
    if place[1] - place[0] != nbytes:
        raise bad(
            f"takes {place[1] - place[0]:,} bytes, where {list(shape)} of {dtype} need {nbytes:,}"
        )
    return SafeTensor(name, dtype, shape, start + place[0], nbytes)


def _naturals(value: Any, most: int) -> tuple[int, ...] | None:
    """A list of at most ``most`` whole numbers from 0 to 2**63 - 1, or None."""
    if not isinstance(value, list) or len(cast("list[Any]", value)) > most:
        return None
    items = cast("list[Any]", value)
    if any(type(item) is not int or not 0 <= item < 1 << 63 for item in items):
        return None
    return tuple(items)


def _check_extent(tensors: list[SafeTensor], start: int, size: int, label: str) -> None:
    """Tensors lie one after the other from ``start`` to ``size``."""
    end, previous = start, ""
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.nbytes)):
        if tensor.offset < end:
            raise CorruptFile(
                f"{label} is damaged: tensors {shown(previous)} and {shown(tensor.name)} overlap "
                f"by {end - tensor.offset:,} bytes."
            )
        if tensor.offset > end:
            raise CorruptFile(
                f"{label} is damaged: {tensor.offset - end:,} bytes before tensor "
                f"{shown(tensor.name)} belong to no tensor."
            )
        end, previous = tensor.offset + tensor.nbytes, tensor.name
    if end > size:
        raise TruncatedFile(
            f"{label} is cut off: {end - size:,} of {end:,} bytes are missing. Download it again."
        )
    if end < size:
        raise CorruptFile(
            f"{label} is damaged: {size - end:,} bytes after its last tensor belong to nothing."
        )
