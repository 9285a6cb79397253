"""Chat and picture models on one GPU, with both engines played: who makes room for whom."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker.bench import Bench, FakeEngine
from worker.conftest import MakeModel
from worker.tiny_pictures import make_pictures

from engine.gpu.errors import DeviceLostError, OutOfMemoryError
from engine.image.pipeline_memory import TooLargeError
from engine.image.settings import ImageSettings
from engine.image.weights_upload import LoadCancelledError
from engine.models.store import Store
from engine.worker.backend import NO_MEMORY
from engine.worker.protocol import Event

DEFAULTS = {"width": 64, "height": 64, "steps": 3, "guidance": 1.0, "sampler": "ddim"}


class Chatting(FakeEngine):
    """An engine that knows what both models hold of its memory."""

    total = 10**12
    text = pictures = 0

    def load(self, path: Path, context: int, *rest: Any) -> Mapping[str, Any]:
        self.text = self.size
        return super().load(path, context, *rest)

    size = 0

    def memory(self) -> Mapping[str, Any]:
        used = self.text + self.pictures
        return {**NO_MEMORY, "device_total": self.total, "device_used": used}

    def unload(self) -> None:
        self.text = 0
        super().unload()


class Drawing:
    """A picture engine that draws black pictures, four at once.

    ``failure`` is raised by the next drawing; ``gate`` holds loading back while it is cleared.
    """

    size = 0

    def __init__(self, engine: Any) -> None:
        self.engine: Chatting = engine
        self.calls: list[str] = []
        self.failure: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def load(
        self,
        path: Path,
        *,
        vae: Path | None = None,
        progress: Callable[..., None],
        cancelled: Callable[[], bool],
    ) -> Mapping[str, Any]:
        self.calls.append(f"load {path.name}")
        progress("uploading", 0, 1)
        while not self.gate.wait(0.01):
            if cancelled():
                raise LoadCancelledError
        self.engine.pictures = self.size
        return {"defaults": DEFAULTS, "notes": [], "device": "Fake", "backend": "Fake"}

    def generate(
        self,
        settings: ImageSettings,
        on_step: Callable[..., None],
        cancelled: Callable[[], bool],
        progress: Callable[..., None],
    ) -> tuple[list[np.ndarray], Mapping[str, Any]]:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        assert settings.steps is not None
        assert settings.seed is not None
        for first in range(0, settings.count, 4):
            batch = min(4, settings.count - first)
            for step in range(settings.steps):
                done = first * settings.steps + batch * (step + 1)
                on_step(done, settings.count * settings.steps, None, None)
        picture = np.zeros((64, 64, 3), np.uint8)
        told = {"seconds_per_step": 0.1, "peak_bytes": 1, "cancelled": False, "notes": []}
        seeds = [settings.seed + index for index in range(settings.count)]
        return [picture] * settings.count, {**told, "seeds": seeds}

    def count_tokens(self, prompt: str) -> Mapping[str, Any]:
        return {"tokens": 1, "limit": 75, "chunks": 1, "cut": "", "note": None}

    def unload(self) -> None:
        self.calls.append("unload")
        self.engine.pictures = 0

    def close(self) -> None:
        self.engine.pictures = 0


class Both(Bench):
    """A server with both engines, and a picture model beside the chat model."""

    def __init__(self, home: Path) -> None:
        self.drawings: list[Drawing] = []
        super().__init__(home / "models", Chatting, self._open_pictures)
        self.folder = home
        self.model = make_pictures(home / "models" / "tiny.pictures")
        self.text_need = Store(home / "models").find("tiny").need(512).total
        self.need = Store(home / "models").find(str(self.model)).need(0).total

    def _open_pictures(self, engine: Any) -> Any:
        self.drawings.append(Drawing(engine))
        return self.drawings[-1]

    @property
    def played(self) -> Chatting:
        """The text engine."""
        assert isinstance(self.engine, Chatting)
        return self.engine

    def start(self, total: int) -> None:
        """Open both engines on a GPU of ``total`` bytes."""
        self.ask("memory", open=True)
        self.played.total, self.played.size = total, self.text_need
        Drawing.size = self.need

    def draw(self, **settings: Any) -> list[Event]:
        """Draw into a folder; all events."""
        wanted = {"prompt": "abc", "seed": 5, **settings}
        folder = str(self.folder / "out")
        request = self.send("image", model=str(self.model), settings=wanted, folder=folder)
        events = [self.next(request)]
        while not events[-1].final:
            events.append(self.next(request))
        return events


@pytest.fixture
def both(home: Path, make_model: MakeModel) -> Iterator[Both]:
    make_model("tiny")
    made = Both(home)
    yield made
    for drawing in made.drawings:
        drawing.gate.set()
    made.close()


def said(events: list[Event], name: str) -> Event:
    """The one event of a name."""
    [one] = [event for event in events if event.event == name]
    return one


def test_both_stay_where_both_fit(both: Both) -> None:
    both.start(10**9)
    both.end(both.chat("hello"))
    events = both.draw()
    assert events[-1]["warnings"] == []
    assert (both.played.text, both.played.pictures) == (both.text_need, both.need)


def test_the_chat_model_is_unloaded_for_pictures_where_both_do_not_fit(both: Both) -> None:
    both.start(both.need + both.text_need - 1)
    both.end(both.chat("hello"))
    events = both.draw()
    words = "tiny was unloaded: it and tiny.pictures do not fit in the GPU's memory together."
    assert said(events, "started")["warnings"] == [words]
    assert events[-1]["warnings"] == [words]
    assert (both.played.text, both.played.pictures) == (0, both.need)


def test_the_picture_model_is_unloaded_for_chat_where_both_do_not_fit(both: Both) -> None:
    both.start(both.need + both.text_need - 1)
    assert both.draw()[-1].event == "done"
    started = both.until(both.chat("hello"), "started")
    assert "tiny.pictures was unloaded: it and tiny do not fit" in started["warning"]
    assert (both.played.text, both.played.pictures) == (both.text_need, 0)
    assert not both.ask("model_info", name=str(both.model))["info"]["loaded"]


def test_a_model_that_cannot_fit_is_refused_before_it_is_loaded(both: Both) -> None:
    both.start(both.need // 2)
    [error] = both.draw()
    assert (error.event, error.get("code")) == ("error", "out_of_memory")
    assert "This model needs at least" in error["message"]
    assert "Close other programs" in error["message"]
    assert set(both.drawings[0].calls) == {"unload"}


def test_a_size_that_does_not_fit_is_told_with_one_that_does(both: Both) -> None:
    both.start(10**9)
    both.draw()
    both.drawings[0].failure = TooLargeError("2048 x 2048 is too much. 512 x 512 fits.", (512, 512))
    error = both.draw(width=2048, height=2048)[-1]
    assert (error.event, error.get("code")) == ("error", "out_of_memory")
    assert "512 x 512 fits" in error["message"]
    assert both.played.pictures == both.need  # nothing is wrong with the model
    assert both.draw()[-1].event == "done"
    assert both.drawings[0].calls.count("load tiny.pictures") == 1


def test_a_load_that_is_stopped_leaves_nothing_and_the_next_one_loads(both: Both) -> None:
    both.start(10**9)
    both.draw()
    both.ask("unload", kind="image")
    both.drawings[0].gate.clear()
    request = both.send(
        "image", model=str(both.model), settings={"prompt": "abc"}, folder=str(both.folder)
    )
    both.until(request, "progress")
    both.ask("stop", target=request)
    assert both.end(request).get("code") == "cancelled"
    assert both.played.pictures == 0
    assert not both.ask("model_info", name=str(both.model))["info"]["loaded"]
    both.drawings[0].gate.set()
    assert both.draw()[-1].event == "done"


@pytest.mark.parametrize(
    ("failure", "code", "opened"),
    [
        (OutOfMemoryError("Full.", 2, 1), "out_of_memory", 1),
        (DeviceLostError("Gone."), "device_lost", 2),
    ],
)
def test_after_a_failure_of_the_gpu_the_model_is_loaded_anew(
    both: Both, failure: Exception, code: str, opened: int
) -> None:
    both.start(10**9)
    both.draw()
    both.drawings[0].failure = failure
    assert both.draw()[-1].get("code") == code
    assert both.draw()[-1].event == "done"
    assert len(both.engines) == opened
    loads = [call for drawing in both.drawings for call in drawing.calls if call != "unload"]
    assert loads == ["load tiny.pictures"] * 2


def test_steps_of_pictures_made_at_once_are_those_of_each(both: Both) -> None:
    both.start(10**9)
    events = both.draw(count=6)
    steps = [event for event in events if event.event == "step"]
    told = [(one["index"], one["step"], one["total"]) for one in steps]
    assert told == [(0, 1, 3), (0, 2, 3), (0, 3, 3), (4, 1, 3), (4, 2, 3), (4, 3, 3)]
    pictures = [event for event in events if event.event == "picture"]
    assert [one["seed"] for one in pictures] == [5, 6, 7, 8, 9, 10]
