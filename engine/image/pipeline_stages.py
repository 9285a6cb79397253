"""The stages that a picture goes through, kept between orders of one model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.image.latent_colours import LatentColours
from engine.image.pipeline_job import Denoisers
from engine.image.pipeline_model import ImageModel
from engine.image.pipeline_text import TextStage
from engine.image.pipeline_vae import VaeStage

Cancelled = Callable[[], bool]


@dataclass
class Stages:
    """Text encoders, denoiser and autoencoder of a model, with programs for the size used last."""

    model: ImageModel
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        self.text = TextStage(self.model)
        self.vae = VaeStage(self.model, self.memory_limit)
        self.denoisers = Denoisers(self.model, self.text, self.vae, self.memory_limit)
        self.colours = LatentColours(self.model.files)

    def release(self) -> None:
        """Give back the memory of everything but the weights."""
        self.denoisers.release()
        workspace = self.model.workspace
        workspace.forget(workspace.names())
        workspace.drop_arena()
