"""Counting a conversation's tokens without the GPU, for the context meter."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.formats.gguf import open_gguf
from engine.worker.protocol import Message

if TYPE_CHECKING:
    from engine.text.chat_template import ChatTemplate
    from engine.text.tokenizer import Tokenizer


class TokenCounter:
    """Keeps the tokenizer of the last model asked for. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._tools: tuple[Tokenizer, ChatTemplate] | None = None

    def count(self, path: Path, messages: Sequence[Message]) -> int:
        """Tokens of the conversation with the template's own. Raises the text room's errors."""
        with self._lock:
            if self._tools is None or self._path != path:
                self._tools = _tools(path)
                self._path = path
            tokenizer, template = self._tools
            plain = [{"role": one["role"], "content": one["content"]} for one in messages]
            return len(template.encode(plain, tokenizer)) if plain else 0


def _tools(path: Path) -> tuple[Tokenizer, ChatTemplate]:
    from engine.text.chat_template import ChatTemplate
    from engine.text.tokenizer import load_tokenizer

    with open_gguf(path) as file:
        tokenizer = load_tokenizer(file.metadata)
        return tokenizer, ChatTemplate.from_metadata(file.metadata, tokenizer)
