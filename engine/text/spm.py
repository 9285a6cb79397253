"""SentencePiece's byte-pair model: neighbours merge in the order of their token's score.

There is no list of merges: any two neighbours whose joined text is a token may merge, the best
score first and the leftmost of equals. Text that is no token at all becomes its UTF-8 bytes.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence

from engine.text.splitting import TokenSplitter
from engine.text.vocabulary import TokenizerError, TokenType, Vocabulary

SPACE = "▁"  # how the vocabulary writes a space
_CACHED_CHUNKS = 20_000
_CACHED_LENGTH = 32


class SpmModel:
    """Encodes plain text (never control tokens) with a SentencePiece vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens, types = vocabulary.tokens, vocabulary.types
        normal, user = int(TokenType.NORMAL), int(TokenType.USER_DEFINED)
        unused = int(TokenType.UNUSED)
        # Control, unknown and byte tokens are left out, so that no text can merge into one.
        self._ids = {
            word: index
            for index, (word, kind) in enumerate(zip(tokens, types, strict=True))
            if kind in (normal, user, unused)
        }
        self._unused = frozenset(vocabulary.ids_of(TokenType.UNUSED))
        self._scores = vocabulary.scores
        self._unknown = vocabulary.unk_id
        self._bytes = _byte_ids(vocabulary)
        self._prefix = SPACE if vocabulary.add_space_prefix else ""
        self._splitter = TokenSplitter(
            {
                tokens[index].replace(" ", SPACE): index
                for index in vocabulary.ids_of(TokenType.USER_DEFINED)
            }
        )
        self._boundary = _word_boundary(tokens)
        self._cache: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``, which begins where a text or a message begins."""
        if not text:
            return []
        output: list[int] = []
        for piece in self._splitter.split(self._prefix + text.replace(" ", SPACE)):
            if isinstance(piece, int):
                output.append(piece)
                continue
            for chunk in self._boundary.split(piece):
                if chunk:
                    self._append(output, self._encode_chunk(chunk))
        return output

    def _append(self, output: list[int], ids: Sequence[int]) -> None:
        """Add ``ids``; several unknown characters in a row are one unknown token."""
        if self._unknown is None or self._bytes:
            output.extend(ids)
            return
        for index in ids:
            if not (index == self._unknown and output and output[-1] == index):
                output.append(index)

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        known = self._cache.get(chunk)
        if known is not None:
            return known
        ids = tuple(self._merge(chunk))
        if len(chunk) <= _CACHED_LENGTH:
            if len(self._cache) >= _CACHED_CHUNKS:
                self._cache.clear()
            self._cache[chunk] = ids
        return ids

    def _merge(self, chunk: str) -> list[int]:
        """Merge the characters of ``chunk`` as far as the vocabulary goes."""
        ids, scores = self._ids, self._scores
        size = len(chunk)
        ends = list(range(1, size + 1))  # a symbol that begins at i ends before ends[i]
        before = list(range(-1, size - 1))  # where the symbol in front of it begins
        parts: dict[str, int] = {}  # unused token -> length of the left of its two parts
        queue: list[tuple[float, int, int, int]] = []  # (-score, begin, middle, end)

        def offer(begin: int, middle: int, end: int) -> None:
            word = chunk[begin:end]
            index = ids.get(word)
            if index is not None:
                heapq.heappush(queue, (-scores[index], begin, middle, end))
                if index in self._unused:
                    parts[word] = middle - begin

        for begin in range(size - 1):
            offer(begin, begin + 1, begin + 2)
        while queue:
            _, begin, middle, end = heapq.heappop(queue)
            # Stale when a side has merged with something else since (a gone symbol ends at 0).
            if ends[begin] != middle or ends[middle] != end:
                continue
            ends[begin], ends[middle] = end, 0
            if end < size:
                before[end] = begin
                offer(begin, end, ends[end])
            if begin > 0:
                offer(before[begin], begin, end)
        output: list[int] = []
        begin = 0
        while begin < size:
            self._emit(chunk[begin : ends[begin]], parts, output)
            begin = ends[begin]
        return output

    def _emit(self, word: str, parts: dict[str, int], output: list[int]) -> None:
        """Append the ids of one merged symbol; unused tokens fall apart again."""
        pending = [word]
        while pending:
            word = pending.pop()
            index = self._ids.get(word)
            if index is None:
                output.extend(self._fallback(word))
            elif index in self._unused and word in parts:
                pending += [word[parts[word] :], word[: parts[word]]]
            else:
                output.append(index)

    def _fallback(self, word: str) -> list[int]:
        """Ids of a character that is no token: its bytes, or else the unknown token."""
        if self._bytes:
            return [self._bytes[value] for value in word.encode()]
        return [] if self._unknown is None else [self._unknown]


def _byte_ids(vocabulary: Vocabulary) -> list[int]:
    """Ids of ``<0x00>`` to ``<0xFF>``; empty when the vocabulary has no byte tokens."""
    found = {vocabulary.tokens[index]: index for index in vocabulary.ids_of(TokenType.BYTE)}
    if not found:
        return []
    names = [f"<0x{value:02X}>" for value in range(256)]
    missing = [name for name in names if name not in found]
    if missing:
        raise TokenizerError(
            f"The vocabulary has byte tokens, but {len(missing)} of the 256 are missing"
            f" ({missing[0]} is the first); the file is damaged. Download it again."
        )
    return [found[name] for name in names]


def _word_boundary(tokens: Sequence[str]) -> re.Pattern[str]:
    """Where a text may be cut without changing its tokens: in front of a space mark, unless some
    token holds the mark behind the very character that stands there."""
    inside = re.compile(f"([^{SPACE}]){SPACE}")
    bridged = {found for word in tokens if SPACE in word[1:] for found in inside.findall(word)}
    barred = "".join(map(re.escape, sorted(bridged)))
    return re.compile(f"(?<=[^{SPACE}{barred}])(?={SPACE})")
