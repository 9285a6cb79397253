"""Asking the engine about models: which there are, loading one, getting the first one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.chat.models import STARTER, ModelsState, with_loaded
from app.chat.words import load_words
from app.models.downloads import MOVING, Download
from app.models.transfers import transfers_of
from app.shell.no_gpu import tell_no_gpu
from app.shell.page import AppContext
from engine.worker.protocol import Event

SWITCHED_OFF = (
    "Downloads are switched off. Allow them in Settings under Network, or add a model file on the "
    "Models page."
)


class ModelControl(QObject):
    """What the chat page knows of models and does with them.

    Attributes: state (a ModelsState).
    Signals: changed() after the state changed; for the first run get_changed(Download or None,
    problem) and got_first(); load_progress(words, fraction).
    """

    changed = Signal()
    get_changed = Signal(object, str)
    got_first = Signal()
    load_progress = Signal(str, object)

    def __init__(self, context: AppContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._engine = context.engine
        self.state = ModelsState()
        self._transfers = transfers_of(context.engine, context.settings)
        self._shown_item: Download | None = None
        self._loading_first = False
        self._count_request = 0
        self._refreshing = 0
        self._engine.worker_started.connect(self.refresh)
        self._engine.worker_died.connect(self._forget_loaded)
        self._transfers.changed.connect(self._follow_transfers)
        self._transfers.finished.connect(self._take_starter)
        self._transfers.failed.connect(self._tell_failure)

    @property
    def starter_item(self) -> Download | None:
        """The starter's place in the queue of downloads, None if it is not in it."""
        return self._transfers.queue.find(STARTER)

    @property
    def getting(self) -> bool:
        """True while the starter is downloaded or loaded."""
        item = self.starter_item
        return self._loading_first or (item is not None and item.status in MOVING)

    def refresh(self) -> None:
        """Ask what is installed."""
        self._engine.forget(self._refreshing)
        self._refreshing = self._engine.request("models_list", self._take_list)

    def want(self, name: str) -> None:
        """Use this model if it is there."""
        if name != self.state.wanted:
            self._set(replace(self.state, wanted=name))

    def note_loaded(self, name: str) -> None:
        """The worker now holds this model."""
        self._set(replace(self.state, models=with_loaded(self.state.models, name), loading=""))

    def load(self, context: int = 0) -> None:
        """Load the current model, unless it is loaded or an answer is being written."""
        model = self.state.current
        if model is None or model.get("loaded") or self._engine.busy:
            return
        name = str(model["name"])
        fields: dict[str, Any] = {"context": context} if context else {}
        self._set(replace(self.state, loading="Loading the model"))
        self._engine.request("load", partial(self._hear_load, name), model=name, **fields)

    def unload(self) -> None:
        """Free the GPU."""
        self._engine.request("unload", self._hear_unload)

    def _hear_unload(self, _event: Event) -> None:
        self.refresh()

    def count(
        self,
        messages: Sequence[dict[str, str]],
        context: int,
        tell: Callable[[int | None, int | None], Any],
    ) -> None:
        """Count tokens, if the model is loaded; only the newest question is answered."""
        model = self.state.current
        if model is None or not model.get("loaded"):
            return
        self._engine.forget(self._count_request)
        hear = partial(self._hear_count, tell)
        fields: dict[str, Any] = {"context": context} if context else {}
        self._count_request = self._engine.request(
            "count", hear, model=str(model["name"]), messages=list(messages), **fields
        )

    def _hear_count(self, tell: Callable[[int | None, int | None], Any], event: Event) -> None:
        if event.event == "done":
            tell(event.get("tokens"), event.get("context_size"))

    def get_starter(self) -> None:
        """Download the starter model, then load it; the Models page shows the same download."""
        starter = self.state.starter
        if not self._transfers.allowed:
            self.get_changed.emit(self.starter_item, SWITCHED_OFF)
        elif starter is not None and not self.getting:
            self._transfers.quiet.add(STARTER)
            self._transfers.get(STARTER, str(starter["title"]), int(starter["bytes"]))

    def pause_get(self) -> None:
        """Stop the download for now; what has come is kept, also over a restart."""
        self._transfers.pause(STARTER)

    def cancel_get(self) -> None:
        """Stop the download and delete what has come."""
        self._transfers.cancel(STARTER)

    def _follow_transfers(self) -> None:
        item = self.starter_item
        if item != self._shown_item:
            self._shown_item = item
            self.get_changed.emit(item, item.problem if item else "")

    def _tell_failure(self, item: Download, words: str, _details: str) -> None:
        if item.name == STARTER:
            self.get_changed.emit(self.starter_item, words)

    def _take_starter(self, item: Download, _model: object) -> None:
        """The first model is here: load it, so that the first answer does not wait for that."""
        if item.name != STARTER or not self.state.needs_first_model:
            self.refresh()
            return
        self._loading_first = True
        self._context.settings.set("chat.model", STARTER)
        self.load_progress.emit("Loading the model", None)
        self._engine.request("load", self._hear_first_load, model=STARTER)

    def _hear_first_load(self, event: Event) -> None:
        if event.event == "progress":
            self.load_progress.emit(*load_words(event.fields))
        if not event.final:
            return
        self._loading_first = False
        self._set(replace(self.state, wanted=STARTER))
        self.refresh()
        if event.event == "error":
            self._tell(event)
        self.got_first.emit()

    def _hear_load(self, name: str, event: Event) -> None:
        if event.event == "progress":
            words, fraction = load_words(event.fields)
            share = f" {fraction:.0%}" if fraction is not None else ""
            self._set(replace(self.state, loading=f"{words.split(',')[0]}{share}"))
        elif event.event == "done":
            self.note_loaded(name)
        elif event.event == "error":
            self._set(replace(self.state, loading=""))
            if event.get("code") != "cancelled":
                self._tell(event)
            self.refresh()

    def _tell(self, event: Event) -> None:
        text = str(event.get("message") or "The model could not be loaded.")
        if event.get("code") == "no_adapter":
            tell_no_gpu(self._context, text)
            return
        self._context.messages.error(text, event.get("details"))

    def _take_list(self, event: Event) -> None:
        if event.event != "done":
            return
        self._set(
            replace(
                self.state,
                known=True,
                models=tuple(event.get("models") or ()),
                catalogue=tuple(event.get("catalogue") or ()),
                free_bytes=event.get("free_bytes"),
            )
        )

    def _forget_loaded(self, _reason: str) -> None:
        self._set(replace(self.state, models=with_loaded(self.state.models, None), loading=""))

    def _set(self, state: ModelsState) -> None:
        if state != self.state:
            self.state = state
            self.changed.emit()
