"""How the chat page tells what went wrong: an engine that ended, a file that cannot be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from app.shell.page import AppContext
from app.storage.files import StorageError
from app.storage.records import Message, State
from app.widgets import Action

GIVEN_UP = 3  # early deaths after which the person is told that the engine cannot start


def tell_death(
    context: AppContext, reason: str, path: Sequence[Message], retry: Callable[[int], None]
) -> None:
    """The engine ended by itself; ``retry`` is given the id of the answer it was writing."""
    deaths = context.engine.early_deaths
    if deaths == GIVEN_UP:
        again = Action("Try again", context.engine.restart)
        text = f"{reason} It could not be started {deaths} times in a row. See Help for more."
        context.messages.error(text, context.engine.stderr_tail(), again)
    if deaths > 1:  # said once; it is tried again less and less often
        return
    last = path[-1] if path else None
    if last is None or last.state is not State.FAILED:
        context.messages.toast("The engine stopped and is started again.", kind="warning")
        return
    failed = last.id
    text = "The engine stopped while it wrote. Your chat is safe and the engine is back."
    action = Action("Retry", lambda: retry(failed))
    context.messages.toast(text, action, kind="warning", seconds=12)


@contextmanager
def telling(context: AppContext, otherwise: Callable[[], None] | None = None) -> Iterator[None]:
    """Tell when the store cannot keep something, then do ``otherwise``."""
    try:
        yield
    except StorageError as error:
        context.messages.error(str(error))
        if otherwise is not None:
            otherwise()
