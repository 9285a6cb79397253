"""Titles, figures and headings in words."""

from __future__ import annotations

import time

import pytest

from app.chat.words import (
    LONGEST_TITLE,
    context_tip,
    context_words,
    group_of,
    load_words,
    prefill_words,
    stats_words,
    title_from,
)
from app.storage.records import Message


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Why is the sea salty?", "Why is the sea salty?"),
        ("Why? Because I said so.", "Why?"),
        ("\n\n  # Heading here\nmore", "Heading here"),
        ("", "New chat"),
        ("   \n ", "New chat"),
        ("日本語の長い質問です。次の文。", "日本語の長い質問です。次の文。"),
        ("version 3.5 of it", "version 3.5 of it"),
    ],
)
def test_titles(prompt: str, title: str) -> None:
    assert title_from(prompt) == title


@pytest.mark.parametrize("prompt", ["word " * 50, "x" * 500, "a, b, c, " * 30])
def test_long_titles_are_cut_at_a_word(prompt: str) -> None:
    title = title_from(prompt)
    assert title.endswith("…")
    assert len(title) <= LONGEST_TITLE + 1
    assert not title[:-1].endswith((" ", ","))


def stats(**values: object) -> str:
    """The figures of an answer in words."""
    return stats_words(Message(1, 1, None, "assistant", "x", stats=values))


def test_stats() -> None:
    figures = {
        "decode_tokens_per_second": 61.2,
        "seconds_to_first_token": 0.184,
        "completion_tokens": 214,
    }
    assert stats(**figures) == "61 tok/s · first token 0.18 s · 214 tokens"
    assert stats(decode_tokens_per_second=3.14) == "3.1 tok/s"
    assert stats(completion_tokens=1) == "1 token"
    assert stats() == ""


NOW = time.mktime((2026, 3, 11, 15, 0, 0, 0, 0, -1))
HOUR = 3600


@pytest.mark.parametrize(
    ("hours", "group"),
    [
        (0, "Today"),
        (14.9, "Today"),
        (15.1, "Yesterday"),
        (38, "Yesterday"),
        (40, "Last week"),
        (24 * 7, "Last week"),
        (24 * 9, "Older"),
    ],
)
def test_groups(hours: float, group: str) -> None:
    assert group_of(NOW - hours * HOUR, NOW) == group


def test_loading_says_what_and_how_far() -> None:
    words, fraction = load_words({"phase": "uploading", "done": 47 * 2**20, "total": 94 * 2**20})
    assert words == "Loading the model, 47 of 94 MiB"
    assert fraction == 0.5
    assert load_words({"phase": "compiling", "done": 3, "total": 9})[0] == "Preparing the GPU"
    assert load_words({}) == ("Loading the model", None)


def test_prefill() -> None:
    assert prefill_words(0, 0)[1] is None
    assert "of" in prefill_words(512, 1024)[0]


def test_context_says_what_happens_when_it_is_full() -> None:
    assert context_words(None, None) == "Context"
    assert context_words(97, 512) == "Context 97 / 512"
    assert "never left out" in context_tip(97, 512)
    assert "415 are free" in context_tip(97, 512)
