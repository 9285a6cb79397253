"""Old turns make room; the system prompt and the last question never do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine.text.context import ContextError, Fitted, fit_messages

LETTERS = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


def fit(roles: str, context: int, reserve: int = 0, sizes: list[int] | None = None) -> Fitted:
    """Fit a conversation given by letters; every message has 10 tokens unless ``sizes`` says."""
    tokens = sizes or [10] * len(roles)
    messages = [
        {"role": LETTERS[role], "content": "", "tokens": size}
        for role, size in zip(roles, tokens, strict=True)
    ]
    return fit_messages(messages, count_tokens, context=context, reserve=reserve)


def count_tokens(messages: Sequence[Any]) -> int:
    return sum(message["tokens"] for message in messages)


@pytest.mark.parametrize(
    ("roles", "context", "dropped"),
    [
        ("u", 10, ()),
        ("suaua", 50, ()),
        ("suaua", 49, (1, 2)),
        ("suauau", 59, (1, 2)),
        ("suauau", 39, (1, 2, 3, 4)),
        ("suauau", 20, (1, 2, 3, 4)),
        ("uatau", 40, (0, 1, 2, 3)),  # whatever follows a question goes with it
        ("suasau", 59, (1, 2, 4)),  # a later system message stays too
        ("sauau", 49, (1,)),  # a greeting is a turn of its own
        ("sauau", 39, (1, 2, 3)),
        ("uaua", 39, (0, 1)),  # the answer that is being continued stays
    ],
)
def test_as_few_of_the_oldest_turns_as_needed(
    roles: str, context: int, dropped: tuple[int, ...]
) -> None:
    fitted = fit(roles, context)
    assert fitted.dropped == dropped
    assert fitted.tokens == 10 * len(fitted.messages) <= context
    assert len(fitted.messages) + len(dropped) == len(roles)


def test_room_for_the_answer_is_kept() -> None:
    assert fit("uau", 40, reserve=10).dropped == ()
    assert fit("uau", 39, reserve=10).dropped == (0, 1)


def test_a_long_turn_is_dropped_alone() -> None:
    assert fit("uauau", 60, sizes=[90, 10, 10, 10, 10]).dropped == (0, 1)


@pytest.mark.parametrize("roles", ["suau", "su", "s", "sa"])
def test_what_cannot_fit_is_told_in_numbers(roles: str) -> None:
    with pytest.raises(ContextError) as error:
        fit(roles, 9, reserve=1)
    needed = 10 * len(roles.replace("ua", "", 1)) + 1
    assert (error.value.needed, error.value.available) == (needed, 9)
    assert f"{needed} tokens" in str(error.value)


def test_what_was_dropped_is_told() -> None:
    assert fit("u", 10).dropped_text is None
    assert fit("au", 10).dropped_text == (
        "The oldest message was left out, because the context is full."
    )
    assert fit("uau", 10).dropped_text == (
        "The oldest 2 messages were left out, because the context is full."
    )


def test_counting_is_rare() -> None:
    calls: list[int] = []

    def count(messages: Sequence[Any]) -> int:
        calls.append(len(messages))
        return 10 * len(messages)

    messages = [{"role": role} for _ in range(500) for role in ("user", "assistant")]
    fitted = fit_messages(messages[:-1], count, context=4000)
    assert (len(fitted.messages), len(fitted.dropped)) == (399, 600)
    assert len(calls) <= 11


def test_no_message_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        fit_messages([], count_tokens, context=9)
