"""Parse the header of a GGUF file (version 2 or 3) without trusting a number in it.

No count or length is believed before it is held against the file's size, so that a hostile file
cannot make the parser allocate more than a small multiple of the file itself.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from engine.formats.errors import CorruptFile, TruncatedFile, UnsupportedFile

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_DIMS = 4
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_STRING = 1 << 26  # bytes; the longest known value, a chat template, has some 30 KB
MAX_NAME = 1 << 16
MAX_ELEMENTS = 1 << 24  # of all arrays together; a vocabulary of 262,144 needs about 1.3 million
SMALLEST_KEY = 8 + 1 + 4 + 1  # length, one letter, type, one byte
SMALLEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8  # length, one letter, axes, one axis, type, offset

STRING, ARRAY = 8, 9
NUMBERS: dict[int, str] = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "|b1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
BOOL = 7

_u32 = struct.Struct("<I").unpack_from
_u64 = struct.Struct("<Q").unpack_from

Data: TypeAlias = bytes | mmap.mmap
Value: TypeAlias = int | float | bool | str | list[int] | list[float] | list[bool] | list[str]


@dataclass(frozen=True)
class RawTensor:
    """A tensor as its header entry says: dims in file order (columns first), ggml type id."""

    name: str
    dims: tuple[int, ...]
    type_id: int
    offset: int  # from the start of the data


@dataclass(frozen=True)
class Header:
    """All that stands before the tensors' data; ``end`` is where the header stops."""

    version: int
    metadata: dict[str, Value]
    tensors: list[RawTensor]
    end: int


class _Cursor:
    """A place in the file. Slices of ``data`` are bytes."""

    def __init__(self, data: Data, label: str) -> None:
        self.data = data
        self.size = len(data)
        self.label = label
        self.at = 0
        self.elements = 0

    def need(self, count: int) -> int:
        """Move over ``count`` bytes that must exist; returns where they start."""
        start = self.at
        missing = start + count - self.size
        if missing > 0:
            raise TruncatedFile(
                f"{self.label} is cut off inside its header: at least {missing:,} bytes are "
                f"missing after byte {self.size:,}. Download it again."
            )
        self.at = start + count
        return start

    def u32(self) -> int:
        return _u32(self.data, self.need(4))[0]

    def u64(self) -> int:
        return _u64(self.data, self.need(8))[0]

    def text(self, what: str, limit: int) -> bytes:
        length = self.u64()
        if length > limit:
            raise CorruptFile(
                f"{self.label} is damaged: {what} claims to be {length:,} bytes long "
                f"(at most {limit:,} make sense)."
            )
        start = self.need(length)
        return self.data[start : self.at]

    def name(self, what: str) -> str:
        raw = self.text(what, MAX_NAME)
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise CorruptFile(
                f"{self.label} is damaged: {what} is not text: {raw[:40]!r}."
            ) from None
        if not name:
            raise CorruptFile(f"{self.label} is damaged: {what} is empty.")
        return name


def parse_header(data: Data, label: str) -> Header:
    """Parse ``data`` (the whole file, magic already checked).

    ``label`` names the file in messages. Raises a FormatError.
    """
    cursor = _Cursor(data, label)
    cursor.need(len(MAGIC))
    version = _version(cursor)
    tensor_count = _count(cursor, "tensors", MAX_TENSORS, SMALLEST_TENSOR)
    key_count = _count(cursor, "metadata entries", MAX_KEYS, SMALLEST_KEY)
    metadata: dict[str, Value] = {}
    for index in range(key_count):
        key = cursor.name(f"the name of metadata entry {index + 1}")
        if key in metadata:
            raise CorruptFile(f"{label} is damaged: it has the metadata entry {key!r} twice.")
        metadata[key] = _value(cursor, key)
    tensors = [_tensor(cursor, index) for index in range(tensor_count)]
    return Header(version, metadata, tensors, cursor.at)


def _version(cursor: _Cursor) -> int:
    version = cursor.u32()
    if version in VERSIONS:
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *VERSIONS):
        raise UnsupportedFile(
            f"{cursor.label} has its bytes in big-endian order, made for another kind of "
            "processor. Get the usual little-endian file."
        )
    raise UnsupportedFile(
        f"{cursor.label} is GGUF version {version}; Driftwood reads versions 2 and 3. "
        "Get a newer file of this model, or a newer Driftwood."
    )


def _count(cursor: _Cursor, what: str, limit: int, smallest: int) -> int:
    count = cursor.u64()
    if count > limit:
        raise CorruptFile(
            f"{cursor.label} is damaged: it claims {count:,} {what} (at most {limit:,} make sense)."
        )
    missing = cursor.at + count * smallest - cursor.size
    if missing > 0:
        raise TruncatedFile(
            f"{cursor.label} is cut off: it announces {count:,} {what}, and at least "
            f"{missing:,} bytes are missing. Download it again."
        )
    return count


def _value(cursor: _Cursor, key: str) -> Value:
    kind = cursor.u32()
    if kind == STRING:
        # Shown to people, so broken text must never upset a terminal or a JSON writer.
        return cursor.text(f"the value of {key!r}", MAX_STRING).decode("utf-8", "replace")
    if kind == ARRAY:
        return _array(cursor, key)
    return _numbers(cursor, key, kind, 1)[0]


def _array(cursor: _Cursor, key: str) -> Value:
    kind = cursor.u32()
    count = cursor.u64()
    if kind == ARRAY:
        raise UnsupportedFile(
            f"{cursor.label} holds arrays inside arrays ({key!r}), which no known model uses."
        )
    cursor.elements += count
    if cursor.elements > MAX_ELEMENTS:
        raise CorruptFile(
            f"{cursor.label} is damaged: the array {key!r} claims {count:,} elements "
            f"(at most {MAX_ELEMENTS:,} make sense)."
        )
    if kind == STRING:
        return _strings(cursor, key, count)
    return _numbers(cursor, key, kind, count)


def _numbers(
    cursor: _Cursor, key: str, kind: int, count: int
) -> list[int] | list[float] | list[bool]:
    if kind not in NUMBERS:
        raise CorruptFile(f"{cursor.label} is damaged: {key!r} has the unknown type {kind}.")
    dtype = np.dtype(NUMBERS[kind])
    start = cursor.need(count * dtype.itemsize)
    raw = cursor.data[start : cursor.at]
    if kind == BOOL and raw.translate(None, b"\0\1"):
        raise CorruptFile(f"{cursor.label} is damaged: {key!r} is neither true nor false.")
    return np.frombuffer(raw, dtype).tolist()


def _strings(cursor: _Cursor, key: str, count: int) -> list[str]:
    """A string array. Tokens may hold broken UTF-8: its bytes stay, as surrogate escapes.

    The loop is inlined: a vocabulary has some 300,000 tokens and merges.
    """
    data, size, at = cursor.data, cursor.size, cursor.at
    cursor.need(count * 8)
    strings: list[str] = []
    append, unpack = strings.append, _u64
    try:
        for _ in range(count):
            start = at + 8
            at = start + unpack(data, at)[0]
            if at > size:
                break
            append(str(data[start:at], "utf-8", "surrogateescape"))
    except struct.error:
        at += 8  # not even a length is left
    cursor.at = at
    if len(strings) < count:
        where = f"string {len(strings) + 1:,} of {count:,} in {key!r}"
        if at - size > MAX_STRING:
            raise CorruptFile(
                f"{cursor.label} is damaged: {where} claims to go on {at - size:,} bytes "
                "past the end of the file."
            )
        raise TruncatedFile(
            f"{cursor.label} is cut off inside {where}: at least {at - size:,} bytes are "
            "missing. Download it again."
        )
    return strings


def _tensor(cursor: _Cursor, index: int) -> RawTensor:
    name = cursor.name(f"the name of tensor {index + 1}")
    axes = cursor.u32()
    if not 1 <= axes <= MAX_DIMS:
        raise CorruptFile(
            f"{cursor.label} is damaged: tensor {name!r} claims {axes:,} axes (1 to {MAX_DIMS} "
            "make sense)."
        )
    dims = tuple(cursor.u64() for _ in range(axes))
    return RawTensor(name, dims, cursor.u32(), cursor.u64())
