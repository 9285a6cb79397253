"""Writing small files so that a crash leaves the old one or the new one, never half of one."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


class StorageError(Exception):
    """Something could not be kept on disk; the sentence says what and what to do."""


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`. Raises StorageError with a sentence (disk full, no permission)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise StorageError(explain(error, path)) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(explain(error, path)) from error


def explain(error: OSError, path: Path) -> str:
    """A sentence for an error of the file system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full: {path.name} could not be saved. Free some space and try again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path} may not be written. Check the folder's permissions."
    return f"{path} could not be saved: {error.strerror or error}."


def move_aside(path: Path) -> Path:
    """Rename a broken file so that nothing in it is lost; returns its new path."""
    number = 1
    while (target := path.with_name(f"{path.stem}.broken-{number}{path.suffix}")).exists():
        number += 1
    path.replace(target)
    return target
