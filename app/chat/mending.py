"""A text that is still being written, closed so that its Markdown does not flicker. No Qt.

``**bo`` is shown as bold although its end has not come yet, a lone ``-`` below a line is not taken
for a heading's underline, and half a link is shown as its words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_BEGINNING = re.compile(r"\s*(?:[-=*+_#>|]+|\d{1,9}[.)]?|`{1,2}|~{1,2})\s*")
_HALF_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*$")
_BLOCK_START = re.compile(r"\n(?=[ \t]*(?:\n|[-*+] |\d{1,9}[.)] |#{1,6} |>))")
_MARKS = "*_~`"


@dataclass
class _Open:
    """A run of marks that has begun and not ended."""

    mark: str
    count: int
    at: int


def mended(text: str) -> str:
    """The text with its last, unfinished part closed."""
    if _in_fence(text):
        return text
    start = max((found.end() for found in _BLOCK_START.finditer(text)), default=0)
    head, tail = text[:start], text[start:]
    tail = _HALF_LINK.sub(r"\1", _without_beginning(tail))
    return head + _closed(tail)


def _in_fence(text: str) -> bool:
    """Whether the text ends within a block of code."""
    fence = ""
    for found in _FENCE.finditer(text):
        mark = found.group(1)
        if not fence:
            fence = mark
        elif mark[0] == fence[0] and len(mark) >= len(fence):
            fence = ""
    return bool(fence)


def _without_beginning(tail: str) -> str:
    """Leave out a last line that may become a list, a heading, a rule or a fence."""
    before, _, last = tail.rpartition("\n")
    return before if last and _BEGINNING.fullmatch(last) else tail


def _closed(text: str) -> str:
    """End what has begun; a mark at the very end that opens nothing yet is left out."""
    stack: list[_Open] = []
    at = 0
    while at < len(text):
        mark = text[at]
        if mark == "\\":
            at += 2
            continue
        if mark not in _MARKS:
            at += 1
            continue
        count = len(text) - at - len(text[at:].lstrip(mark))
        code = next((one for one in stack if one.mark == "`"), None)
        if mark == "`":
            _take_code(stack, code, count, at)
        elif code is None:
            _take_emphasis(stack, text, mark, count, at)
        at += count
    for one in reversed(stack):
        is_empty = one.at + one.count >= len(text)
        text = text[: one.at] if is_empty else text + one.mark * one.count
    return text


def _take_code(stack: list[_Open], code: _Open | None, count: int, at: int) -> None:
    if code is None:
        stack.append(_Open("`", count, at))
    elif code.count == count:
        stack.remove(code)


def _take_emphasis(stack: list[_Open], text: str, mark: str, count: int, at: int) -> None:
    before, after = text[at - 1 : at], text[at + count : at + count + 1]
    if stack and stack[-1].mark == mark and before.strip():
        closes = min(count, stack[-1].count)
        stack[-1].count -= closes
        if stack[-1].count == 0:
            stack.pop()
        return
    in_word = mark == "_" and before.isalnum()
    opens = not after or (bool(after.strip()) and not in_word)
    if opens and not (not after and before.isalnum()) and (mark != "~" or count == 2):
        stack.append(_Open(mark, count, at))
