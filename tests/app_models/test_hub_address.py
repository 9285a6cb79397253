"""Addresses of the hub as people paste them."""

from __future__ import annotations

import pytest

from app.models.hub_address import NO_GGUF, WANTED, address_problem, hub_name


@pytest.mark.parametrize(
    "text",
    [
        "own/repo/Model.gguf",
        " own/repo/Model.gguf\n",
        "https://hub.example/own/repo/blob/main/Model.gguf",
        "https://hub.example/own/repo/resolve/main/Model.gguf?download=true",
        "hub.example/own/repo/blob/main/Model.gguf",
    ],
)
def test_a_file_is_found_in_it(text: str) -> None:
    assert hub_name(text) == "own/repo/Model.gguf"
    assert address_problem(text) == ""


def test_a_file_may_lie_in_a_folder_and_have_a_space() -> None:
    address = "https://hub.example/own/repo/blob/main/sub/My%20Model.GGUF"
    assert hub_name(address) == "own/repo/sub/My Model.GGUF"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", WANTED),
        ("model.gguf", WANTED),
        ("own/repo", WANTED),
        ("https://hub.example/own/repo", NO_GGUF),
        ("own/repo/model.safetensors", NO_GGUF),
        ("../own/model.gguf", NO_GGUF),
    ],
)
def test_what_names_no_file_gets_a_sentence(text: str, problem: str) -> None:
    assert hub_name(text) is None
    assert address_problem(text) == problem
