"""Texts inside PNG files, read without decoding a pixel.

Text chunks come in three kinds: tEXt (Latin-1), zTXt (the same, compressed) and iTXt (UTF-8,
perhaps compressed). Lengths are checked before anything is read or unpacked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from engine.image.errors import PictureFileError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_TEXT_BYTES = 1 << 20  # of one text
MAX_CHUNKS = 100_000


def read_png_texts(path: Path) -> dict[str, str]:
    """The texts of a PNG by keyword. Raises PictureFileError when it is no sound PNG."""
    try:
        with path.open("rb") as file:
            if file.read(len(SIGNATURE)) != SIGNATURE:
                raise PictureFileError(
                    f"{path.name} is not a PNG picture, and only those carry settings."
                )
            return dict(_texts(file, path.name))
    except FileNotFoundError:
        raise PictureFileError(f"There is no file {path}.") from None
    except OSError as error:
        raise PictureFileError(f"{path.name} cannot be read: {error}.") from error


def _texts(file: BinaryIO, label: str) -> Iterator[tuple[str, str]]:
    for _ in range(MAX_CHUNKS):
        head = file.read(8)
        if len(head) < 8 or head[4:] == b"IEND":
            return
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        if kind in (b"tEXt", b"zTXt", b"iTXt") and length <= 2 * MAX_TEXT_BYTES:
            body = file.read(length)
            text = _decoded(kind, body, label)
            if text is not None:
                yield text
            file.seek(4, 1)  # the checksum
        else:
            file.seek(length + 4, 1)


def _decoded(kind: bytes, body: bytes, label: str) -> tuple[str, str] | None:
    """Keyword and text of a chunk, or None when it is not well formed."""
    keyword, zero, rest = body.partition(b"\0")
    if not zero:
        return None
    if kind == b"tEXt":
        raw, encoding = rest, "latin-1"
    elif kind == b"zTXt":
        raw, encoding = _unpacked(rest[1:], label), "latin-1"
    else:
        if len(rest) < 2:
            return None
        packed, after = rest[0] == 1, rest[2:].split(b"\0", 2)
        if len(after) < 3:
            return None
        raw, encoding = (_unpacked(after[2], label) if packed else after[2]), "utf-8"
    return keyword.decode("latin-1"), raw.decode(encoding, "replace")


def _unpacked(data: bytes, label: str) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, MAX_TEXT_BYTES)
    except zlib.error as error:
        raise PictureFileError(f"{label} has a damaged text inside ({error}).") from error
    if unpacker.unconsumed_tail:
        raise PictureFileError(f"{label} has a text of more than {MAX_TEXT_BYTES:,} bytes inside.")
    return text
