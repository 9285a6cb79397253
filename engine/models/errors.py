"""What can go wrong with model files and downloads, each with a sentence for the person."""

from __future__ import annotations


class StoreError(Exception):
    """A model file could not be listed, added, removed or moved."""


class ModelNotFoundError(StoreError):
    """There is no model of that name, and no file at that path."""


class DuplicateModelError(StoreError):
    """The model is already in the models folder."""


class DiskFullError(StoreError):
    """There is not enough free space."""


class CancelledError(Exception):
    """The person stopped it. What was downloaded so far is kept."""


class DownloadError(Exception):
    """A download failed."""


class NetworkError(DownloadError):
    """The server could not be reached, or the connection kept failing."""


class RefusedError(DownloadError):
    """The server wants a token, or acceptance of the model's terms."""


class RemoteNotFoundError(DownloadError):
    """The server does not have the file."""


class WrongFileError(DownloadError):
    """What arrived is not what was promised: its hash or size differs."""
