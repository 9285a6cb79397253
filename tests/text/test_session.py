"""A conversation on a model: what is reused, how it stops, and that a stop leaves it usable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.text.engine import TextEngine
from engine.text.errors import ContextFullError, TextError, UnsupportedModelError
from engine.text.sampling import Sampling

from .conftest import GOLDEN

GREEDY = Sampling(temperature=0.0, max_tokens=12)


@pytest.fixture(scope="module")
def engine() -> Iterator[TextEngine]:
    opened = TextEngine.open(SimpleNamespace(backend="wgpu", device=None, without=()))
    opened.load(GOLDEN / "tied-f16.gguf", 128, lambda *_: None, lambda: False)
    yield opened
    opened.close()


class Watch:
    """Collects what a generation reports; stops it after ``most`` pieces of text."""

    def __init__(self, most: int = 10**9) -> None:
        self.started: dict[str, Any] = {}
        self.pieces: list[str] = []
        self._most = most

    def text(self, text: str, count: int, used: int) -> None:
        self.pieces.append(text)

    @property
    def stopped(self) -> bool:
        return len(self.pieces) >= self._most


def complete(engine: TextEngine, prompt: str, sampling: Sampling = GREEDY, most: int = 10**9):
    watch = Watch(most)
    answer = engine.complete(
        prompt, sampling, watch.started.update, lambda *_: None, watch.text, lambda: watch.stopped
    )
    return answer, watch


def test_what_is_told_piece_by_piece_is_the_answer(engine: TextEngine) -> None:
    answer, watch = complete(engine, "abc")
    assert "".join(watch.pieces) == answer["text"]
    assert answer["completion_tokens"] == len(answer["token_ids"]) == 12
    assert answer["stop_reason"] == "length"


def test_only_what_is_new_is_prefilled(engine: TextEngine) -> None:
    first, _ = complete(engine, "abcdefgh")
    second, watch = complete(engine, "abcdefgh" + "ijk")
    assert watch.started["reused_tokens"] == 7  # "ab" is one token
    fresh, _ = complete(engine, "zz")  # throws the cache away
    again, watch = complete(engine, "abcdefghijk")
    assert watch.started["reused_tokens"] == 0
    assert again["token_ids"] == second["token_ids"]
    assert first["token_ids"] != fresh["token_ids"]


def test_a_seed_gives_the_same_answer_again(engine: TextEngine) -> None:
    wild = Sampling(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=7, max_tokens=16)
    one, _ = complete(engine, "abc", wild)
    two, _ = complete(engine, "abc", wild)
    other, _ = complete(engine, "abc", Sampling(**{**vars(wild), "seed": 8}))
    assert one["token_ids"] == two["token_ids"] != other["token_ids"]


def test_a_stop_text_ends_the_answer_and_is_never_shown(engine: TextEngine) -> None:
    whole, _ = complete(engine, "abc", Sampling(temperature=0.0, max_tokens=20))
    stop = whole["text"][3:5]
    cut, watch = complete(engine, "abc", Sampling(temperature=0.0, max_tokens=20, stop=(stop,)))
    assert cut["stop_reason"] == "stop"
    assert cut["text"] == whole["text"][: whole["text"].index(stop)] == "".join(watch.pieces)


def test_a_stop_keeps_what_was_said_and_leaves_the_session_usable(engine: TextEngine) -> None:
    whole, _ = complete(engine, "abcd", Sampling(temperature=0.0, max_tokens=30))
    stopped, watch = complete(engine, "abcd", Sampling(temperature=0.0, max_tokens=30), most=5)
    assert stopped["stop_reason"] == "stopped"
    assert whole["text"].startswith(stopped["text"])
    assert "".join(watch.pieces) == stopped["text"]
    again, _ = complete(engine, "abcd", Sampling(temperature=0.0, max_tokens=30))
    assert again["token_ids"] == whole["token_ids"]


def test_a_stop_during_prefill_gives_an_empty_answer(engine: TextEngine) -> None:
    answer, _ = complete(engine, "q" * 100, most=0)
    assert (answer["stop_reason"], answer["text"]) == ("stopped", "")
    assert complete(engine, "q" * 100)[0]["completion_tokens"] == 12


def test_an_answer_ends_where_the_context_does(engine: TextEngine) -> None:
    answer, _ = complete(engine, "w" * 120, Sampling(temperature=0.0))
    assert answer["stop_reason"] == "length"
    assert answer["context_used"] == answer["context_size"] == 128


def test_a_prompt_that_leaves_no_room_is_refused_with_numbers(engine: TextEngine) -> None:
    with pytest.raises(ContextFullError, match=r"needs 141 tokens and the context has 128"):
        complete(engine, "w" * 140)


def test_an_empty_prompt_is_refused(engine: TextEngine) -> None:
    with pytest.raises(TextError, match="no text to continue"):
        complete(engine, "")


def test_old_turns_are_dropped_and_named(engine: TextEngine) -> None:
    turns = [{"role": role, "content": "x" * 20} for role in ("user", "assistant") * 2]
    messages = [{"role": "system", "content": "s"}, *turns, {"role": "user", "content": "last"}]
    watch = Watch()
    answer = engine.chat(
        messages, GREEDY, False, watch.started.update, lambda *_: None, watch.text, lambda: False
    )
    assert watch.started["dropped"][:2] == [1, 2]
    assert 0 not in answer["dropped"]
    assert 5 not in answer["dropped"]


def test_the_memory_figures_add_up(engine: TextEngine) -> None:
    memory = engine.memory()
    parts = ("weights", "kv_cache", "activations", "other")
    assert memory["total"] == sum(memory[part] for part in parts) > 0
    assert memory["peak"] >= memory["total"]


def test_a_context_that_the_model_does_not_have_is_refused(engine: TextEngine) -> None:
    with pytest.raises(UnsupportedModelError, match="16 to 256"):
        engine.load(GOLDEN / "tied-f16.gguf", 512, lambda *_: None, lambda: False)
    engine.load(GOLDEN / "tied-f16.gguf", 128, lambda *_: None, lambda: False)


def test_another_architecture_is_named(engine: TextEngine, tmp_path: Path) -> None:
    data = (GOLDEN / "tied-f16.gguf").read_bytes()
    other = tmp_path / "other.gguf"
    other.write_bytes(data.replace(b"llama", b"mamba", 1).replace(b"llama.", b"mamba."))
    with pytest.raises(UnsupportedModelError, match="mamba"):
        engine.load(other, 128, lambda *_: None, lambda: False)
    engine.load(GOLDEN / "tied-f16.gguf", 128, lambda *_: None, lambda: False)


def test_loading_can_be_cancelled_and_gives_everything_back(engine: TextEngine) -> None:
    from engine.text.weights import LoadCancelledError

    with pytest.raises(LoadCancelledError):
        engine.load(GOLDEN / "tied-f16.gguf", 128, lambda *_: None, lambda: True)
    assert engine.memory()["total"] == 0
    engine.load(GOLDEN / "tied-f16.gguf", 128, lambda *_: None, lambda: False)
