"""Finding whole tokens (control and user-defined ones) inside a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping


class TokenSplitter:
    """Cuts a text at the tokens of a table; the leftmost match wins, then the longest.

    A table may hold thousands of tokens, so candidates are found by their first character and then
    by the few lengths that tokens with that first character have.
    """

    def __init__(self, table: Mapping[str, int]) -> None:
        self._table = dict(table)
        lengths: dict[str, set[int]] = {}
        for word in self._table:
            lengths.setdefault(word[0], set()).add(len(word))
        self._lengths = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}
        firsts = "".join(map(re.escape, self._lengths))
        self._first = re.compile(f"[{firsts}]") if firsts else None

    def split(self, text: str) -> Iterator[str | int]:
        """Pieces of ``text`` in order: a token's id, or the (non-empty) text between tokens."""
        start = position = 0
        while self._first is not None and (found := self._first.search(text, position)):
            position = found.start()
            word = self._match(text, position)
            if word is None:
                position += 1
                continue
            if position > start:
                yield text[start:position]
            yield self._table[word]
            start = position = position + len(word)
        if start < len(text):
            yield text[start:]

    @property
    def first_characters(self) -> Iterable[str]:
        """Every character with which a token of the table begins."""
        return self._lengths

    def places(self, text: str) -> Iterator[int]:
        """Where a token of the table begins in ``text``, overlapping ones included, and where one
        is cut off by the end of the text."""
        for found in self._first.finditer(text) if self._first else ():
            position = found.start()
            if self._match(text, position) or self._may_go_on(text, position):
                yield position

    def _may_go_on(self, text: str, position: int) -> bool:
        if len(text) - position >= self._lengths[text[position]][0]:
            return False
        ending = text[position:]
        return any(word.startswith(ending) for word in self._table)

    def _match(self, text: str, position: int) -> str | None:
        for length in self._lengths[text[position]]:
            word = text[position : position + length]
            if word in self._table:
                return word
        return None
