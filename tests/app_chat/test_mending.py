"""Markdown that is still being written does not flicker."""

from __future__ import annotations

import pytest

from app.chat.blocks import Code, GrowingMarkdown, Text
from app.chat.mending import mended


@pytest.mark.parametrize(
    ("half", "whole"),
    [
        ("It is **bo", "It is **bo**"),
        ("It is **bold*", "It is **bold**"),
        ("It is **bold**", "It is **bold**"),
        ("It is **", "It is "),
        ("It is *", "It is "),
        ("an *it", "an *it*"),
        ("an _it", "an _it_"),
        ("snake_case", "snake_case"),
        ("2 * 3", "2 * 3"),
        ("**a *b", "**a *b***"),
        ("~~gone", "~~gone~~"),
        ("about ~5", "about ~5"),
        ("run `ls -", "run `ls -`"),
        ("run `a*b*", "run `a*b*`"),
        ("run `", "run "),
        (r"\*no", r"\*no"),
        ("see [the page](htt", "see the page"),
        ("see [the page](x)", "see [the page](x)"),
        ("A line\n-", "A line"),
        ("A line\n==", "A line"),
        ("- one\n- **tw", "- one\n- **tw**"),
        ("- **one**\n- tw", "- **one**\n- tw"),
        ("1. one\n2", "1. one"),
        ("text\n\n#", "text\n"),
        ("text\n``", "text"),
        ("**open\n\nnext", "**open\n\nnext"),
        ("```python\na = '**x", "```python\na = '**x"),
        ("* item *em", "* item *em*"),
        ("", ""),
    ],
)
def test_what_is_open_is_closed(half: str, whole: str) -> None:
    assert mended(half) == whole


def test_a_growing_answer_shows_bold_before_its_end_has_come() -> None:
    growing = GrowingMarkdown()
    assert growing.update("It is **bo") == [Text("<p>It is <strong>bo</strong></p>\n")]
    assert growing.update("It is **bold** no") == [Text("<p>It is <strong>bold</strong> no</p>\n")]


def test_a_list_below_a_line_is_never_a_heading() -> None:
    growing = GrowingMarkdown()
    text = "Things:\n- one\n- two\n\n```py\nx = 1\n"
    shown = [growing.update(text[:n]) for n in range(len(text) + 1)]
    assert not any(isinstance(b, Text) and "<h" in b.html for blocks in shown for b in blocks)
    assert isinstance(shown[-1][-1], Code)
