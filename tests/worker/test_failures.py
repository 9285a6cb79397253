from __future__ import annotations

import errno

import pytest

from engine.formats.errors import TruncatedFile, UnsupportedFile
from engine.gpu import errors as gpu
from engine.models import errors as models
from engine.text.chat_template import TemplateError
from engine.text.errors import ContextFullError, UnsupportedModelError
from engine.text.sampling import SettingError
from engine.worker.failures import code_of, event_of
from engine.worker.protocol import ERROR_CODES


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (gpu.NoAdapterError("none"), "no_adapter"),
        (gpu.DeviceLostError("lost"), "device_lost"),
        (gpu.OutOfMemoryError("full", 1, 2), "out_of_memory"),
        (gpu.ShaderError("bad"), "shader"),
        (TruncatedFile("short"), "model_file"),
        (UnsupportedFile("new"), "unsupported_model"),
        (UnsupportedModelError("other"), "unsupported_model"),
        (ContextFullError(10, 5), "context_full"),
        (TemplateError("broken"), "template"),
        (SettingError("range"), "setting"),
        (models.ModelNotFoundError("no"), "not_found"),
        (models.StoreError("no"), "model_file"),
        (models.DiskFullError("no"), "disk_full"),
        (models.NetworkError("no"), "network"),
        (models.RefusedError("no"), "download"),
        (models.WrongFileError("no"), "download"),
        (models.CancelledError("no"), "cancelled"),
        (OSError(errno.ENOSPC, "full"), "disk_full"),
        (MemoryError(), "out_of_memory"),
        (KeyError("x"), None),
    ],
)
def test_every_kind_of_error_has_its_code(error: Exception, code: str | None) -> None:
    assert code_of(error) == code
    assert code is None or code in ERROR_CODES


def test_a_foreseen_error_is_told_in_its_own_words() -> None:
    event = event_of(5, models.NetworkError("No network."))
    assert (event.id, event["code"], event["message"]) == (5, "network", "No network.")
    assert "NetworkError" in event["details"]


def test_an_unforeseen_error_names_itself_and_the_log() -> None:
    event = event_of(5, KeyError("x"))
    assert event["code"] == "internal"
    assert event["message"] == (
        "Something went wrong inside Driftwood (KeyError). Try again; if it happens again, the log "
        "says more."
    )
