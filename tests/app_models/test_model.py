"""What the worker tells about models, and the words made of it."""

from __future__ import annotations

from typing import Any

import pytest

from app.memory.model import MemoryState
from app.memory.units import GIB, MIB
from app.models.fit import Level, Need
from app.models.model import (
    ModelsState,
    detail_rows,
    disk_words,
    file_problem,
    fit_of,
    fit_of_entry,
    removal_words,
    search,
    state_from,
)

NEED = {
    "need_bytes": 143 * MIB,
    "weight_bytes": 90 * MIB,
    "kv_bytes_per_token": 45 * MIB // 2048,
    "activation_bytes": 8 * MIB,
}
SMALL: dict[str, Any] = {
    "name": "smollm2-135m-instruct",
    "path": "/models/smollm2.gguf",
    "bytes": 98362432,
    "kind": "text",
    "family": "llama",
    "quant": "Q4_1",
    "context": 2048,
    "licence": "Apache-2.0",
    "parameters": 134_515_008,
    **NEED,
    "loaded": True,
    "problem": None,
}
BIG: dict[str, Any] = {
    **SMALL,
    "name": "big-8b",
    "bytes": 5 * GIB,
    "loaded": False,
    "need_bytes": 6 * GIB,
    "kv_bytes_per_token": 0,
}
ENTRY = {"name": "smollm2-135m-instruct", "title": "SmolLM2 135M Instruct", "bytes": 98362432}
OTHER = {**ENTRY, "name": "other", "title": "Other 1B", "bytes": GIB, "source": "a/b"}
STATE = {
    "models": [BIG, SMALL],
    "catalogue": [OTHER, ENTRY],
    "folder": "/models",
    "free_bytes": GIB,
}
MEMORY = MemoryState(weights=143 * MIB, total=143 * MIB, device_total=4 * GIB, others=GIB)


def state(**fields: object) -> ModelsState:
    return state_from({**STATE, **fields})


def test_the_loaded_model_comes_first_and_titles_come_from_the_catalogue() -> None:
    assert [card.title for card in state().models] == ["SmolLM2 135M Instruct", "Big 8b"]
    assert state().loaded == state().models[0]


def test_chips_say_what_it_is() -> None:
    assert state().models[0].chips == ("chat", "llama", "Q4_1", "2k context")


def test_the_catalogue_knows_what_is_installed_and_the_starter_is_the_smallest() -> None:
    assert [(card.name, card.installed) for card in state().catalogue] == [
        ("smollm2-135m-instruct", True),
        ("other", False),
    ]
    starter = state().starter
    assert starter is not None
    assert starter.name == "smollm2-135m-instruct"
    assert state().catalogue[1].source == "a/b"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"models": None},
        {"models": [3, "x"]},
        {"models": [{"bytes": "many"}], "free_bytes": "?"},
    ],
)
def test_malformed_lists_never_raise(fields: dict[str, object]) -> None:
    assert all(card.nbytes == 0 for card in state_from(fields).models)


def test_need_is_split_where_the_parts_are_told() -> None:
    small, big = state().models
    assert small.need == Need(90 * MIB, 45 * MIB, 8 * MIB, 2048)
    assert big.need == Need(6 * GIB, 0, 0, 2048)
    entry = {**ENTRY, "need_bytes": 200 * MIB, "kv_bytes_per_token": 23040, "context": 2048}
    need = state(catalogue=[entry]).catalogue[0].need
    assert need is not None
    assert need.total == 200 * MIB
    assert need.context == 2048


def test_fit_of_each_kind_of_card() -> None:
    small, big = state().models
    assert fit_of(small, state(), MEMORY, 0).headline == "Loaded · 143 MiB"
    line = fit_of(big, state(), MEMORY, 0)
    assert (line.level, line.headline) == (Level.SHORT, "Does not fit by 3.0 GiB")
    broken = state_from({"models": [{**BIG, "problem": "The file ends early."}]}).models[0]
    assert fit_of(broken, state(), MEMORY, 0).level is Level.BROKEN
    assert fit_of_entry(state().catalogue[1], MEMORY, 0).headline == "1.0 GiB to download"


def test_search_wants_every_word_anywhere() -> None:
    names = [card.name for card in search(state().models, "Q4_1 apache")]
    assert len(names) == 2
    assert [card.name for card in search(state().models, "big LLAMA")] == ["big-8b"]
    assert not search(state().models, "gemma")


def test_removal_names_the_file_and_its_bytes() -> None:
    small, big = state().models
    assert removal_words(big) == (
        "This deletes /models/smollm2.gguf and frees 5.0 GiB (5\u202f368\u202f709\u202f120 bytes)."
    )
    assert "unloaded first" in removal_words(small)


def test_details_leave_out_what_is_not_known() -> None:
    rows = dict(detail_rows(state().models[0]))
    assert rows["Parameters"] == "135M"
    assert rows["KV cache"] == "45 MiB at 2\u202f048 tokens"
    bare = state_from({"models": [{"name": "x", "bytes": 3}]}).models[0]
    assert "Parameters" not in dict(detail_rows(bare))


def test_the_head_of_the_page_says_the_disk() -> None:
    assert disk_words(state()) == "5.1 GiB used · 1.0 GiB free"
    assert disk_words(ModelsState()) == ""


@pytest.mark.parametrize(
    ("path", "start"),
    [
        ("/a/model.gguf", None),
        ("C:\\m\\Model.GGUF", None),
        ("/a/model.safetensors", None),
        ("/a/picture-model", None),
        ("/a/model.ckpt", "“model.ckpt” may run programs when it is opened"),
        ("/a/notes.txt", "“notes.txt” is not a model file."),
    ],
)
def test_a_wrong_file_gets_a_sentence(path: str, start: str | None) -> None:
    problem = file_problem(path)
    assert problem is None if start is None else problem is not None and problem.startswith(start)
