"""The models folder: one GGUF file a model, and beside it, with the same stem, its licence text.

Every change is atomic: a file appears under its name only when it is whole. Files that are still
coming end in ``.part``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Final

from engine.models.errors import DuplicateModelError, ModelNotFoundError, StoreError
from engine.models.inspection import SUFFIX, InstalledModel, inspect_model
from engine.models.paths import home_paths
from engine.models.transfer import (
    Cancelled,
    Meter,
    Report,
    copy_stream,
    explained_disk_full,
    file_sha256,
    ignore,
    never,
    require_space,
)

PART: Final = ".part"
LICENCE_SUFFIX: Final = ".LICENSE.txt"
_CHOSEN: Final = "models-folder.txt"  # in the config folder: where the person moved the models
_UNSAFE: Final = re.compile(r"[^\w.+-]+")


class Store:
    """The models of one folder. The folder is made when something is added.

    ``folder`` changes with :meth:`move`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or chosen_folder()
        self._seen: dict[Path, tuple[tuple[int, int], InstalledModel]] = {}

    def list(self) -> list[InstalledModel]:
        """All models by name, broken ones too. A folder that is missing has none."""
        try:
            files = sorted(self.folder.iterdir(), key=lambda path: path.name.lower())
        except OSError:
            return []
        return [self._inspect(one) for one in files if one.suffix.lower() == SUFFIX]

    def find(self, name_or_path: str | Path) -> InstalledModel:
        """A model by its name in any letter case, or any GGUF file by its path.

        Raises ModelNotFoundError.
        """
        wanted = str(name_or_path)
        if found := self._named(wanted):
            return found
        path = Path(wanted).expanduser()
        if path.is_file():
            return self._inspect(path.absolute())
        if path.suffix.lower() == SUFFIX or len(path.parts) > 1:
            raise ModelNotFoundError(f"There is no model file at {path}.")
        names = ", ".join(model.name for model in self.list())
        hint = f"Installed: {names}." if names else "No model is installed yet."
        raise ModelNotFoundError(f'There is no model "{wanted}". {hint}')

    def add(
        self,
        path: Path,
        *,
        copy: bool = True,
        progress: Report | None = None,
        cancelled: Cancelled = never,
    ) -> InstalledModel:
        """Bring a file into the folder under its own name, by copying or by moving it.

        The file is checked first. Raises StoreError, DiskFullError, CancelledError.
        """
        path = path.expanduser().absolute()
        self._check_new(path)
        target = self.path_of(path.stem)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not copy and _same_disk(path, self.folder):
            path.replace(target)
        else:
            require_space(self.folder, path.stat().st_size)
            _copy_whole(path, target, progress or ignore, cancelled)
            if not copy:
                path.unlink()
        return self._inspect(target)

    def remove(self, name: str) -> int:
        """Delete a model and what belongs to it; returns the bytes that this frees.

        Raises ModelNotFoundError, StoreError.
        """
        model = self._named(name)
        if model is None:
            raise ModelNotFoundError(f'There is no model "{name}" in {self.folder}.')
        freed = 0
        for file in self.files_of(model):
            size = file.stat().st_size
            try:
                file.unlink()
            except OSError as error:
                raise StoreError(
                    f"{file.name} could not be deleted: {error.strerror}. "
                    "If the model is in use, unload it first."
                ) from error
            freed += size
        return freed

    def files_of(self, model: InstalledModel) -> list[Path]:
        """The files that :meth:`remove` deletes."""
        licence = model.path.with_name(model.path.stem + LICENCE_SUFFIX)
        return [file for file in (model.path, licence) if file.is_file()]

    def move(
        self, folder: Path, *, progress: Report | None = None, cancelled: Cancelled = never
    ) -> None:
        """Move every model to another folder and remember it as the models folder.

        On failure or cancellation the models stay where they are. Raises StoreError, DiskFullError.
        """
        folder = folder.expanduser().absolute()
        here = self.folder.absolute()
        if folder == here:
            return
        if here in folder.parents:
            raise StoreError("The new folder lies inside the old one. Choose another.")
        files = [one for model in self.list() for one in self.files_of(model)]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _move_all(files, folder, progress or ignore, cancelled)
            remember_folder(folder)
        except OSError as error:
            raise StoreError(f"The models could not be moved: {error.strerror}.") from error
        self.folder = folder

    def path_of(self, name: str) -> Path:
        """Where a model of this name lies or will lie."""
        return self.folder / f"{_UNSAFE.sub('-', name).strip('-.') or 'model'}{SUFFIX}"

    def _named(self, name: str) -> InstalledModel | None:
        return next((one for one in self.list() if one.name.lower() == name.strip().lower()), None)

    def _check_new(self, path: Path) -> None:
        if path.is_dir():
            raise StoreError(f"{path.name} is a folder. Choose a GGUF file.")
        if not path.is_file():
            raise ModelNotFoundError(f"There is no file at {path}.")
        if path.parent.resolve() == self.folder.resolve():
            raise DuplicateModelError(f"{path.name} is in the models folder already.")
        if problem := inspect_model(path).problem:
            raise StoreError(problem)
        if self.path_of(path.stem).exists():
            raise DuplicateModelError(
                f'A model named "{self.path_of(path.stem).stem}" is installed already. '
                "Remove it first, or rename the file."
            )
        for same_size in (one for one in self.list() if one.bytes == path.stat().st_size):
            if file_sha256(same_size.path) == file_sha256(path):
                raise DuplicateModelError(
                    f'This file is installed already, under the name "{same_size.name}".'
                )

    def _inspect(self, path: Path) -> InstalledModel:
        """Read the header, once for each state of the file."""
        try:
            stat = path.stat()
        except OSError:
            return inspect_model(path)
        state = (stat.st_size, stat.st_mtime_ns)
        known = self._seen.get(path)
        if known is None or known[0] != state:
            known = self._seen[path] = (state, inspect_model(path))
        return known[1]


def chosen_folder() -> Path:
    """The models folder: the one the person moved to, else the platform's usual one."""
    paths = home_paths()
    try:
        chosen = (paths.config / _CHOSEN).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        chosen = ""
    return Path(chosen) if chosen else paths.models


def remember_folder(folder: Path) -> None:
    """Make ``folder`` the models folder of every later start."""
    note = home_paths().config / _CHOSEN
    note.parent.mkdir(parents=True, exist_ok=True)
    part = note.with_name(note.name + PART)
    part.write_text(f"{folder}\n", "utf-8")
    part.replace(note)


@contextlib.contextmanager
def removed_on_failure(path: Path) -> Generator[None]:
    """Delete a half-made file if the block fails."""
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def publish(part: Path, target: Path) -> None:
    """Give a whole file its name, after its bytes are on the disk."""
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(target)


def _copy_whole(source: Path, target: Path, report: Report, cancelled: Cancelled) -> None:
    part = target.with_name(target.name + ".copy" + PART)
    with removed_on_failure(part):
        meter = Meter("copying", source.stat().st_size, report, cancelled)
        with source.open("rb") as old, part.open("wb") as new:
            copy_stream(old, new, meter)
            with explained_disk_full(0):
                new.flush()
        publish(part, target)


def _move_all(files: list[Path], folder: Path, report: Report, cancelled: Cancelled) -> None:
    taken = [file.name for file in files if (folder / file.name).exists()]
    if taken:
        raise StoreError(f"{folder} has a file {taken[0]} already. Choose an empty folder.")
    if not files or _same_disk(files[0], folder):
        for file in files:
            shutil.move(file, folder / file.name)
        return
    require_space(folder, sum(file.stat().st_size for file in files))
    made: list[Path] = []
    try:
        for file in files:
            _copy_whole(file, folder / file.name, report, cancelled)
            made.append(folder / file.name)
    except BaseException:
        for new in made:
            new.unlink(missing_ok=True)
        raise
    for file in files:
        file.unlink()


def _same_disk(file: Path, folder: Path) -> bool:
    return file.stat().st_dev == folder.stat().st_dev
