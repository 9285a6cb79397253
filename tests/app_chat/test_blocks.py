"""Markdown to blocks: whole, growing, and never a way to load something."""

from __future__ import annotations

import time

import pytest

from app.chat.blocks import (
    Code,
    GrowingMarkdown,
    Text,
    Thought,
    parse,
    split_thought,
    without_thought,
)

SAMPLE = """# Title

Some *text* with `code`, a [link](https://example.org) and **bold**.

1. one
   - nested
2. two

```python
print("hi")

print("there")
```

| a | b |
|---|---|
| 1 | 2 |

> quote
continued

    indented code

Setext
======

- list after

```
open fence
"""


def kinds(text: str) -> list[str]:
    """The kinds of blocks of a text."""
    return [type(block).__name__ for block in parse(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("word", ["Text"]),
        ("one\n\ntwo", ["Text"]),
        ("a\n\n```\nb\n```\n\nc", ["Text", "Code", "Text"]),
        ("```py\nx", ["Code"]),
        ("    indented", ["Code"]),
        ("- item\n\n  ```\n  inside a list\n  ```", ["Text"]),
    ],
)
def test_kinds(text: str, wanted: list[str]) -> None:
    assert kinds(text) == wanted


def test_code_keeps_language_and_lines() -> None:
    assert parse("```Python title=x\na\n\n  b\n```")[0] == Code("Python", "a\n\n  b")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**b**", "<strong>b</strong>"),
        ("~~s~~", "<s>s</s>"),
        ("a < b & c", "a &lt; b &amp; c"),
        ("<script>alert(1)</script>", "&lt;script&gt;"),
        ("<img src='file:///etc/passwd'>", "&lt;img"),
        ("![a cat](http://tracker.example/x.png)", "[picture: a cat]"),
        ("| a |\n|---|\n| 1 |", "<table>"),
    ],
)
def test_html(text: str, html: str) -> None:
    (block,) = parse(text)
    assert isinstance(block, Text)
    assert html in block.html
    assert "<img" not in block.html


@pytest.mark.parametrize("scheme", ["javascript:alert(1)", "vbscript:x", "data:text/html,x"])
def test_dangerous_links_stay_text(scheme: str) -> None:
    (block,) = parse(f"[x]({scheme})")
    assert isinstance(block, Text)
    assert "href" not in block.html


@pytest.mark.parametrize("step", [1, 3, 17])
def test_growing_gives_what_the_whole_gives(step: int) -> None:
    growing = GrowingMarkdown()
    for end in range(0, len(SAMPLE), step):
        growing.update(SAMPLE[:end])
    assert growing.update(SAMPLE) == parse(SAMPLE)


def test_growing_starts_anew_for_another_text() -> None:
    growing = GrowingMarkdown()
    growing.update("one\n\ntwo\n\nthree")
    assert growing.update("other") == parse("other")


def test_long_texts_are_cut_into_pieces() -> None:
    blocks = parse("\n\n".join(["A paragraph of some words. " * 10] * 200))
    assert 3 < len(blocks) < 30


def test_a_long_answer_stays_quick_to_update() -> None:
    growing = GrowingMarkdown()
    text = SAMPLE.rpartition("```")[0] * 200  # about 60 kB
    growing.update(text)
    began = time.perf_counter()
    for number in range(20):
        growing.update(text + "word " * number)
    assert (time.perf_counter() - began) / 20 < 0.02


@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        ("plain", None, "plain"),
        ("<think>\na\n</think>\n\nb", Thought("a", True), "b"),
        ("<think>still", Thought("still", False), ""),
        ("  <think>a</think>b", Thought("a", True), "b"),
        ("opened by the template\n</think>\nb", Thought("opened by the template", True), "b"),
        ("text ```\n</think>\n``` more", None, "text ```\n</think>\n``` more"),
        ("say <think> in the middle", None, "say <think> in the middle"),
        ("<think></think>b", Thought("", True), "b"),
    ],
)
def test_thoughts(text: str, thought: Thought | None, rest: str) -> None:
    assert split_thought(text) == (thought, rest)
    assert without_thought(text) == rest
