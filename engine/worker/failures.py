"""From exceptions to the protocol's error codes, without importing the rooms that raise them."""

from __future__ import annotations

import errno
import traceback
from typing import Final

from engine.worker.protocol import ErrorCode, Event, error_event

# by the class's full name, so that the GPU's and the text's modules load only when they are used
_CODES: Final[dict[str, ErrorCode]] = {
    "engine.gpu.errors.NoAdapterError": "no_adapter",
    "engine.gpu.errors.DeviceLostError": "device_lost",
    "engine.gpu.errors.OutOfMemoryError": "out_of_memory",
    "engine.gpu.errors.ShaderError": "shader",
    "engine.gpu.errors.GpuError": "internal",
    "engine.formats.errors.UnsupportedFile": "unsupported_model",
    "engine.formats.errors.FormatError": "model_file",
    "engine.image.pipeline_memory.TooLargeError": "out_of_memory",
    "engine.image.weights_upload.LoadCancelledError": "cancelled",
    "engine.image.errors.PictureFileError": "picture_file",
    "engine.image.errors.SettingError": "setting",
    "engine.image.errors.ImageError": "unsupported_model",
    "engine.text.errors.UnsupportedModelError": "unsupported_model",
    "engine.text.errors.ContextFullError": "context_full",
    "engine.text.vocabulary.TokenizerError": "unsupported_model",
    "engine.text.chat_template.TemplateError": "template",
    "engine.text.sampling.SettingError": "setting",
    "engine.text.errors.TemplateError": "template",
    "engine.text.errors.SettingError": "setting",
    "engine.text.errors.TextError": "internal",
    "engine.models.errors.ModelNotFoundError": "not_found",
    "engine.models.errors.DiskFullError": "disk_full",
    "engine.models.errors.DuplicateModelError": "usage",
    "engine.models.errors.StoreError": "model_file",
    "engine.models.errors.NetworkError": "network",
    "engine.models.errors.DownloadError": "download",
    "engine.models.errors.CancelledError": "cancelled",
    "engine.worker.failures.RequestError": "usage",
    "engine.worker.failures.SettingRefusedError": "setting",
    "engine.worker.failures.DoesNotFitError": "out_of_memory",
}


class RequestError(Exception):
    """The request is well formed but cannot be done; the message says why."""


class SettingRefusedError(Exception):
    """A sampling setting or a context length that cannot be used."""


class DoesNotFitError(Exception):
    """A model that needs more GPU memory than is free."""


def code_of(error: BaseException) -> ErrorCode | None:
    """The code of a typed error; None for one that nobody foresaw."""
    for one in type(error).__mro__:
        if code := _CODES.get(f"{one.__module__}.{one.__qualname__}"):
            return code
    if isinstance(error, MemoryError):
        return "out_of_memory"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "disk_full"
    return None


def event_of(request_id: int, error: BaseException) -> Event:
    """The last event of a request that raised ``error``."""
    code = code_of(error)
    details = "".join(traceback.format_exception(error))
    return error_event(request_id, code or "internal", _sentence(error, code), details)


LONGEST: Final = 400  # characters of a message; compilers and drivers write pages


def brief(text: str) -> str:
    """The first lines of what a driver or a library says, short enough to be read."""
    text = text.strip()
    paragraph = " ".join(text.split("\n\n", 1)[0].split())
    if len(paragraph) <= LONGEST:
        return paragraph
    return paragraph[:LONGEST].rsplit(" ", 1)[0] + "…"


def _sentence(error: BaseException, code: ErrorCode | None) -> str:
    text = brief(str(error))
    if isinstance(error, MemoryError):
        return "The computer's main memory is full. Close other programs and try again."
    if isinstance(error, OSError) and code == "disk_full":
        return "The disk is full. Free some space and try again."
    if code is None:
        return (
            f"Something went wrong inside Driftwood ({type(error).__name__}). Try again; if it "
            "happens again, the log says more."
        )
    return text or type(error).__name__
