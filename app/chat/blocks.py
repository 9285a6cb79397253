"""Markdown to blocks: rich text, code and thoughts, fast enough to run 30 times a second.

An answer grows only at its end, so everything before its last top-level block is parsed once.
Pure functions and values; the widgets are in answer_body.py.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from app.chat.mending import mended

OPEN, CLOSE = "<think>", "</think>"
PIECE = 8_000  # characters of HTML after which a new text view is begun: bounds re-rendering


@dataclass(frozen=True)
class Text:
    """Rich text in the HTML that Qt understands."""

    html: str


@dataclass(frozen=True)
class Code:
    """A fenced or indented block."""

    language: str
    code: str


@dataclass(frozen=True)
class Thought:
    """What a model wrote to itself before its answer."""

    text: str
    is_complete: bool


Block = Text | Code | Thought


class _Renderer(RendererHTML):
    """Standard HTML, but pictures are words: an answer must never load anything."""

    def image(
        self,
        tokens: Sequence[Token],
        idx: int,
        options: OptionsDict,
        env: MutableMapping[str, Any],
    ) -> str:
        """The alternative text in brackets."""
        words = self.renderInlineAsText(tokens[idx].children or [], options, env)
        return f"[picture: {words}]" if words else "[picture]"


def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    return made.enable(["table", "strikethrough"])


_MARKDOWN = _parser()


def split_thought(text: str) -> tuple[Thought | None, str]:
    """The thinking block at the start of an answer, if any, and the rest.

    Some models' templates open the block themselves, so a lone closing mark counts too.
    """
    stripped = text.lstrip()
    opened = stripped.startswith(OPEN)
    body = stripped[len(OPEN) :] if opened else text
    inner, mark, rest = body.partition(CLOSE)
    if mark and "```" not in inner[: 0 if opened else None]:
        return Thought(inner.strip(), True), rest.lstrip("\n")
    if opened:
        return Thought(body.strip(), False), ""
    return None, text


def without_thought(text: str) -> str:
    """The answer alone, as later prompts repeat it."""
    return split_thought(text)[1]


def parse(text: str) -> list[Block]:
    """A whole text to blocks, without looking for thoughts."""
    return _merged(block for _line, block in _groups(text))


@dataclass
class GrowingMarkdown:
    """Blocks of a text that grows; only what can still change is parsed again."""

    _settled: list[Block] = field(default_factory=list)
    _source: str = ""  # what the settled blocks were made of

    def update(self, text: str) -> list[Block]:
        """The blocks of the whole text so far."""
        if not text.startswith(self._source):
            self._settled, self._source = [], ""
        tail = text[len(self._source) :]
        groups = _groups(tail)
        if len(groups) > 1:
            lines = tail.split("\n")
            last_line = groups[-1][0]
            self._source += "\n".join(lines[:last_line]) + "\n"
            self._settled += [block for _line, block in groups[:-1]]
            groups = groups[-1:]
        rest = text[len(self._source) :]
        if (closed := mended(rest)) != rest:
            groups = _groups(closed)
        return _merged([*self._settled, *(block for _line, block in groups)])


def _groups(text: str) -> list[tuple[int, Block]]:
    """Every top-level block with the line it begins at."""
    groups: list[tuple[int, Block]] = []
    pending: list[Token] = []
    env: dict[str, Any] = {}
    for token in _MARKDOWN.parse(text, env):
        pending.append(token)
        if token.level != 0 or token.nesting == 1:
            continue
        line = pending[0].map[0] if pending[0].map else 0
        if token.type in ("fence", "code_block"):
            language = token.info.split()[0] if token.info.split() else ""
            groups.append((line, Code(language, token.content.rstrip("\n"))))
        else:
            html = _MARKDOWN.renderer.render(pending, _MARKDOWN.options, env)
            groups.append((line, Text(html)))
        pending = []
    return groups


def _merged(blocks: Iterable[Block]) -> list[Block]:
    """Neighbouring texts as one, up to PIECE characters, so that a selection can span them."""
    merged: list[Block] = []
    for block in blocks:
        last = merged[-1] if merged else None
        if isinstance(block, Text) and isinstance(last, Text) and len(last.html) < PIECE:
            merged[-1] = Text(last.html + block.html)
        else:
            merged.append(block)
    return merged
