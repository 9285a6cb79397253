"""Say what a file is when it is not the model file that was expected."""

from __future__ import annotations

import re

HEAD_BYTES = 512  # what `describe` wants to see of a file

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive or a PyTorch checkpoint"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"BZh", "a bzip2 archive; unpack it first"),
    (b"\xfd7zXZ\x00", "an xz archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive; unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it first"),
    (b"Rar!", "a RAR archive; unpack it first"),
    (b"\x89HDF", "an HDF5 file (Keras weights)"),
    (b"\x93NUMPY", "a numpy array"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"%PDF", "a PDF document"),
    (b"MZ", "a Windows program"),
    (b"\x7fELF", "a Linux program or library"),
    (b"lmgg", "a GGML file from before GGUF; get the model as GGUF"),
    (b"fmgg", "a GGML file from before GGUF; get the model as GGUF"),
    (b"tjgg", "a GGML file from before GGUF; get the model as GGUF"),
    (b"FUGG", "a GGUF file with its bytes in big-endian order"),
)
_PICKLE_PROTOCOLS = range(2, 6)
_LFS = re.compile(rb"version https://git-lfs\S*(?:.*?^size (\d+))?", re.DOTALL | re.MULTILINE)


def describe(head: bytes, size: int) -> str | None:
    """What a file of ``size`` bytes that starts with ``head`` is, or None when unknown."""
    if size == 0:
        return "empty"
    for signature, description in _SIGNATURES:
        if head.startswith(signature):
            return description
    return _describe_text(head) or _describe_binary(head, size)


def _describe_text(head: bytes) -> str | None:
    pointer = _LFS.match(head)
    if pointer:
        real = f" of {int(pointer[1]):,} bytes" if pointer[1] else ""
        return f"a Git LFS pointer, a note that stands for the real file{real}; fetch that one"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "a web page (HTML), perhaps a login or error page saved in place of the download"
    if text.startswith(b"<?xml"):
        return "an XML text, perhaps an error message saved in place of the download"
    if text.startswith((b'{"', b"{\n", b"{\r", b"{ ", b"[{")):
        return "a JSON text"
    return None


def _describe_binary(head: bytes, size: int) -> str | None:
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8:
        return "a safetensors file"
    if len(head) > 2 and head[0] == 0x80 and head[1] in _PICKLE_PROTOCOLS:
        return "a Python pickle (an old PyTorch checkpoint), which could run code when opened"
    if not any(head):
        return "only zeros so far, as an unfinished download leaves it"
    return None
