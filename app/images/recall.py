"""Settings come back from a picture: into the form, or straight into another order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject

from app.images.known import KnownFiles
from app.images.models import PictureModels
from app.images.studio import Studio
from app.images.values import Lora, Values, defaults_of, random_seed, values_from
from app.shell.page import AppContext
from app.widgets import Action
from engine.worker.protocol import Event

Otherwise = Callable[[Path, str], None]


class Recall(QObject):
    """Reads what pictures carry. ``fill`` puts values into the form, ``draw`` into the queue."""

    def __init__(
        self,
        context: AppContext,
        studio: Studio,
        models: PictureModels,
        known: KnownFiles,
        fill: Callable[[Values], None],
        draw: Callable[[Values], None],
    ) -> None:
        super().__init__(studio)
        self._context = context
        self._studio = studio
        self._models = models
        self._known = known
        self._fill = fill
        self._draw = draw
        self._asking = 0
        self._awaited: tuple[str, Mapping[str, object]] | None = None

    def vary(self, path: Path) -> None:
        """Draw a picture again with another seed, without touching the form."""

        def hear(event: Event) -> None:
            settings = _settings_of(event)
            if settings is None:
                self.tell_nothing_inside(path, str(event.get("message") or ""))
                return
            values, notes = self._values(settings)
            for note in notes:
                self._context.messages.toast(note, kind="warning", seconds=10)
            self._studio.show_gallery()
            self._draw(replace(values, seed=random_seed()))

        self._context.engine.request("image_settings", hear, path=str(path))

    def use(self, path: Path, otherwise: Otherwise | None = None) -> None:
        """Put a picture's settings into the form; ``otherwise(path, why)`` if it has none."""
        self._context.engine.forget(self._asking)

        def hear(event: Event) -> None:
            settings = _settings_of(event)
            if settings is None:
                tell = otherwise or self.tell_nothing_inside
                tell(path, str(event.get("message") or ""))
                return
            before = self._studio.form.values()
            values, missing = self._values(settings)
            self._fill(values)
            notes = [*(str(note) for note in event.get("notes") or ()), *missing]
            notes += self._choose(str(event.get("model") or ""), settings)
            text = " ".join([f"Settings taken from {path.name}.", *notes])
            undo = Action("Undo", lambda: self._fill(before))
            self._context.messages.toast(text, undo, seconds=8)

        self._asking = self._context.engine.request("image_settings", hear, path=str(path))

    def tell_nothing_inside(self, path: Path, why: str) -> None:
        """It carries no settings."""
        self._context.messages.error(why or f"{path.name} carries no settings.")

    def awaited(self, model: str) -> Values | None:
        """What a picture said of this model, whose facts have come just now; None but once."""
        awaited, self._awaited = self._awaited, None
        return self._values(awaited[1])[0] if awaited is not None and awaited[0] == model else None

    def _choose(self, model: str, settings: Mapping[str, object]) -> list[str]:
        """Draw with the model that made it; a note where it is not here."""
        if not model:
            return []
        if model not in dict(self._models.models):
            return [f"It was made with {model}, which is not here."]
        if model != self._models.info.model:
            self._awaited = model, settings  # the form is filled again once it is known
        self._models.choose(model)
        return []

    def _values(self, settings: Mapping[str, object]) -> tuple[Values, list[str]]:
        """A picture's settings with the files that it names, and a note for each that is gone."""
        values = values_from(settings, defaults_of(self._models.info))
        places = self._context.places
        return with_files(
            replace(values, count=1), self._known, places.data / "pictures", places.cache / "masks"
        )


def with_files(
    values: Values, known: KnownFiles, pictures: Path, masks: Path
) -> tuple[Values, list[str]]:
    """Values whose files are whole paths, and a note for each that is not on this computer."""
    notes: list[str] = []

    def found(kind: str, name: str, what: str, *folders: Path) -> str:
        path = known.find(kind, name, folders) if name else ""
        if name and not path:
            notes.append(f"{what} {Path(name).name}, which is not here.")
        return path

    loras = [
        Lora(path, lora.weight)
        for lora in values.loras
        if (path := found("lora", lora.path, "It used the LoRA"))
    ]
    vae = found("vae", values.vae, "It used the VAE")
    init = found("init", values.init, "It began with", pictures)
    mask = found("mask", values.mask, "Its mask was", masks) if init else ""
    return replace(values, loras=tuple(loras), vae=vae, init=init, mask=mask), notes


def _settings_of(event: Event) -> Mapping[str, object] | None:
    settings = event.get("settings") if event.event == "done" else None
    return settings if isinstance(settings, Mapping) else None
