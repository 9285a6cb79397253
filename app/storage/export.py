"""A chat as Markdown for reading, or as JSON with every version for keeping."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict

from app.storage.records import Chat, Message, path_to

FORMAT = "driftwood-chat-1"


def to_markdown(chat: Chat, messages: Mapping[int, Message]) -> str:
    """The branch on show: a title, then each message below a heading with who wrote it."""
    parts = [f"# {chat.title}"]
    if chat.settings.system:
        parts += ["## System", chat.settings.system]
    for one in path_to(messages, chat.leaf):
        who = "You" if one.role == "user" else one.model or "Answer"
        parts += [f"## {who}", one.prompt]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def to_json(chat: Chat, messages: Mapping[int, Message]) -> str:
    """The chat with all versions of all messages."""
    body = {
        "format": FORMAT,
        "chat": asdict(chat),
        "messages": [asdict(m) for m in messages.values()],
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def file_name(chat: Chat, suffix: str) -> str:
    """A file name that every system accepts, such as "Why is the sea salty 2026-12-01.md"."""
    words = re.sub(r'[\x00-\x1f<>:"/\\|?*.]+', " ", chat.title)
    words = " ".join(words.split())[:60].strip() or "Chat"
    return f"{words} {time.strftime('%Y-%m-%d', time.localtime(chat.updated))}.{suffix}"
