"""Text files that go with a prompt: read, checked, and refused in words."""

from __future__ import annotations

import codecs
from pathlib import Path

from app.memory.units import size
from app.storage.records import Attachment

LARGEST = 1_000_000  # bytes; more would not fit any context
MOST = 8


class AttachmentError(Exception):
    """A file that cannot go with a prompt; the sentence says why."""


def read_attachment(path: Path) -> Attachment:
    """A text file's name and text. Raises AttachmentError."""
    try:
        if path.is_dir():
            raise AttachmentError(f"{path.name} is a folder. Drop single text files.")
        nbytes = path.stat().st_size
        if nbytes > LARGEST:
            raise AttachmentError(
                f"{path.name} is {size(nbytes)} and the most is {size(LARGEST)}. "
                "Drop a part of it, or paste the lines that matter."
            )
        data = path.read_bytes()
    except OSError as error:
        raise AttachmentError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    return Attachment(path.name, decode(path.name, data))


def decode(name: str, data: bytes) -> str:
    """Bytes of a text file as text with plain line ends. Raises AttachmentError for other files."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data:
        raise AttachmentError(f"{name} is not a text file.")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("cp1252", "replace")
    if not text.strip():
        raise AttachmentError(f"{name} is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n")
