"""Making a conversation fit: the oldest turns go first, the system prompt and the question stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.text.errors import ContextFullError

ContextError = ContextFullError
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Fitted:
    """A conversation that fits.

    Attributes:
        messages: what is left, in order.
        dropped: indexes of the messages that were left out, ascending.
        tokens: tokens of ``messages`` as a prompt.
    """

    messages: tuple[Message, ...]
    dropped: tuple[int, ...]
    tokens: int

    @property
    def dropped_text(self) -> str | None:
        """One sentence about what was left out, or None."""
        if not self.dropped:
            return None
        if len(self.dropped) == 1:
            return "The oldest message was left out, because the context is full."
        return (
            f"The oldest {len(self.dropped)} messages were left out, because the context is full."
        )


def fit_messages(
    messages: Sequence[Message],
    count: Callable[[Sequence[Message]], int],
    *,
    context: int,
    reserve: int = 0,
) -> Fitted:
    """Drop as few of the oldest turns as it takes to fit ``context`` less ``reserve`` tokens.

    A turn is a user message and the answers behind it. System messages and the last turn always
    stay; :class:`ContextError` has the numbers when even those do not fit. ``count`` renders and
    tokenises, so it is called once for a conversation that fits, else log2(turns) + 2 times.
    """
    if not messages:
        raise ValueError("a conversation needs at least one message")
    limit = context - reserve
    turns = _turns(messages)
    needed = count(messages)
    if needed <= limit:
        return Fitted(tuple(messages), (), needed)
    low, high = 1, len(turns) - 1  # how many turns to drop; what lies above `high` is known to fit
    best: Fitted | None = None
    smallest = needed
    while low <= high:
        # All droppable turns first: most often the history is long and this settles the error.
        drop = high if best is None else (low + high) // 2
        tried = _without(messages, turns[:drop], count)
        if tried.tokens <= limit:
            best, high = tried, drop - 1
        elif best is None:
            smallest = tried.tokens
            break
        else:
            low = drop + 1
    if best is None:
        raise ContextError(smallest + reserve, context)
    return best


def _turns(messages: Sequence[Message]) -> list[list[int]]:
    """Indexes of the messages of each turn, oldest first, without system messages.

    An answer in front of the first question (a greeting) is a turn of its own. The last turn is the
    last user message and whatever follows it.
    """
    turns: list[list[int]] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "system":
            continue
        if role == "user" or not turns:
            turns.append([])
        turns[-1].append(index)
    return turns


def _without(
    messages: Sequence[Message],
    turns: Sequence[Sequence[int]],
    count: Callable[[Sequence[Message]], int],
) -> Fitted:
    gone = sorted(index for turn in turns for index in turn)
    left_out = frozenset(gone)
    kept = tuple(message for index, message in enumerate(messages) if index not in left_out)
    return Fitted(kept, tuple(gone), count(kept))
