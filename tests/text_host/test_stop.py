"""A stop string ends the text where it begins, however the text is cut."""

from __future__ import annotations

import pytest

from engine.text.stop import StopScanner


def shown(stops: list[str], parts: list[str]) -> tuple[list[str], str | None]:
    """What is shown part by part, the rest at the end included, and the hit."""
    scanner = StopScanner(stops)
    output = [scanner.push(part)[0] for part in parts]
    return [*output, scanner.flush()], scanner.hit


@pytest.mark.parametrize(
    ("stops", "parts", "expected"),
    [
        ([], ["a", "b"], (["a", "b", ""], None)),
        (["END"], ["a END b"], (["a ", ""], "END")),
        (["END"], ["a E", "N", "D b"], (["a ", "", "", ""], "END")),
        (["END"], ["a E", "N", "x"], (["a ", "", "ENx", ""], None)),
        (["END"], ["EEN", "D"], (["E", "", ""], "END")),
        (["END"], ["an EN"], (["an ", "EN"], None)),
        (["END"], ["END", "more"], (["", "", ""], "END")),
        (["aab"], ["aaaa", "ab"], (["aa", "a", ""], "aab")),
        (["b", "abc"], ["abc"], (["", ""], "abc")),  # the one that begins first
        (["ab", "abc"], ["abc"], (["", ""], "abc")),  # of those, the longer one
        (["\n\n"], ["one\n", "two\n", "\nthree"], (["one", "\ntwo", "", ""], "\n\n")),
        (["🛑"], ["go 🛑 no"], (["go ", ""], "🛑")),
        ([""], ["a"], (["a", ""], None)),
    ],
)
def test_stop_strings(
    stops: list[str], parts: list[str], expected: tuple[list[str], str | None]
) -> None:
    assert shown(stops, parts) == expected


def test_nothing_is_lost_and_nothing_of_a_stop_string_is_shown() -> None:
    text = "abcabdabcabdabcabe and on"
    for size in range(1, len(text)):
        parts = [text[place : place + size] for place in range(0, len(text), size)]
        assert "".join(shown(["abcabe"], parts)[0]) == "abcabdabcabd"
        assert "".join(shown(["abcabx"], parts)[0]) == text
