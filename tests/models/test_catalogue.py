from __future__ import annotations

import pytest

from engine.models.catalogue import (
    CATALOGUE,
    STARTER,
    CatalogueEntry,
    HubSource,
    PackageSource,
    find_entry,
)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_entry_is_complete(entry: CatalogueEntry) -> None:
    assert entry.name == entry.name.lower()
    assert " " not in entry.name
    assert entry.family == "llama"
    assert entry.kind == "text"
    assert 0 < entry.bytes < entry.parameters * 2
    assert entry.licence
    assert entry.description.endswith(".")
    if isinstance(entry.source, HubSource):
        assert entry.source.file.endswith(".gguf")
        assert entry.source.repo.count("/") == 1
    else:
        assert entry.sha256 is not None
        assert len(entry.sha256) == 64


def test_names_are_unique() -> None:
    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE)


def test_the_starter_comes_from_the_package_index_with_its_hash_pinned() -> None:
    assert isinstance(STARTER.source, PackageSource)
    assert STARTER.bytes == 98_362_432
    assert STARTER.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_entries_are_found_in_any_letter_case() -> None:
    assert find_entry(" SmolLM2-135M-Instruct ") is STARTER
    assert find_entry("nothing") is None


def test_any_file_of_the_hub_can_be_named() -> None:
    entry = find_entry("Someone/Some-Model/deep/Model.Q4_0.gguf")
    assert entry is not None
    assert entry.name == "model.q4_0"
    assert entry.source == HubSource("Someone/Some-Model", "deep/Model.Q4_0.gguf")


@pytest.mark.parametrize("name", ["a/b", "a/b.gguf", "/a/b.gguf", "./a/b.gguf", "a/b/c.bin"])
def test_a_path_is_no_file_of_the_hub(name: str) -> None:
    assert find_entry(name) is None


def test_a_longer_context_needs_more_up_to_the_model_s_own() -> None:
    assert STARTER.need_bytes(4096) > STARTER.need_bytes(2048) > STARTER.bytes
    assert STARTER.need_bytes(10**6) == STARTER.need_bytes(STARTER.context)
