from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.models.errors import (
    CancelledError,
    DiskFullError,
    DuplicateModelError,
    ModelNotFoundError,
    StoreError,
)
from engine.models.store import Store
from engine.models.transfer import Progress

MakeGguf = Callable[..., Path]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home / "models")


def add(store: Store, path: Path) -> str:
    return store.add(path).name


def test_a_folder_that_does_not_exist_has_no_models(store: Store) -> None:
    assert store.list() == []
    assert not store.folder.exists()


def test_an_added_model_is_listed_with_what_its_header_says(
    store: Store, make_gguf: MakeGguf
) -> None:
    store.add(make_gguf("tiny"))
    [model] = store.list()
    assert (model.name, model.family, model.quant) == ("tiny", "llama", "F32")
    assert (model.context, model.licence, model.parameters) == (512, "Apache-2.0", 8 * 64)
    assert model.problem is None
    assert model.path == store.folder / "tiny.gguf"
    assert model.need(1000).kv_cache == model.need(512).kv_cache == 512 * 2 * 2 * 32 * 2


def test_copying_leaves_the_file_and_moving_takes_it(store: Store, make_gguf: MakeGguf) -> None:
    kept, taken = make_gguf("kept"), make_gguf("taken", rows=9)
    store.add(kept)
    store.add(taken, copy=False)
    assert kept.exists()
    assert not taken.exists()
    assert [model.name for model in store.list()] == ["kept", "taken"]


def test_copying_tells_how_far_it_is(store: Store, make_gguf: MakeGguf) -> None:
    seen: list[Progress] = []
    store.add(make_gguf("tiny"), progress=seen.append)
    assert seen[-1].phase == "copying"
    assert seen[-1].done_bytes == seen[-1].total_bytes > 0


def test_a_cancelled_copy_leaves_nothing(store: Store, make_gguf: MakeGguf) -> None:
    with pytest.raises(CancelledError):
        store.add(make_gguf("tiny"), cancelled=lambda: True)
    assert list(store.folder.iterdir()) == []


def test_a_broken_file_is_refused_with_its_reason(store: Store, tmp_path: Path) -> None:
    page = tmp_path / "page.gguf"
    page.write_text("<html><body>Not found</body></html>")
    with pytest.raises(StoreError, match=r"\w+ \w+"):
        store.add(page)
    assert store.list() == []


def test_a_file_that_breaks_later_is_listed_with_its_problem(
    store: Store, make_gguf: MakeGguf
) -> None:
    add(store, make_gguf("tiny"))
    add(store, make_gguf("good", rows=9))
    path = store.folder / "tiny.gguf"
    path.write_bytes(path.read_bytes()[:-100])
    good, tiny = store.list()
    assert good.problem is None
    assert tiny.name == "tiny"
    assert tiny.problem is not None
    assert tiny.problem.endswith(".")


@pytest.mark.parametrize("content", [b"", b"GGUF", b"\0" * 100, b"GGUF" + b"\xff" * 60])
def test_rubbish_in_the_folder_never_breaks_the_list(store: Store, content: bytes) -> None:
    store.folder.mkdir(parents=True)
    (store.folder / "rubbish.gguf").write_bytes(content)
    (store.folder / "notes.txt").write_bytes(content)
    [model] = store.list()
    assert model.problem


def test_a_folder_named_like_a_model_is_told_as_a_problem(store: Store) -> None:
    (store.folder / "folder.gguf").mkdir(parents=True)
    [model] = store.list()
    assert model.problem


def test_what_is_here_already_is_refused(store: Store, make_gguf: MakeGguf) -> None:
    path = make_gguf("tiny")
    store.add(path)
    with pytest.raises(DuplicateModelError, match='named "tiny"'):
        store.add(path)
    with pytest.raises(DuplicateModelError, match="in the models folder already"):
        store.add(store.folder / "tiny.gguf")
    with pytest.raises(DuplicateModelError, match='under the name "tiny"'):
        store.add(shutil.copy(path, path.with_name("other.gguf")))


def test_missing_files_and_folders_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="no file"):
        store.add(tmp_path / "nothing.gguf")
    with pytest.raises(StoreError, match="not a model folder"):
        store.add(tmp_path)


def test_names_become_safe_file_names(store: Store, make_gguf: MakeGguf) -> None:
    assert add(store, make_gguf("My model (v2)")) == "My-model-v2"


def test_a_full_disk_is_told_before_copying(
    store: Store, make_gguf: MakeGguf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100, 90, 10))
    with pytest.raises(DiskFullError, match="are free"):
        store.add(make_gguf("tiny"))
    assert store.list() == []


def test_models_are_found_by_name_and_by_path(store: Store, make_gguf: MakeGguf) -> None:
    outside = make_gguf("outside", rows=9)
    store.add(make_gguf("tiny"))
    assert store.find("TINY").path == store.folder / "tiny.gguf"
    assert store.find(str(outside)).path == outside
    with pytest.raises(ModelNotFoundError, match=r"Installed: tiny\."):
        store.find("nothing")
    with pytest.raises(ModelNotFoundError, match="no model file at"):
        store.find("/no/such/file.gguf")


def test_removing_frees_the_model_and_its_licence(store: Store, make_gguf: MakeGguf) -> None:
    store.add(make_gguf("tiny"))
    licence = store.folder / "tiny.LICENSE.txt"
    licence.write_text("free")
    size = (store.folder / "tiny.gguf").stat().st_size
    assert store.remove("tiny") == size + 4
    assert list(store.folder.iterdir()) == []
    with pytest.raises(ModelNotFoundError):
        store.remove("tiny")


def test_moving_takes_every_model_and_is_remembered(
    store: Store, make_gguf: MakeGguf, tmp_path: Path
) -> None:
    store.add(make_gguf("tiny"))
    new = tmp_path / "elsewhere" / "models"
    store.move(new)
    assert [model.path for model in store.list()] == [new / "tiny.gguf"]
    assert Store().folder == new


def test_what_draws_previews_is_no_model_and_moves_along(
    store: Store, make_gguf: MakeGguf, tmp_path: Path
) -> None:
    store.add(make_gguf())
    (store.folder / "taesd_decoder.safetensors").write_bytes(b"any")
    assert len(store.list()) == 1
    store.move(tmp_path / "new")
    assert (tmp_path / "new" / "taesd_decoder.safetensors").read_bytes() == b"any"


def test_moving_to_another_disk_copies_first(
    store: Store, make_gguf: MakeGguf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.models.store._same_disk", lambda *_: False)
    store.add(make_gguf("tiny"))
    old = store.folder
    with pytest.raises(CancelledError):
        store.move(tmp_path / "new", cancelled=lambda: True)
    assert (old / "tiny.gguf").exists()
    assert list((tmp_path / "new").iterdir()) == []
    store.move(tmp_path / "new")
    assert not (old / "tiny.gguf").exists()
    assert (tmp_path / "new" / "tiny.gguf").exists()


def test_moving_onto_other_files_or_into_itself_is_refused(
    store: Store, make_gguf: MakeGguf, tmp_path: Path
) -> None:
    store.add(make_gguf("tiny"))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "tiny.gguf").write_text("mine")
    with pytest.raises(StoreError, match="already"):
        store.move(tmp_path / "taken")
    with pytest.raises(StoreError, match="inside the old one"):
        store.move(store.folder / "deeper")
    assert [model.name for model in store.list()] == ["tiny"]
