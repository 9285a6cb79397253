"""From the branch on show to the messages of a request. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.chat.blocks import without_thought
from app.storage.records import Message


@dataclass(frozen=True)
class Prompt:
    """What is sent, and which of our messages each part came from (none for the system prompt)."""

    messages: tuple[dict[str, str], ...]
    sources: tuple[tuple[int, ...], ...]

    def dropped_ids(self, indexes: Iterable[int]) -> tuple[int, ...]:
        """Our ids of the messages that the worker left out."""
        places = [i for i in indexes if 0 <= i < len(self.sources)]
        return tuple(number for place in places for number in self.sources[place])


def make_prompt(path: Sequence[Message], system: str, *, continuing: bool = False) -> Prompt:
    """The request's messages: roles alternate, empty answers and old thoughts are left out.

    A failed answer leaves two prompts in a row; many chat templates refuse that, so they become
    one. When `continuing`, the last answer is sent as it is.
    """
    parts: list[tuple[str, str, tuple[int, ...]]] = []
    for place, one in enumerate(path):
        text = one.prompt
        if one.role == "assistant" and not (continuing and place == len(path) - 1):
            text = without_thought(text)
        if not text.strip():
            continue
        if parts and parts[-1][0] == one.role:
            role, before, ids = parts.pop()
            parts.append((role, f"{before}\n\n{text}", (*ids, one.id)))
        else:
            parts.append((one.role, text, (one.id,)))
    if system.strip():
        parts.insert(0, ("system", system.strip(), ()))
    return Prompt(
        messages=tuple({"role": role, "content": text} for role, text, _ids in parts),
        sources=tuple(ids for _role, _text, ids in parts),
    )
