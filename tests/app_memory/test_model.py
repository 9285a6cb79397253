"""The meter's readings, their words, and when a repaint is worth it."""

from __future__ import annotations

from dataclasses import replace

from app.memory.model import (
    History,
    MemoryState,
    looks_same,
    memory_from,
    next_load_words,
    parts_of,
    split_words,
    used_words,
)
from app.memory.units import GIB, MIB

SKETCH = MemoryState(
    weights=GIB // 10 * 37,
    kv_cache=GIB // 10 * 7,
    activations=GIB // 10 * 3,
    total=GIB // 10 * 47,
    peak=int(4.8 * GIB),
    device_total=8 * GIB,
    others=GIB // 10 * 9,
    device_name="A GPU",
)


def labels(state: MemoryState) -> list[str]:
    return [part.label for part in parts_of(state)]


def test_the_parts_add_up_to_the_device() -> None:
    assert sum(part.nbytes for part in parts_of(SKETCH)) == SKETCH.device_total
    assert labels(SKETCH) == ["Weights", "KV cache", "Activations", "Other programs", "Free"]


def test_used_and_free() -> None:
    assert used_words(SKETCH) == "5.6 of 8.0 GiB in use"
    assert SKETCH.free == SKETCH.device_total - SKETCH.used


def test_an_unknown_device_shows_only_what_we_hold() -> None:
    state = replace(SKETCH, device_total=None, others=None)
    assert labels(state) == ["Weights", "KV cache", "Activations"]
    assert "not known" in used_words(state)
    assert state.free is None
    assert state.scale == state.peak


def test_others_follow_from_what_the_device_says_is_used() -> None:
    state = replace(SKETCH, others=None, device_used=6 * GIB)
    assert dict(zip(labels(state), parts_of(state), strict=True))["Other programs"].nbytes == (
        6 * GIB - SKETCH.total
    )
    assert state.used == 6 * GIB


def test_our_own_rest_gets_a_row_only_when_there_is_some() -> None:
    assert "Driftwood, other" in labels(replace(SKETCH, other=200 * MIB))
    assert "Driftwood, other" not in labels(replace(SKETCH, other=10 * MIB))


def test_more_used_than_there_is_never_goes_below_zero() -> None:
    state = replace(SKETCH, others=40 * GIB)
    assert state.free == 0
    assert state.scale == state.used


def test_a_malformed_reading_counts_as_unknown() -> None:
    state = memory_from({"weights": "many", "device_total": None, "others": -3, "kv_cache": True})
    assert state == MemoryState()
    assert memory_from({"device_total": 8.0 * GIB}).device_total == 8 * GIB


def test_the_tooltip_says_the_split_and_the_next_load() -> None:
    words = split_words(SKETCH, needed=3 * GIB)
    assert "KV cache: 0.7 GiB" in words
    assert words.endswith("The next load needs 3.0 GiB: 0.6 GiB more than is free")
    assert next_load_words(SKETCH, GIB) == "The next load needs 1.0 GiB and fits"
    assert next_load_words(MemoryState(), GIB) == "The next load needs 1.0 GiB"


def test_only_a_visible_change_is_worth_a_repaint() -> None:
    assert looks_same(SKETCH, replace(SKETCH, others=SKETCH.others + 1000))
    assert not looks_same(SKETCH, replace(SKETCH, others=SKETCH.others + GIB))
    assert not looks_same(SKETCH, replace(SKETCH, device_name="Another"))
    assert not looks_same(SKETCH, replace(SKETCH, others=None))
    assert not looks_same(None, SKETCH)


def test_history_is_a_staircase_of_one_minute() -> None:
    history = History(60)
    for now, used in ((0, 1), (10, 1), (30, 5), (40, 5)):
        history.push(now, used)
    assert list(history.points(60)) == [(0.0, 1), (0.5, 1), (0.5, 5), (1.0, 5)]
    assert history.highest == 5


def test_history_forgets_what_is_older() -> None:
    history = History(60)
    for now in range(0, 200, 10):
        history.push(now, now)
    xs = [x for x, _ in history.points(190)]
    assert xs[0] == 0.0
    assert len(xs) < 16


def test_an_idle_history_is_one_step() -> None:
    history = History()
    for now in range(500):
        history.push(now, 7)
    assert history.still(499)
    assert not History().still(0)
    assert list(history.points(500)) == [(0.0, 7), (1.0, 7)]
    assert not list(History().points(0))
