"""Source code to coloured HTML in the theme's own colours."""

from __future__ import annotations

import html
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    String,
    _TokenType,
)
from pygments.util import ClassNotFound

from app.theme import Tokens

LONGEST = 30_000  # characters; longer code is shown plain, colouring it would take too long

# Token type -> (role of the theme's token, further CSS). The nearest ancestor counts.
_STYLES: dict[_TokenType, tuple[str, str]] = {
    Comment: ("dim", "font-style:italic;"),
    Keyword: ("accent", "font-weight:600;"),
    Keyword.Constant: ("warning", ""),
    Operator.Word: ("accent", "font-weight:600;"),
    Name.Builtin: ("accent", ""),
    Name.Function: ("text", "font-weight:600;"),
    Name.Class: ("text", "font-weight:600;"),
    Name.Tag: ("accent", ""),
    Name.Decorator: ("accent", ""),
    Number: ("warning", ""),
    String: ("warning", ""),
    Generic.Deleted: ("bad", ""),
    Generic.Inserted: ("accent", ""),
    Generic.Heading: ("text", "font-weight:600;"),
}


def highlighted(code: str, language: str, tokens: Tokens) -> str:
    """The code as the inside of a <pre>; plain when the language is unknown or it is too long."""
    lexer = _lexer(language.lower()) if language and len(code) <= LONGEST else None
    if lexer is None:
        return html.escape(code, quote=False)
    parts = [_span(kind, text, tokens) for kind, text in lexer.get_tokens(code)]
    return "".join(parts).rstrip("\n")


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _span(kind: _TokenType, text: str, tokens: Tokens) -> str:
    words = html.escape(text, quote=False)
    step: _TokenType | None = kind
    while step is not None:
        if step in _STYLES:
            role, more = _STYLES[step]
            return f'<span style="color:{getattr(tokens, role)};{more}">{words}</span>'
        step = step.parent
    return words
