"""Fit lines: numbers first, then what to do."""

from __future__ import annotations

from app.memory.units import GIB
from app.models.fit import (
    Level,
    Need,
    Room,
    broken_line,
    fit_line,
    loaded_line,
    longest_context,
    short_words,
)

NEED = Need(weights=4 * GIB, kv_cache=2 * GIB, activations=GIB // 4, context=8192)


def words(need: Need | None, room: Room, **options: bool) -> tuple[str, str]:
    line = fit_line(need, room, **options)
    return line.headline, line.detail


def test_what_fits_says_of_how_much() -> None:
    small = Need(GIB // 4, 0, 0, 2048)
    assert words(small, Room(8 * GIB)) == ("Fits", "needs 256 MiB of 8.0 GiB free")


def test_room_counts_what_unloading_gives_back() -> None:
    assert words(NEED, Room(4 * GIB, unloading=3 * GIB)) == (
        "Fits",
        "needs 6.2 GiB of 7.0 GiB free after unloading",
    )


def test_headroom_is_kept() -> None:
    assert fit_line(NEED, Room(7 * GIB, headroom=GIB)).level is Level.SHORT


def test_short_by_how_much_and_what_to_do() -> None:
    line = fit_line(NEED, Room(int(5.65 * GIB)))
    assert line.level is Level.SHORT
    assert line.headline == "Does not fit by 0.6 GiB"
    assert line.detail == "choose a 4\u202f096-token context or a smaller quantisation"
    assert line.context == 4096


def test_no_context_helps_when_the_weights_are_too_big() -> None:
    assert words(NEED, Room(GIB))[1] == (
        "choose a smaller model, or close programs that use the GPU"
    )
    assert words(NEED, Room(GIB), smaller_exists=True)[1] == (
        "choose a smaller quantisation or another model"
    )


def test_unknown_is_said() -> None:
    assert fit_line(None, Room(GIB)).level is Level.UNKNOWN
    assert words(NEED, Room(None)) == (
        "Needs 6.2 GiB",
        "how much is free is not known yet",
    )


def test_contexts_offered_are_shorter_powers_of_two() -> None:
    assert longest_context(NEED, 100 * GIB) == 4096
    assert longest_context(Need(0, GIB, 0, 6000), 100 * GIB) == 4096
    assert longest_context(Need(0, GIB, 0, 512), GIB) is None
    assert longest_context(Need(GIB, 0, 0, 0), 0) is None


def test_the_sentence_of_a_refused_load() -> None:
    assert short_words(NEED, Room(5 * GIB)) == (
        "This model needs 6.2 GiB and 5.0 GiB are free. "
        "Choose a 2\u202f048-token context or a smaller quantisation."
    )


def test_loaded_and_broken() -> None:
    assert loaded_line(int(3.9 * GIB), 8192, 262144).headline == "Loaded · 3.9 GiB"
    assert loaded_line(0, 0, 0).headline == "Loaded"
    assert loaded_line(0, 0, 0).detail == "ready to chat"
    assert loaded_line(1, 8192, 16384).detail == "8\u202f192 of 16\u202f384 tokens of context"
    assert broken_line("The file ends early.").detail == "The file ends early."
