"""A picture that has no room beside the chat model is drawn once that is unloaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from engine.gpu.errors import OutOfMemoryError
from engine.image.pipeline_memory import TooLargeError
from engine.worker.image_room import ImageRoom


@dataclass
class Order:
    """An order that does not fit at first."""

    problem: Exception
    written: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    runs: int = 0

    def run(self) -> None:
        self.runs += 1
        if self.runs == 1:
            raise self.problem


class Engine:
    """An engine with a chat model on it, or none."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def unload_text(self) -> str | None:
        name, self.name = self.name, None
        return name


def run(order: Order, name: str | None) -> None:
    room = ImageRoom(cast("Any", None), cast("Any", Engine(name)), cast("Any", None))
    room._run(cast("Any", order))


@pytest.mark.parametrize(
    "problem", [TooLargeError("no room", None), OutOfMemoryError("no room", 2, 1)]
)
def test_the_chat_model_makes_room(problem: Exception) -> None:
    order = Order(problem)
    run(order, "chatty")
    assert order.runs == 2
    assert order.warnings == ["chatty was unloaded: the picture does not fit beside it."]


def test_without_a_chat_model_it_is_refused() -> None:
    with pytest.raises(TooLargeError):
        run(Order(TooLargeError("no room", None)), None)


def test_pictures_that_are_finished_are_not_made_twice() -> None:
    with pytest.raises(TooLargeError):
        run(Order(TooLargeError("no room", None), [Path("a.png")]), "chatty")
