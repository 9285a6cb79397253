"""Chats and messages as plain values, and the questions one can ask about a tree of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """How a message stands."""

    DONE = "done"
    STREAMING = "streaming"
    STOPPED = "stopped"  # by the person, or by a crash of the program
    LENGTH = "length"  # the longest allowed answer
    FAILED = "failed"


@dataclass(frozen=True)
class Attachment:
    """A text file that goes with a prompt."""

    name: str
    text: str


@dataclass(frozen=True)
class Message:
    """One message. `parent` is the message it answers, None for the first of a chat.

    stats: figures of the answer as the worker's `done` tells them. note: a sentence about what
    happened (an error, a warning). dropped: ids of messages that did not fit the context.
    """

    id: int
    chat: int
    parent: int | None
    role: str
    text: str
    state: State = State.DONE
    created: float = 0.0
    model: str = ""
    note: str = ""
    details: str = ""
    attachments: tuple[Attachment, ...] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)
    dropped: tuple[int, ...] = ()

    @property
    def prompt(self) -> str:
        """What the model reads: the attached files, then the text."""
        parts = [f"File {one.name}:\n```\n{one.text}\n```" for one in self.attachments]
        return "\n\n".join([*parts, self.text] if self.text or not parts else parts)


@dataclass(frozen=True)
class ChatSettings:
    """What a chat keeps of the side panel; None: as in the settings or the model's own."""

    system: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    context: int | None = None


@dataclass(frozen=True)
class Chat:
    """One line of the list of chats."""

    id: int
    title: str
    created: float
    updated: float
    pinned: bool
    settings: ChatSettings = field(default_factory=ChatSettings)
    leaf: int | None = None


def path_to(messages: Mapping[int, Message], leaf: int | None) -> list[Message]:
    """The messages from the first one to `leaf`."""
    path: list[Message] = []
    seen: set[int] = set()
    while leaf is not None and leaf in messages and leaf not in seen:
        seen.add(leaf)
        path.append(messages[leaf])
        leaf = messages[leaf].parent
    return path[::-1]


def versions_of(messages: Mapping[int, Message], number: int) -> list[int]:
    """The ids of a message and its other versions, oldest first."""
    one = messages[number]
    same = (m for m in messages.values() if m.parent == one.parent and m.role == one.role)
    return sorted(m.id for m in same)


def all_versions(messages: Mapping[int, Message]) -> dict[tuple[int | None, str], list[int]]:
    """For every parent and role the ids of the versions, oldest first."""
    groups: dict[tuple[int | None, str], list[int]] = {}
    for number in sorted(messages):
        one = messages[number]
        groups.setdefault((one.parent, one.role), []).append(number)
    return groups


def newest_leaf(messages: Mapping[int, Message], number: int) -> int:
    """From a message down the newest children to the end of the branch."""
    children: dict[int | None, int] = {}
    for one in messages.values():
        children[one.parent] = max(one.id, children.get(one.parent, 0))
    while number in children:
        number = children[number]
    return number
