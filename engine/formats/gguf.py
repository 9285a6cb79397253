"""Read GGUF model files: checked header, memory-mapped tensors.

``open_gguf`` either returns a file whose every tensor lies whole inside it, or raises a FormatError
that says what is wrong.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import numpy as np

from engine.formats.errors import (
    CorruptFile,
    FormatError,
    NotAModelFile,
    TruncatedFile,
    UnsupportedFile,
)
from engine.formats.gguf_header import (
    DEFAULT_ALIGNMENT,
    MAGIC,
    Header,
    RawTensor,
    Value,
    parse_header,
)
from engine.formats.gguf_writer import write_gguf
from engine.formats.identify import HEAD_BYTES, describe
from engine.formats.kinds import GGML_NAMES, Bytes, Floats, Quant
from engine.formats.quants import dequantise

__all__ = ["GgufFile", "TensorInfo", "open_gguf", "write_gguf"]

MAX_TENSOR_BYTES = 1 << 44
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies and how its numbers are stored.

    ``shape`` is in numpy order (rows first, columns last); ``offset`` counts from the file's start.
    """

    name: str
    shape: tuple[int, ...]
    quant: Quant
    offset: int
    nbytes: int

    @property
    def cols(self) -> int:
        """Weights in a row."""
        return self.shape[-1]

    @property
    def rows(self) -> int:
        """Rows, all leading axes together (1 for a vector)."""
        return math.prod(self.shape[:-1])

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.quant.row_bytes(self.cols)


class GgufFile:
    """An open GGUF file.

    ``metadata`` holds plain Python values (int, float, bool, str, list); strings in lists may hold
    surrogate escapes. Arrays from :meth:`raw` are read-only views of the mapped file: they stay
    valid after :meth:`close`, and the operating system keeps the file mapped until the last one
    is gone.
    """

    def __init__(
        self, path: Path, mapped: mmap.mmap, header: Header, tensors: dict[str, TensorInfo]
    ) -> None:
        self.path = path
        self.version = header.version
        self.metadata: Mapping[str, Value] = MappingProxyType(header.metadata)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(tensors)
        self.architecture = _architecture(header.metadata, path.name)
        self.nbytes = len(mapped)
        self._map: mmap.mmap | None = mapped

    def info(self, name: str) -> TensorInfo:
        """The entry of a tensor. Raises CorruptFile when the file has no such tensor."""
        info = self.tensors.get(name)
        if info is None:
            raise CorruptFile(f"{self.path.name} has no tensor named {name!r}.")
        return info

    def raw(self, name: str) -> Bytes:
        """The stored bytes of a tensor, uint8 ``[rows, row_bytes]``, mapped and read-only."""
        info = self.info(name)
        if self._map is None:
            raise FormatError(f"{self.path.name} is closed.")
        flat = np.frombuffer(self._map, np.uint8, info.nbytes, info.offset)
        return flat.reshape(info.rows, info.row_bytes)

    def dequantise(self, name: str) -> Floats:
        """The weights of a tensor as float32 in the tensor's own shape."""
        info = self.info(name)
        return dequantise(self.raw(name), info.quant, info.cols).reshape(info.shape)

    def close(self) -> None:
        """Let the file go (at once, or when the last array from :meth:`raw` is gone)."""
        mapped, self._map = self._map, None
        if mapped is not None:
            # Arrays that are still in use keep the mapping; it closes with the last of them.
            with contextlib.suppress(BufferError):
                mapped.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_gguf(path: str | Path) -> GgufFile:
    """Open and check a GGUF file. Raises a FormatError with the reason when it cannot be used."""
    path = Path(path)
    mapped = _map(path)
    try:
        header = parse_header(mapped, path.name)
        _refuse_part(header.metadata, path.name)
        tensors = _place_tensors(header, len(mapped), path.name)
        return GgufFile(path, mapped, header, tensors)
    except FormatError:
        mapped.close()
        raise


def _map(path: Path) -> mmap.mmap:
    """Map the file after a look at its first bytes."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise NotAModelFile(f"{path.name} is a folder or a device, not a model file.")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            size = path.stat().st_size
            if not head.startswith(MAGIC):
                raise _not_gguf(head, size, path.name)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise NotAModelFile(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        raise NotAModelFile(f"{path.name} cannot be read: {error}.") from error


def _not_gguf(head: bytes, size: int, label: str) -> FormatError:
    if 0 < size < len(MAGIC) and MAGIC.startswith(head):
        return TruncatedFile(
            f"{label} is cut off after {size} bytes, inside its first word. Download it again."
        )
    part = _PART.search(label)
    if part:
        return _part_error(label, int(part[1]), int(part[2]))
    what = describe(head, size)
    if what is None:
        return NotAModelFile(
            f"{label} is not a GGUF model: it starts with other bytes than every GGUF file does."
        )
    return NotAModelFile(f"{label} is not a GGUF model: it is {what}.")


def _part_error(label: str, number: int, count: int) -> UnsupportedFile:
    return UnsupportedFile(
        f"{label} is part {number} of {count} of a split model, and Driftwood needs one file. "
        "Choose a file that is not split, or join the parts (llama-gguf-split --merge)."
    )


def _refuse_part(metadata: Mapping[str, Value], label: str) -> None:
    count, number = metadata.get("split.count"), metadata.get("split.no", 0)
    if isinstance(count, int) and isinstance(number, int) and count > 1:
        raise _part_error(label, number + 1, count)
    part = _PART.search(label)
    # A joined file may keep the name of its first part; its split.count is then 0.
    if part and count is None and int(part[2]) > 1:
        raise _part_error(label, int(part[1]), int(part[2]))


def _architecture(metadata: Mapping[str, Value], label: str) -> str:
    name = metadata.get("general.architecture")
    if isinstance(name, str) and name:
        return name
    kind = metadata.get("general.type")
    what = f" It calls itself {kind!r}." if isinstance(kind, str) else ""
    raise UnsupportedFile(
        f"{label} does not say which model architecture it holds (general.architecture).{what}"
    )


def _alignment(metadata: Mapping[str, Value], label: str) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or value & (value - 1):
        raise CorruptFile(
            f"{label} is damaged: its alignment is {str(value)[:40]}, not a power of two."
        )
    return value


def _place_tensors(header: Header, size: int, label: str) -> dict[str, TensorInfo]:
    """Check every tensor's type, shape and place in a file of ``size`` bytes."""
    alignment = _alignment(header.metadata, label)
    start = _align(header.end, alignment)
    tensors: dict[str, TensorInfo] = {}
    _refuse_types(header.tensors, label)
    for raw in header.tensors:
        if raw.name in tensors:
            raise CorruptFile(f"{label} is damaged: it has the tensor {raw.name!r} twice.")
        if raw.offset % alignment:
            raise CorruptFile(
                f"{label} is damaged: tensor {raw.name!r} starts at {raw.offset:,}, which is not "
                f"a multiple of {alignment}."
            )
        quant = Quant(raw.type_id)
        nbytes = _tensor_bytes(raw, quant, label)
        tensors[raw.name] = TensorInfo(raw.name, raw.dims[::-1], quant, start + raw.offset, nbytes)
    _check_extent(list(tensors.values()), start, alignment, size, label)
    return tensors


def _refuse_types(tensors: list[RawTensor], label: str) -> None:
    known = {quant.value for quant in Quant}
    bad = sorted({tensor.type_id for tensor in tensors} - known)
    if bad:
        names = ", ".join(GGML_NAMES.get(kind, f"unknown type {kind}") for kind in bad)
        supported = ", ".join(quant.name for quant in Quant)
        raise UnsupportedFile(
            f"{label} holds tensors of a type that Driftwood does not run: {names}. "
            f"Choose a file of another quantisation; supported are {supported}."
        )


def _tensor_bytes(tensor: RawTensor, quant: Quant, label: str) -> int:
    cols, rows = tensor.dims[0], math.prod(tensor.dims[1:])
    if cols * rows == 0:
        raise CorruptFile(
            f"{label} is damaged: tensor {tensor.name!r} has an axis of length 0 "
            f"({_shape_text(tensor)})."
        )
    if cols % quant.block:
        raise CorruptFile(
            f"{label} is damaged: tensor {tensor.name!r} has rows of {cols:,} weights, which is "
            f"not a multiple of {quant.name}'s block of {quant.block}."
        )
    nbytes = rows * quant.row_bytes(cols)
    if nbytes > MAX_TENSOR_BYTES:
        raise CorruptFile(
            f"{label} is damaged: tensor {tensor.name!r} claims the shape {_shape_text(tensor)}, "
            f"{nbytes:,} bytes."
        )
    return nbytes


def _shape_text(tensor: RawTensor) -> str:
    return " x ".join(f"{length:,}" for length in tensor.dims)


def _check_extent(
    tensors: list[TensorInfo], start: int, alignment: int, size: int, label: str
) -> None:
    """No overlaps, and no end past the end of the file."""
    packed_end = start + sum(_align(tensor.nbytes, alignment) for tensor in tensors)
    if not tensors:
        return
    previous_end, previous = start, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        end = tensor.offset + tensor.nbytes
        if tensor.offset < previous_end:
            raise CorruptFile(
                f"{label} is damaged: tensors {previous!r} and {tensor.name!r} overlap by "
                f"{previous_end - tensor.offset:,} bytes."
            )
        if end > max(size, packed_end):
            raise CorruptFile(
                f"{label} is damaged: tensor {tensor.name!r} is said to end at byte {end:,}, and "
                f"the file has {size:,}."
            )
        previous_end, previous = end, tensor.name
    if previous_end > size:
        raise TruncatedFile(
            f"{label} is cut off: {previous_end - size:,} of {previous_end:,} bytes are missing. "
            "Download it again."
        )


def _align(value: int, alignment: int) -> int:
    return (value + alignment - 1) & -alignment
