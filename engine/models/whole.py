"""Model files and model folders handled alike: size, state, copying, deleting, as one thing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from engine.models.errors import StoreError
from engine.models.transfer import Cancelled, Meter, Report, copy_stream, explained_disk_full

PART: Final = ".part"
# Other programs' forms of the same weights, which we never read.
_FOREIGN: Final = frozenset(
    (".bin", ".ckpt", ".pt", ".pth", ".msgpack", ".onnx", ".onnx_data", ".pb", ".h5", ".ot")
)


def files_below(path: Path) -> list[Path]:
    """A file itself, or every file of a folder and its folders."""
    if not path.is_dir():
        return [path]
    return sorted(one for one in path.rglob("*") if one.is_file())


def files_needed(path: Path) -> list[Path]:
    """What is copied of a model: all but other programs' forms of the same weights."""
    if not path.is_dir():
        return [path]
    return [one for one in files_below(path) if _is_needed(one.relative_to(path))]


def _is_needed(part: Path) -> bool:
    if any(name.startswith(".") for name in part.parts):
        return False
    at_top = len(part.parts) == 1 and part.suffix.lower() == ".safetensors"
    return part.suffix.lower() not in _FOREIGN and not at_top


def size_of(files: list[Path]) -> int:
    """Bytes of files together; those that have gone meanwhile count nothing."""
    return sum(size for size, _ in _states(files))


def state_of(path: Path) -> tuple[int, int]:
    """Bytes and the latest time of change: another one means that it has to be read anew."""
    states = list(_states(files_below(path)))
    return sum(size for size, _ in states), max((time for _, time in states), default=0)


def _states(files: list[Path]) -> Iterator[tuple[int, int]]:
    for file in files:
        try:
            stat = file.stat()
        except OSError:
            continue
        yield stat.st_size, stat.st_mtime_ns


def copy_whole(source: Path, target: Path, report: Report, cancelled: Cancelled) -> None:
    """Copy a file or a folder so that ``target`` appears only when it is whole.

    Raises DiskFullError, CancelledError; nothing is left behind then.
    """
    part = target.with_name(target.name + ".copy" + PART)
    files = files_needed(source)
    meter = Meter("copying", size_of(files), report, cancelled)
    try:
        for file in files:
            place = part / file.relative_to(source) if source.is_dir() else part
            place.parent.mkdir(parents=True, exist_ok=True)
            with file.open("rb") as old, place.open("wb") as new:
                copy_stream(old, new, meter)
                with explained_disk_full(0):
                    new.flush()
                    os.fsync(new.fileno())
        part.replace(target)
    except BaseException:
        delete_whole(part, missing_ok=True)
        raise


def delete_whole(path: Path, *, missing_ok: bool = False) -> None:
    """Delete a file or a folder. Raises StoreError with what is in the way."""

    def explain(_function: Callable[..., object], name: str, info: object) -> None:
        error = info[1] if isinstance(info, tuple) else info  # pyright: ignore
        reason = getattr(error, "strerror", None) or str(error)  # pyright: ignore
        raise StoreError(
            f"{Path(name).name} could not be deleted: {reason}. "
            "If the model is in use, unload it first."
        )

    if missing_ok and not path.exists():
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=explain)
        return
    try:
        path.unlink()
    except OSError as error:
        explain(path.unlink, str(path), error)
