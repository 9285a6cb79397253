"""Read safetensors model files: checked header, memory-mapped tensors.

``open_safetensors`` either returns a file whose every tensor lies whole inside it, or raises a
FormatError that says what is wrong. Pickled checkpoints are refused: opening one can run code.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from engine.formats.errors import CorruptFile, FormatError, NotAModelFile, UnsupportedFile
from engine.formats.identify import HEAD_BYTES
from engine.formats.kinds import Bytes, Floats
from engine.formats.safetensors_header import (
    PREFIX_BYTES,
    SafeTensor,
    header_length,
    parse_header,
    shown,
)

__all__ = ["SafeTensor", "SafetensorsFile", "open_safetensors", "write_safetensors"]

PICKLE_SUFFIXES = frozenset({".ckpt", ".pt", ".pth", ".bin", ".pkl", ".pickle"})

_NUMPY = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "F8_E4M3": "u1",
    "F8_E5M2": "u1",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "u1",
}
_WRITTEN = {
    np.dtype("<f8"): "F64",
    np.dtype("<f4"): "F32",
    np.dtype("<f2"): "F16",
    np.dtype("<i8"): "I64",
    np.dtype("<i4"): "I32",
    np.dtype("u1"): "U8",
}


class SafetensorsFile:
    """An open safetensors file.

    ``metadata`` holds the header's texts. Arrays from :meth:`raw` are read-only views of the
    mapped file and keep it mapped while they live; :meth:`array` makes copies.
    """

    def __init__(
        self,
        path: Path,
        mapped: mmap.mmap,
        tensors: Mapping[str, SafeTensor],
        metadata: Mapping[str, str],
    ) -> None:
        self.path = path
        self.tensors: Mapping[str, SafeTensor] = MappingProxyType(dict(tensors))
        self.metadata: Mapping[str, str] = MappingProxyType(dict(metadata))
        self.nbytes = len(mapped)
        self._map: mmap.mmap | None = mapped

    def info(self, name: str) -> SafeTensor:
        """The entry of a tensor. Raises CorruptFile when the file has no such tensor."""
        info = self.tensors.get(name)
        if info is None:
            raise CorruptFile(f"{self.path.name} has no tensor named {shown(name)}.")
        return info

    def raw(self, name: str) -> Bytes:
        """The stored bytes of a tensor, uint8 ``[nbytes]``, mapped and read-only."""
        info = self.info(name)
        if self._map is None:
            raise FormatError(f"{self.path.name} is closed.")
        return np.frombuffer(self._map, np.uint8, info.nbytes, info.offset)

    def array(self, name: str) -> Floats:
        """The numbers of a tensor as a fresh float32 array of the tensor's shape."""
        info = self.info(name)
        stored = self.raw(name).view(np.dtype(_NUMPY[info.dtype]))
        return _to_f32(stored, info.dtype).reshape(info.shape)

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


def open_safetensors(path: str | Path) -> SafetensorsFile:
    """Open and check a safetensors file. Raises a FormatError with the reason it cannot be used."""
    path = Path(path)
    mapped, start = _map(path)
    try:
        header = bytes(mapped[PREFIX_BYTES:start])
        tensors, metadata = parse_header(header, start, len(mapped), path.name)
        return SafetensorsFile(path, mapped, tensors, metadata)
    except FormatError:
        mapped.close()
        raise


def write_safetensors(
    path: str | Path,
    tensors: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a safetensors file (f64, f32, f16, i64, i32, u8). Raises FormatError for other types.

    The largest types come first, so that every tensor is aligned to its own numbers.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    place = 0
    for name in order:
        values = tensors[name]
        dtype = _WRITTEN.get(values.dtype)
        if dtype is None:
            raise FormatError(f"Tensor {shown(name)} is {values.dtype}, which is not written.")
        end = place + values.nbytes
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with Path(path).open("wb") as file:
        file.write(len(text).to_bytes(PREFIX_BYTES, "little") + text)
        for name in order:
            file.write(np.ascontiguousarray(tensors[name]).tobytes())


def _map(path: Path) -> tuple[mmap.mmap, int]:
    """Map the file after a look at its first bytes; also where the numbers start."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise NotAModelFile(f"{path.name} is a folder or a device, not a model file.")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            size = path.stat().st_size
            _refuse_pickle_name(path, head)
            start = PREFIX_BYTES + header_length(head, size, path.name)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), start
    except FileNotFoundError:
        raise NotAModelFile(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        raise NotAModelFile(f"{path.name} cannot be read: {error}.") from error


def _refuse_pickle_name(path: Path, head: bytes) -> None:
    """A file named like a pickle that is not a safetensors file inside."""
    suffix = path.suffix.lower()
    if suffix in PICKLE_SUFFIXES and head[PREFIX_BYTES : PREFIX_BYTES + 1] != b"{":
        raise UnsupportedFile(
            f"{path.name} is a PyTorch checkpoint ({suffix}, pickle). Opening such a file can run "
            "code that is hidden in it, so Driftwood does not. Get the model as .safetensors."
        )


def _to_f32(stored: NDArray[Any], dtype: str) -> Floats:
    if dtype == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if dtype == "F8_E4M3":
        return _E4M3[stored]
    if dtype == "F8_E5M2":
        return _E5M2[stored]
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, as it must
        return stored.astype(np.float32)


def _eight_bit_floats(exponent_bits: int, *, has_infinity: bool) -> Floats:
    """The value of each of the 256 codes of an 8-bit float, float32 ``[256]``."""
    codes = np.arange(256)
    mantissa_bits = 7 - exponent_bits
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    normal = (1 + mantissa) * 2.0 ** (exponent - bias)
    values = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), normal)
    top = (1 << exponent_bits) - 1
    if has_infinity:
        special = np.where(mantissa == 0, np.inf, np.nan)
        values = np.where(exponent == top, special, values)
    else:  # only the very last code of each sign is no number
        values = np.where((codes & 0x7F) == 0x7F, np.nan, values)
    return np.where(codes >= 128, -values, values).astype(np.float32)


_E4M3 = _eight_bit_floats(4, has_infinity=False)
_E5M2 = _eight_bit_floats(5, has_infinity=True)
