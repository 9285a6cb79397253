"""Which chat models there are, which one a chat uses, and whether it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STARTER = "smollm2-135m-instruct"

Model = Mapping[str, Any]  # the worker's ModelFields


@dataclass(frozen=True)
class ModelsState:
    """What the chat page knows of models.

    known: the worker has answered. models: everything installed. wanted: the chat's or the
    person's choice. loading: words while a model is loaded, else "".
    """

    known: bool = False
    models: tuple[Model, ...] = ()
    catalogue: tuple[Model, ...] = ()
    free_bytes: int | None = None
    wanted: str = ""
    loading: str = ""

    @property
    def usable(self) -> list[Model]:
        """Models one can chat with."""
        return [m for m in self.models if m.get("kind") == "text" and not m.get("problem")]

    @property
    def current(self) -> Model | None:
        """The wanted model if it is here, else the loaded one, else the first; None without any."""
        usable = self.usable
        for model in usable:
            if model["name"] == self.wanted:
                return model
        loaded = [m for m in usable if m.get("loaded")]
        return (loaded or usable or [None])[0]

    def title_of(self, model: Model) -> str:
        """A model's name for people: the catalogue's, or the file's."""
        known = (one for one in self.catalogue if one.get("name") == model.get("name"))
        named = next(known, model)
        return str(named.get("title") or model.get("name") or "")

    @property
    def is_loaded(self) -> bool:
        """True if the current model is in GPU memory."""
        return bool(self.current and self.current.get("loaded"))

    @property
    def starter(self) -> Model | None:
        """The catalogue's first model for people who have none."""
        named = [m for m in self.catalogue if m.get("name") == STARTER]
        return named[0] if named else None

    @property
    def needs_first_model(self) -> bool:
        """True when it is certain that nothing is here to chat with."""
        return self.known and not self.usable


def with_loaded(models: tuple[Model, ...], name: str | None) -> tuple[Model, ...]:
    """The models with exactly this one marked as loaded."""
    return tuple({**m, "loaded": m["name"] == name} for m in models)
