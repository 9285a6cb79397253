"""Numbers read as a person says them."""

from __future__ import annotations

import pytest

from app.memory import units
from app.memory.units import GIB, KIB, MIB


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0"), (999, "999"), (8192, "8\u202f192"), (98362432, "98\u202f362\u202f432")],
)
def test_counts_are_grouped_thinly(number: int, words: str) -> None:
    assert units.count(number) == words


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [
        (0, "0.0 GiB"),
        (1, "<1 MiB"),
        (94.4 * MIB, "94 MiB"),
        (0.5 * GIB, "0.5 GiB"),
        (3.94 * GIB, "3.9 GiB"),
        (140 * GIB, "140.0 GiB"),
    ],
)
def test_memory_is_told_in_gib_or_mib(nbytes: float, words: str) -> None:
    assert units.gib(nbytes) == words


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [
        (1, "1 byte"),
        (512, "512 bytes"),
        (40 * KIB, "40 KiB"),
        (1.5 * MIB, "1.5 MiB"),
        (98362432, "94 MiB"),
        (2.5 * GIB, "2.5 GiB"),
        (212.3 * GIB, "212 GiB"),
        (3 * 1024 * GIB, "3.0 TiB"),
    ],
)
def test_sizes_choose_their_unit(nbytes: float, words: str) -> None:
    assert units.size(nbytes) == words


def test_exact_bytes_say_both() -> None:
    assert units.exact_bytes(98362432) == "94 MiB (98\u202f362\u202f432 bytes)"


@pytest.mark.parametrize(
    ("done", "total", "words"),
    [
        (int(1.4 * GIB), int(2.4 * GIB), "1.4 of 2.4 GiB"),
        (21 * MIB, 94 * MIB, "21 of 94 MiB"),
        (21 * MIB, 0, "21 MiB"),
        (99 * MIB, 94 * MIB, "94 of 94 MiB"),
    ],
)
def test_progress_is_in_the_unit_of_the_total(done: int, total: int, words: str) -> None:
    assert units.progress_pair(done, total) == words


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (38 * MIB, "38 MiB/s"),
        (None, ""),
        (0.0, ""),
        (float("inf"), ""),
        (float("nan"), ""),
        (-3.0, ""),
    ],
)
def test_speed(rate: float | None, words: str) -> None:
    assert units.speed(rate) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (float("nan"), ""),
        (-1, ""),
        (0.2, "almost done"),
        (1, "1 second left"),
        (27, "27 seconds left"),
        (240, "4 minutes left"),
        (3599, "1 hour left"),
        (4800, "1 hour 20 minutes left"),
        (3 * 86400, "more than a day left"),
    ],
)
def test_time_left_in_words(seconds: float | None, words: str) -> None:
    assert units.time_left(seconds) == words


def test_contexts_are_short_only_when_round() -> None:
    assert [units.tokens(n) for n in (512, 8192, 131072, 5000)] == [
        "512",
        "8k",
        "128k",
        "5\u202f000",
    ]
