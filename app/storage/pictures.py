"""The folder of pictures: what is in it, newest first, and deleting with a way back.

Deleted pictures wait in a hidden folder beside the others until the next start. No Qt.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.storage.files import StorageError, explain
from app.storage.pictures_text import PngText, prompt_of, read_png_text

BIN = ".deleted"
THUMBNAILS = ".thumbnails"
SUFFIXES = frozenset({".png"})


@dataclass(frozen=True)
class Picture:
    """One picture of the gallery. modified: nanoseconds since 1970; width and height in pixels,
    0 where the file does not tell; text: its settings as A1111-style tools write them, or ""."""

    path: Path
    modified: int
    bytes: int = 0
    width: int = 0
    height: int = 0
    text: str = ""

    @property
    def prompt(self) -> str:
        """What it was made from, "" where the file does not tell."""
        return prompt_of(self.text)

    @property
    def thumbnail(self) -> Path:
        """Where its small version is kept."""
        return self.path.parent / THUMBNAILS / f"{self.path.name}.{self.modified:x}.png"


def scan(folder: Path, known: Mapping[Path, Picture] | None = None) -> list[Picture]:
    """Every picture of the folder, newest first; files that are ``known`` are not read again.

    A folder that is not there holds no picture. Raises StorageError where it cannot be read.
    """
    known = known or {}
    found: list[Picture] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                path = folder / entry.name
                if path.suffix.lower() not in SUFFIXES or entry.name.startswith("."):
                    continue
                one = _read(path, known.get(path), entry)
                if one is not None:
                    found.append(one)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    return sorted(found, key=lambda one: (one.modified, one.path.name), reverse=True)


def read_picture(path: Path) -> Picture | None:
    """One picture's facts, None where the file is gone."""
    return _read(path, None, path)


def matching(pictures: list[Picture], words: str) -> list[Picture]:
    """Those whose settings or name hold every word."""
    wanted = words.casefold().split()
    if not wanted:
        return pictures
    return [one for one in pictures if all(word in _haystack(one) for word in wanted)]


def set_aside(path: Path) -> Path:
    """Delete a picture for now; returns where it waits. Raises StorageError."""
    try:
        folder = path.parent / BIN
        folder.mkdir(exist_ok=True)
        target = free_name(folder / path.name)
        path.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{path.name} could not be deleted: {reason}.") from error
    return target


def bring_back(waiting: Path, path: Path) -> Path:
    """Undo :func:`set_aside`; returns the path it has now. Raises StorageError."""
    target = free_name(path)
    try:
        waiting.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{path.name} could not be brought back: {reason}.") from error
    return target


def empty_bin(folder: Path) -> int:
    """Delete for good what waits, and thumbnails whose picture is gone; returns how many files."""
    count = 0
    for path in _files_in(folder / BIN):
        count += _remove(path)
    for path in _files_in(folder / THUMBNAILS):
        name = path.name.rsplit(".", 2)[0]
        if not (folder / name).exists():
            count += _remove(path)
    return count


def copy_to(path: Path, target: Path) -> None:
    """Copy a picture, settings and all. Raises StorageError with a sentence."""
    try:
        target.write_bytes(path.read_bytes())
    except FileNotFoundError as error:
        raise StorageError(f"{path.name} is no longer there, so it was not saved.") from error
    except OSError as error:
        raise StorageError(explain(error, target)) from error


def free_name(path: Path) -> Path:
    """The path, or one with a number where that name is taken."""
    number, target = 1, path
    while target.exists():
        number += 1
        target = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return target


def _read(path: Path, known: Picture | None, entry: os.DirEntry[str] | Path) -> Picture | None:
    try:
        stat = entry.stat()
    except OSError:
        return None  # it went while we looked
    if known is not None and known.modified == stat.st_mtime_ns and known.bytes == stat.st_size:
        return known
    text = read_png_text(path) or PngText()
    return Picture(path, stat.st_mtime_ns, stat.st_size, text.width, text.height, text.parameters)


def _haystack(picture: Picture) -> str:
    return f"{picture.text}\n{picture.path.stem}".casefold()


def _files_in(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []


def _remove(path: Path) -> int:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return 0  # it is tried again at the next start
    return 1
