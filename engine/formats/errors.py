"""What can be wrong with a model file. Every message is a sentence that a person can act on."""

# ruff: noqa: N818 - the names say what the file is

from __future__ import annotations


class FormatError(Exception):
    """A model file, or data meant for one, cannot be used as it is."""


class NotAModelFile(FormatError):
    """The file is something else: a web page, an archive, a pointer, empty, missing."""


class TruncatedFile(FormatError):
    """The file ends early; the message says how many bytes are missing."""


class UnsupportedFile(FormatError):
    """A sound file of a kind that Driftwood does not read: version, tensor type, split part."""


class CorruptFile(FormatError):
    """The file contradicts itself: impossible counts, lengths, offsets or names."""
