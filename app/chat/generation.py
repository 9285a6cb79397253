"""One answer while it is written: events in, a growing message out, saved as it grows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.prompts import Prompt
from app.chat.words import load_words, prefill_words
from app.shell.engine import EngineClient
from app.storage.chats import ChatStore
from app.storage.files import StorageError
from app.storage.records import Message, State
from engine.worker.protocol import Event

SHOW_MS = 33  # about 30 times a second
SAVE_MS = 800  # a crash loses less than a second
PATIENCE_MS = 10_000  # after Stop; then the worker is ended (a driver may be compiling)
_STATES = {"end": State.DONE, "stop": State.DONE, "length": State.LENGTH, "stopped": State.STOPPED}
_STATS = (
    "prompt_tokens",
    "completion_tokens",
    "seconds_to_first_token",
    "prefill_tokens_per_second",
    "decode_tokens_per_second",
    "context_used",
    "context_size",
    "device",
    "backend",
)


class Generation(QObject):
    """An answer being written.

    Attributes: message (as far as it is), error_code (the worker's, once it has failed).
    Signals: status_changed(words, fraction or None), grew(message) at most 30 times a second,
    model_loaded(), finished(message), save_failed(sentence), told once.
    """

    status_changed = Signal(str, object)
    grew = Signal(object)
    model_loaded = Signal()
    finished = Signal(object)
    save_failed = Signal(str)

    def __init__(
        self,
        engine: EngineClient,
        store: ChatStore,
        message: Message,
        prompt: Prompt,
        told: frozenset[str] = frozenset(),
    ) -> None:
        """``told``: warnings that stand in the chat already and need not be said again."""
        super().__init__()
        self._told = told
        self._dropped_text = ""
        self.message = message
        self._engine = engine
        self._store = store
        self._prompt = prompt
        self._request = 0
        self._parts: list[str] = [message.text]
        self._streamed = False
        self._unsaved = False
        self._told_unsaved = False
        self._stopping = False
        self.error_code = ""
        self._show = _timer(self, SHOW_MS, self._show_more)
        self._save = _timer(self, SAVE_MS, self._save_more)
        self._patience = _timer(self, PATIENCE_MS, engine.restart)

    def start(self, model: str, fields: Mapping[str, Any], *, continuing: bool) -> None:
        """Send the request."""
        more: dict[str, Any] = {"continue_": True} if continuing else {}
        self._request = self._engine.request(
            "chat",
            self._hear,
            model=model,
            messages=list(self._prompt.messages),
            **fields,
            **more,
        )

    def stop(self) -> None:
        """Keep what there is; an engine that does not stop in time is ended."""
        if not self._stopping:
            self._stopping = True
            self.status_changed.emit("Stopping", None)
            self._engine.stop(self._request)
            self._patience.start()

    def abandon(self) -> None:
        """The program ends: save what there is and hear nothing more."""
        self._engine.forget(self._request)
        self._stop_timers()
        self._keep(replace(self._current(), state=State.STOPPED))

    def _hear(self, event: Event) -> None:
        if event.event == "text":
            self._parts.append(str(event.get("text", "")))
            self._streamed = self._unsaved = True
            for timer in (self._show, self._save):
                if not timer.isActive():
                    timer.start()
        elif event.event == "progress":
            self.status_changed.emit(*load_words(event.fields))
        elif event.event == "prefill":
            words = prefill_words(int(event.get("done", 0)), int(event.get("total", 0)))
            self.status_changed.emit(*words)
        elif event.event == "started":
            self._note_start(event)
        elif event.event == "done":
            self._finish(self._result(event))
        elif event.event == "error":
            self._finish(self._failure(event))

    def _note_start(self, event: Event) -> None:
        dropped = self._prompt.dropped_ids(event.get("dropped") or ())
        warning = str(event.get("warning") or "")
        self._dropped_text = str(event.get("dropped_text") or "")
        note = "" if warning in self._told else warning
        self.message = replace(self.message, dropped=dropped, note=note)
        self.model_loaded.emit()
        self.status_changed.emit("Reading your prompt", None)

    def _result(self, event: Event) -> Message:
        message = self._current()
        if not self._streamed:
            message = replace(message, text=message.text + str(event.get("text") or ""))
        state = _STATES.get(str(event.get("stop_reason")), State.DONE)
        stats = {name: event.get(name) for name in _STATS if event.get(name) is not None}
        if self._dropped_text:
            stats["dropped_text"] = self._dropped_text
        note = message.note or _note(state, message.text, stats)
        return replace(message, state=state, stats=stats, note=note)

    def _failure(self, event: Event) -> Message:
        message = self._current()
        self.error_code = str(event.get("code") or "internal")
        if self._stopping or event.get("code") == "cancelled":
            note = "" if message.text else "Stopped before the first word."
            return replace(message, state=State.STOPPED, note=note)
        return replace(
            message,
            state=State.FAILED,
            note=str(event.get("message") or "The engine failed without saying why."),
            details=str(event.get("details") or ""),
        )

    def _finish(self, message: Message) -> None:
        self._stop_timers()
        self._keep(message)
        self.finished.emit(message)

    def _stop_timers(self) -> None:
        for timer in (self._show, self._save, self._patience):
            timer.stop()

    def _current(self) -> Message:
        self._parts = ["".join(self._parts)] if len(self._parts) > 64 else self._parts
        return replace(self.message, text="".join(self._parts))

    def _show_more(self) -> None:
        """Show what has come; a slow view is asked less often, so the window stays quick."""
        self.message = self._current()
        began = time.perf_counter()
        self.grew.emit(self.message)
        took_ms = (time.perf_counter() - began) * 1000
        self._show.setInterval(max(SHOW_MS, round(3 * took_ms)))

    def _save_more(self) -> None:
        if self._unsaved:
            self._keep(self._current())

    def _keep(self, message: Message) -> None:
        self._unsaved = False
        self.message = message
        try:
            self._store.save_message(message)
        except StorageError as error:
            if not self._told_unsaved:
                self._told_unsaved = True
                self.save_failed.emit(str(error))


def _note(state: State, text: str, stats: Mapping[str, Any]) -> str:
    """A remark below an answer that did not end by itself."""
    if state is State.STOPPED and not text:
        return "Stopped before the first word."
    if state is not State.LENGTH:
        return "" if text else "The model had nothing to say. Try again, or word it differently."
    used, size = stats.get("context_used", 0), stats.get("context_size", 0)
    if size and used >= size - 1:
        return "The context is full, so the answer ends here. Continue drops the oldest messages."
    return "The answer reached the longest length that is allowed. Continue goes on with it."


def _timer(owner: QObject, interval: int, run: Any) -> QTimer:
    timer = QTimer(owner)
    timer.setSingleShot(True)
    timer.setInterval(interval)
    timer.timeout.connect(run)
    return timer
