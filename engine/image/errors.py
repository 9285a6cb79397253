"""What can go wrong when a picture is made. Every message is a sentence a person can act on."""

from __future__ import annotations


class ImageError(Exception):
    """A picture cannot be made as asked."""


class SettingError(ImageError, ValueError):
    """A setting is out of its range, or does not fit the model."""


class PictureFileError(ImageError):
    """A picture file cannot be read or written, or holds no settings."""
