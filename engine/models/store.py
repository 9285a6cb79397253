"""The models folder: one GGUF file, checkpoint or diffusers folder a model; licence texts beside.

Every change is atomic: a model appears under its name only when it is whole. What is still coming
ends in ``.part``. Models that come with Driftwood are listed too, from where they lie.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from engine.formats.diffusers_tiny import is_preview
from engine.models.errors import DuplicateModelError, ModelNotFoundError, StoreError
from engine.models.image_inspection import INDEX
from engine.models.image_inspection import SUFFIX as CHECKPOINT
from engine.models.inspection import (
    SUFFIX,
    InstalledModel,
    inspect_model,
    is_picture_model,
    model_stem,
)
from engine.models.paths import home_paths
from engine.models.transfer import Cancelled, Report, file_sha256, ignore, never, require_space
from engine.models.whole import (
    PART,
    copy_whole,
    delete_whole,
    files_below,
    files_needed,
    size_of,
    state_of,
)

LICENCE_SUFFIX: Final = ".LICENSE.txt"
_CHOSEN: Final = "models-folder.txt"  # in the config folder: where the person moved the models
_UNSAFE: Final = re.compile(r"[^\w.+-]+")


class Store:
    """The models of one folder. The folder is made when something is added.

    ``folder`` changes with :meth:`move`; ``shipped`` are models that lie elsewhere and stay there.
    """

    def __init__(self, folder: Path | None = None, shipped: Sequence[Path] = ()) -> None:
        self.folder = folder or chosen_folder()
        self.shipped = tuple(shipped)
        self._seen: dict[Path, tuple[tuple[int, int], InstalledModel]] = {}

    def list(self) -> list[InstalledModel]:
        """All models by name, broken ones too, those that came with Driftwood last."""
        shipped = [replace(self._inspect(one), removable=False) for one in self.shipped]
        return [*self._own(), *shipped]

    def _own(self) -> list[InstalledModel]:
        """The models of the folder. A folder that is missing has none."""
        try:
            files = sorted(self.folder.iterdir(), key=lambda path: path.name.lower())
        except OSError:
            return []
        return [self._inspect(one) for one in files if _is_model(one)]

    def find(self, name_or_path: str | Path) -> InstalledModel:
        """A model by its name in any letter case, or any model file or folder by its path.

        Raises ModelNotFoundError.
        """
        wanted = str(name_or_path)
        if found := self._named(wanted):
            return found
        path = _meant(Path(wanted).expanduser())
        if path.is_file() or path.is_dir():
            return self._inspect(path.absolute())
        if path.suffix.lower() in (SUFFIX, CHECKPOINT) or len(path.parts) > 1:
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
        """Bring a file or folder in under its own name, by copying or by moving it.

        It is checked first. Raises StoreError, DiskFullError, CancelledError.
        """
        path = _meant(path.expanduser().absolute())
        self._check_new(path)
        target = self._target_of(path)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not copy and _same_disk(path, self.folder):
            path.replace(target)
        else:
            require_space(self.folder, size_of(files_needed(path)))
            copy_whole(path, target, progress or ignore, cancelled)
            if not copy:
                delete_whole(path)
        return self._inspect(target)

    def remove(self, name: str) -> int:
        """Delete a model and what belongs to it; returns the bytes that this frees.

        Raises ModelNotFoundError, StoreError.
        """
        model = self._named(name)
        if model is None:
            raise ModelNotFoundError(f'There is no model "{name}" in {self.folder}.')
        if not model.removable:
            raise StoreError(f"{name} comes with Driftwood and cannot be removed.")
        freed = size_of(self.files_of(model))
        for one in self._parts_of(model):
            delete_whole(one)
        return freed

    def files_of(self, model: InstalledModel) -> list[Path]:
        """The files that :meth:`remove` deletes."""
        return [file for one in self._parts_of(model) for file in files_below(one)]

    def _parts_of(self, model: InstalledModel) -> list[Path]:
        """What lies in the models folder of a model: its file or folder, and its licence text."""
        licence = model.path.with_name(model_stem(model.path) + LICENCE_SUFFIX)
        return [one for one in (model.path, licence) if one.exists()]

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
        parts = [one for model in self._own() for one in self._parts_of(model)]
        parts += [one for one in self.folder.glob("*") if is_preview(one)]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _move_all(parts, folder, progress or ignore, cancelled)
            remember_folder(folder)
        except OSError as error:
            raise StoreError(f"The models could not be moved: {error.strerror}.") from error
        self.folder = folder

    def path_of(self, name: str, suffix: str = SUFFIX) -> Path:
        """Where a model of this name lies or will lie."""
        return self.folder / f"{_UNSAFE.sub('-', name).strip('-.') or 'model'}{suffix}"

    def _target_of(self, path: Path) -> Path:
        """Where a file or folder comes to lie."""
        suffix = "" if path.is_dir() else CHECKPOINT if is_picture_model(path) else SUFFIX
        return self.path_of(model_stem(path), suffix)

    def _named(self, name: str) -> InstalledModel | None:
        return next((one for one in self.list() if one.name.lower() == name.strip().lower()), None)

    def _check_new(self, path: Path) -> None:
        if not path.exists():
            raise ModelNotFoundError(f"There is no file or folder at {path}.")
        if path.parent.resolve() == self.folder.resolve():
            raise DuplicateModelError(f"{path.name} is in the models folder already.")
        if problem := inspect_model(path).problem:
            raise StoreError(problem)
        name = model_stem(path) if path.is_dir() else self._target_of(path).stem
        if self._named(name) or self._target_of(path).exists():
            raise DuplicateModelError(
                f'A model named "{name}" is installed already. Remove it first, or rename the file.'
            )
        if path.is_dir():
            return
        for same_size in self._own():
            if same_size.path.is_dir() or same_size.bytes != path.stat().st_size:
                continue
            if file_sha256(same_size.path) == file_sha256(path):
                raise DuplicateModelError(
                    f'This file is installed already, under the name "{same_size.name}".'
                )

    def _inspect(self, path: Path) -> InstalledModel:
        """Read the header, once for each state of the file or folder."""
        state = state_of(path)
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


def _meant(path: Path) -> Path:
    """The model that a path stands for: an index's folder, the one checkpoint of a folder."""
    if path.name == INDEX:
        return path.parent
    if path.is_dir() and not (path / INDEX).is_file():
        checkpoints = [
            one
            for one in path.iterdir()
            if one.suffix.lower() == CHECKPOINT and not is_preview(one)
        ]
        return checkpoints[0] if len(checkpoints) == 1 else path
    return path


def _is_model(path: Path) -> bool:
    """Whether something in the models folder is a model, whole or broken."""
    if path.suffix.lower() == PART or path.name.startswith(".") or is_preview(path):
        return False
    return path.suffix.lower() in (SUFFIX, CHECKPOINT) or (path / INDEX).is_file()


def _move_all(parts: list[Path], folder: Path, report: Report, cancelled: Cancelled) -> None:
    taken = [one.name for one in parts if (folder / one.name).exists()]
    if taken:
        raise StoreError(f"{folder} has a file {taken[0]} already. Choose an empty folder.")
    if not parts or _same_disk(parts[0], folder):
        for one in parts:
            shutil.move(one, folder / one.name)
        return
    require_space(folder, sum(size_of(files_below(one)) for one in parts))
    made: list[Path] = []
    try:
        for one in parts:
            copy_whole(one, folder / one.name, report, cancelled)
            made.append(folder / one.name)
    except BaseException:
        for new in made:
            delete_whole(new)
        raise
    for one in parts:
        delete_whole(one)


def _same_disk(file: Path, folder: Path) -> bool:
    return file.stat().st_dev == folder.stat().st_dev
