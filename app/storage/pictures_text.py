"""The size and the settings text of a PNG file, read from its first chunks without its pixels."""

from __future__ import annotations

import json
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

SIGNATURE = b"\x89PNG\r\n\x1a\n"
KEYWORD = "parameters"  # where A1111-style tools keep a picture's settings
MOST_CHUNK = 2**20  # bytes of one text chunk that are read
MOST_CHUNKS = 64  # before the pixels

_SETTINGS_LINE = re.compile(r"\n?(Steps: \d+,[^\n]*)$")
_PAIR = re.compile(r'\s*(\w[\w \-/]*):\s*("(?:\\.|[^\\"])*"|[^,]*)(?:,|$)')
_NEGATIVE = "\nNegative prompt:"


@dataclass(frozen=True)
class PngText:
    """Width and height in pixels, and the settings text, "" without one."""

    width: int = 0
    height: int = 0
    parameters: str = ""


def read_png_text(path: Path) -> PngText | None:
    """What the head of a PNG file tells; None if it is none or cannot be read."""
    try:
        with path.open("rb") as file:
            if file.read(8) != SIGNATURE:
                return None
            return _read_chunks(file)
    except (OSError, struct.error):
        return None


def prompt_of(text: str) -> str:
    """The prompt within a settings text."""
    return _SETTINGS_LINE.sub("", text).split(_NEGATIVE, 1)[0].strip()


def negative_of(text: str) -> str:
    """What the picture was to leave out."""
    _, _, after = _SETTINGS_LINE.sub("", text).partition(_NEGATIVE)
    return after.strip()


def pairs_of(text: str) -> dict[str, str]:
    """The names and values of a settings text's last line, without their quotation marks."""
    line = _SETTINGS_LINE.search(text)
    found = _PAIR.findall(line[1]) if line is not None else []
    return {name: _unquoted(value) for name, value in found}


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        return value


def _read_chunks(file: BinaryIO) -> PngText:
    width = height = 0
    for _ in range(MOST_CHUNKS):
        head = file.read(8)
        if len(head) < 8:
            break
        length, kind = struct.unpack(">I4s", head)
        if kind in (b"IDAT", b"IEND"):
            break
        if kind in (b"IHDR", b"tEXt", b"iTXt", b"zTXt") and length <= MOST_CHUNK:
            body = file.read(length)
            if kind == b"IHDR":
                width, height = struct.unpack(">II", body[:8])
            else:
                found = _text(kind, body)
                if found is not None:
                    return PngText(width, height, found)
            file.seek(4, 1)
        else:
            file.seek(length + 4, 1)
    return PngText(width, height)


def _text(kind: bytes, body: bytes) -> str | None:
    """The text of a chunk if it is the settings, else None."""
    keyword, _, rest = body.partition(b"\0")
    if keyword.decode("latin-1") != KEYWORD:
        return None
    if kind == b"tEXt":
        return rest.decode("latin-1")
    if kind == b"zTXt":
        return _inflated(rest[1:]).decode("latin-1")
    is_packed = rest[:1] == b"\1"
    parts = rest[2:].split(b"\0", 2)  # language, keyword in that language, text
    raw = parts[2] if len(parts) == 3 else b""
    return (_inflated(raw) if is_packed else raw).decode("utf-8", "replace")


def _inflated(data: bytes) -> bytes:
    """Unpacked, cut at the most that is read: a small chunk must not become gigabytes."""
    try:
        return zlib.decompressobj().decompress(data, MOST_CHUNK)
    except zlib.error:
        return b""
