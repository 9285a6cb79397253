"""Requests about model files: list, get, add, remove, info, move. None of them touches the GPU."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.models.catalogue import CATALOGUE, WORKING_BYTES, CatalogueEntry, find_entry
from engine.models.errors import ModelNotFoundError
from engine.models.fit import DEFAULT_CONTEXT
from engine.models.inspection import InstalledModel, model_details
from engine.models.store import Store
from engine.models.transfer import Cancelled, Report
from engine.worker.job import Job
from engine.worker.protocol import CatalogueFields, ModelFields

Download = Callable[[CatalogueEntry, Store, Report, Cancelled], InstalledModel]
Loaded = tuple[Path, int]  # the file of the model on the GPU, and its context in tokens


class ModelRoom:
    """Answers the requests about files.

    ``loaded`` and ``picture`` tell which models are on the GPU; ``release`` frees a model if it is
    there, after what the engine does now; ``free`` waits for that.
    """

    def __init__(
        self,
        store: Store,
        download: Download,
        loaded: Callable[[], Loaded | None],
        picture: Callable[[], Path | None],
        release: Callable[[Path], None],
        free: Callable[[Path], None],
    ) -> None:
        self.store = store
        self._download = download
        self._loaded = loaded
        self._picture = picture
        self._release = release
        self._free = free

    def models_list(self, job: Job) -> None:
        """What is here, and what can be had."""
        models = self.store.list()
        if (here := self._loaded()) and not here[0].exists():
            self._release(here[0])  # somebody deleted the file: nothing could unload it any more
        if (picture := self._picture()) and not picture.exists():
            self._release(picture)
        names = {one.name for one in models}
        job.done(
            models=[self._told(one) for one in models],
            catalogue=[offered(one, one.name in names) for one in CATALOGUE],
            folder=str(self.store.folder),
            free_bytes=_free_bytes(self.store.folder),
        )

    def model_get(self, job: Job) -> None:
        """Download a model of the catalogue."""
        entry = _entry_of(job.request.fields["name"])
        model = self._download(entry, self.store, job.transfer, job.cancelled)
        job.done(model=self._told(model))

    def model_forget(self, job: Job) -> None:
        """Delete what has come of a download."""
        from engine.models.download import forget

        job.done(freed_bytes=forget(_entry_of(job.request.fields["name"]), self.store))

    def model_add(self, job: Job) -> None:
        """Import a file."""
        fields = job.request.fields
        model = self.store.add(
            Path(fields["path"]),
            copy=fields.get("copy", True),
            progress=job.transfer,
            cancelled=job.cancelled,
        )
        job.done(model=self._told(model))

    def model_remove(self, job: Job) -> None:
        """Delete a model, and free it on the GPU first."""
        name: str = job.request.fields["name"]
        self._free(self.store.find(name).path)
        job.done(freed_bytes=self.store.remove(name))

    def model_info(self, job: Job) -> None:
        """Everything about one file."""
        model = self.store.find(job.request.fields["name"])
        details: Mapping[str, Any] = {} if model.problem else model_details(model.path)
        job.done(info={**self._told(model), **details})

    def models_move(self, job: Job) -> None:
        """Move the models folder."""
        if here := self._loaded():
            self._free(here[0])
        if picture := self._picture():
            self._free(picture)
        folder = Path(job.request.fields["folder"])
        self.store.move(folder, progress=job.transfer, cancelled=job.cancelled)
        job.done(folder=str(self.store.folder))

    def _told(self, model: InstalledModel) -> ModelFields:
        here = self._loaded()
        if model.kind == "image":
            return {**told(model), "loaded": self._picture() == model.path}
        return told(model, here[1] if here and here[0] == model.path else None)


def _entry_of(name: str) -> CatalogueEntry:
    entry = find_entry(name)
    if entry is None:
        names = ", ".join(one.name for one in CATALOGUE)
        raise ModelNotFoundError(f'The catalogue has no "{name}". It has: {names}.')
    return entry


def told(model: InstalledModel, loaded_context: int | None = None) -> ModelFields:
    """An installed model as the protocol tells it; ``loaded_context`` None: it is not loaded."""
    need = None if model.problem else model.need(DEFAULT_CONTEXT).total
    return {
        "name": model.name,
        "path": str(model.path),
        "bytes": model.bytes,
        "kind": model.kind,
        "family": model.family,
        "quant": model.quant,
        "context": model.context,
        "licence": model.licence,
        "parameters": model.parameters,
        "problem": model.problem,
        "need_bytes": need,
        "weight_bytes": model.weight_bytes,
        "kv_bytes_per_token": model.kv_bytes_per_token,
        "activation_bytes": model.activation_bytes,
        "loaded": loaded_context is not None,
        "loaded_context": loaded_context,
        "title": model.title,
        "removable": model.removable,
    }


def offered(entry: CatalogueEntry, installed: bool) -> CatalogueFields:
    """An entry of the catalogue as the protocol tells it."""
    return {
        "name": entry.name,
        "title": entry.title,
        "family": entry.family,
        "kind": entry.kind,
        "parameters": entry.parameters,
        "quant": entry.quant,
        "bytes": entry.bytes,
        "licence": entry.licence,
        "context": entry.context,
        "description": entry.description,
        "source": str(entry.source),
        "gated": entry.gated,
        "installed": installed,
        "need_bytes": entry.need_bytes(DEFAULT_CONTEXT),
        "weight_bytes": entry.bytes,
        "kv_bytes_per_token": entry.kv_bytes_per_token,
        "activation_bytes": WORKING_BYTES,
    }


def download_model(
    entry: CatalogueEntry, store: Store, report: Report, cancelled: Cancelled
) -> InstalledModel:
    """Download with the real client, which is imported only now."""
    from engine.models.download import download

    return download(entry, store, progress=report, cancelled=cancelled)


def _free_bytes(folder: Path) -> int:
    """Free space on the disk of a folder that may not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
