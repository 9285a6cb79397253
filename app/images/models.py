"""Which picture models there are, and whether the engine draws at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.images.values import Info, info_from
from app.shell.page import AppContext
from engine.worker.protocol import Event, ProtocolError

STARTER = "starter-image"
CHOSEN = "images.model"  # the setting


class PictureModels(QObject):
    """What the worker told about picture models.

    Attributes: models ((name, title) of each that can be used), current, info (of the current one).
    Signals: unable() when this engine cannot draw; missing() when it has no model to draw with;
    changed() after another model or its facts are known; failed(sentence).
    """

    unable = Signal()
    missing = Signal()
    changed = Signal()
    failed = Signal(str)

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._listing = self._asking = 0
        self.models: tuple[tuple[str, str], ...] = ()
        self.current = ""
        self.info = Info()

    @property
    def title(self) -> str:
        """The current model's name for people."""
        return dict(self.models).get(self.current, self.current)

    def refresh(self) -> None:
        """Ask which there are, then what the current one can do."""
        self._context.engine.forget(self._listing)
        self._listing = self._context.engine.request("models_list", self._take_list)

    def choose(self, name: str) -> None:
        """Draw with this model from now on."""
        if name != self.current and name in dict(self.models):
            self._context.settings.set(CHOSEN, name)
            self.current = name
            self._ask()

    def _take_list(self, event: Event) -> None:
        if event.event != "done":
            return
        titles = {
            str(one.get("name")): str(one.get("title") or one.get("name"))
            for one in (*(event.get("catalogue") or ()), *(event.get("models") or ()))
        }
        self.models = tuple(
            (name, titles[name]) for one in _usable(event) for name in (str(one["name"]),)
        )
        names = [name for name, _ in self.models]
        wanted = str(self._context.settings.get(CHOSEN, ""))
        choices = [one for one in (self.current, wanted, STARTER, *names) if one in names]
        self.current = choices[0] if choices else ""
        self._ask()

    def _ask(self) -> None:
        name = self.current
        engine = self._context.engine
        engine.forget(self._asking)
        if name and self.info.model == name:
            self.changed.emit()
            return
        try:
            self._asking = engine.request(
                "image_info", lambda event: self._take_info(name, event), model=name
            )
        except ProtocolError:  # this version of the engine has no word for pictures
            self.unable.emit()

    def _take_info(self, name: str, event: Event) -> None:
        if event.event == "done":
            facts = event.get("info")
            self.info = info_from(name, facts if isinstance(facts, Mapping) else {})
            self.changed.emit()
        elif event.event == "error":
            message = str(event.get("message") or "")
            if event.get("code") == "usage" and "no request" in message:
                self.unable.emit()
            elif not name:
                self.missing.emit()
            elif event.get("code") != "internal":  # a worker that died is asked again by itself
                self.info = Info(model=name)
                self.changed.emit()
                self.failed.emit(message)


def _usable(event: Event) -> list[Mapping[str, Any]]:
    """Installed picture models without a problem."""
    models = event.get("models") or ()
    return [one for one in models if one.get("kind") == "image" and not one.get("problem")]
