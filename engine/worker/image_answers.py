"""Requests about picture models and files that need no GPU. Safe for threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.formats.diffusers import PipelineFiles, open_pipeline
from engine.formats.diffusers_prediction import GUESSED
from engine.formats.diffusers_tiny import is_tiny
from engine.formats.errors import UnsupportedFile
from engine.formats.lora import Lora, load_lora
from engine.formats.safetensors import open_safetensors
from engine.models.image_inspection import about_model
from engine.models.inspection import InstalledModel
from engine.models.store import Store
from engine.worker.failures import RequestError
from engine.worker.job import Job

if TYPE_CHECKING:
    from engine.image.prompt_tokenizer import PromptTokenizer

_HINT: Final = "modelspec.trigger_phrase"  # what a LoRA's maker says to write in the prompt
MOST_HINT: Final = 200


class ImageAnswers:
    """Answers from model files alone; keeps the tokenizer of the last model asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._counted: tuple[Path, PromptTokenizer] | None = None

    def count(self, job: Job) -> None:
        """Tokens of a prompt, what the model reads at once, and what is cut."""
        from engine.image.prompt import encode_prompt

        model = self._model(job)
        encoded = encode_prompt(self._tokenizer(model.path), job.request.fields["prompt"])
        job.done(
            tokens=encoded.tokens,
            limit=encoded.limit,
            cut=encoded.cut or None,
            chunks=encoded.chunks,
            note=encoded.note,
        )

    def info(self, job: Job) -> None:
        """What a model is good at, and its usual settings."""
        model = self._model(job)
        with open_pipeline(model.path) as files:
            job.done(info=described(files, model))

    def part(self, job: Job) -> None:
        """What a file can be added to a model as, or why it cannot."""
        model = self._model(job)
        path = Path(job.request.fields["path"]).expanduser()
        with open_pipeline(model.path) as files:
            job.done(**part_of(files, path))

    def settings(self, job: Job) -> None:
        """What a picture carries."""
        from engine.image.metadata import read_settings

        path = Path(job.request.fields["path"]).expanduser()
        recalled = read_settings(path)
        told = {k: v for k, v in recalled.settings.as_dict().items() if v is not None}
        job.done(settings=told, model=recalled.model, notes=list(recalled.notes))

    def _model(self, job: Job) -> InstalledModel:
        model = self._store.find(job.request.fields["model"])
        if model.problem:
            raise RequestError(model.problem)
        if model.kind != "image":
            raise RequestError(f"{model.name} writes text. Choose a model that makes pictures.")
        return model

    def _tokenizer(self, path: Path) -> PromptTokenizer:
        from engine.image.prompt_tokenizer import load_prompt_tokenizer

        with self._lock:
            if self._counted is None or self._counted[0] != path:
                with open_pipeline(path) as files:
                    self._counted = (path, load_prompt_tokenizer(files.tokenizers[0]))
            return self._counted[1]


def described(files: PipelineFiles, model: InstalledModel) -> Mapping[str, Any]:
    """A picture model as the form of the Images page needs it."""
    from engine.image.schedulers import SAMPLERS
    from engine.image.settings import defaults_for

    about = about_model(files)
    defaults = defaults_for(files)
    return {
        "name": model.name,
        "title": model.title,
        "description": _text(about.get("description")),
        "family": files.family,
        "size": [defaults.width, defaults.height],
        "sizes": sizes_for(defaults.width, defaults.height),
        "steps": defaults.steps,
        "guidance": defaults.guidance,
        "sampler": defaults.sampler,
        "strength": defaults.strength,
        "samplers": list(SAMPLERS),
        "prompts": _texts(about.get("example_prompts")),
        "good_at": "; ".join(_texts(about.get("good_at"))),
        "not_good_at": "; ".join(_texts(about.get("not_good_at"))),
        "token_limit": files.tokenizers[0].positions - 2,
        "clip_skip": clip_skips(files),
        "prediction": files.scheduler.get("prediction_type") or "epsilon",
        "prediction_guessed": GUESSED in files.notes,
        "img2img": True,
        "inpaint": True,
        "notes": list(files.notes),
    }


def clip_skips(files: PipelineFiles) -> int:
    """The most that CLIP skip can be; 0 for SDXL, which always reads the layer before the last."""
    from engine.image.settings import MAX_CLIP_SKIP

    return 0 if len(files.texts) != 1 else min(files.texts[0].layers, MAX_CLIP_SKIP)


def part_of(files: PipelineFiles, path: Path) -> Mapping[str, Any]:
    """``kind``, ``name``, ``hint`` and ``problem`` of a file that can be added to models.

    A LoRA for another kind of model has a ``problem``: it is known for what it is all the same.
    Raises FormatError with what the file is, or why it does not go with the model.
    """
    if path.is_dir() or _holds_vae(path):
        with open_pipeline(files.path, vae=path):
            return {"kind": "vae", "name": path.stem, "hint": "", "problem": ""}
    with load_lora(path) as lora:
        problem = _problem_of(lora, files)
    with open_safetensors(path) as file:
        hint = file.metadata.get(_HINT, "")
    hint = " ".join(hint.split())[:MOST_HINT]
    return {"kind": "lora", "name": path.stem, "hint": hint, "problem": problem}


def _problem_of(lora: Lora, files: PipelineFiles) -> str:
    """Why a LoRA does not go with a model, or ""."""
    try:
        lora.check(files)
    except UnsupportedFile as error:
        return str(error)
    return ""


def _holds_vae(path: Path) -> bool:
    """Whether a file holds an autoencoder, and not the rest of a model beside it."""
    with open_safetensors(path) as file:
        if is_tiny(file):
            return True
        inner = [name.removeprefix("first_stage_model.") for name in file.tensors]
    is_whole = any(name.startswith("model.diffusion_model.") for name in inner)
    return not is_whole and any(name.startswith("decoder.") for name in inner)


def sizes_for(width: int, height: int) -> list[list[int]]:
    """Sizes to offer: the model's own, and upright and lying ones of about as many pixels."""
    if min(width, height) < 256:  # a small model knows its own size best
        lower = width * 3 // 4 // 8 * 8
        return [[width, height], [lower, height], [width, lower]]
    if min(width, height) >= 1024:
        shapes = ((1.0, 1.0), (0.875, 1.125), (0.8125, 1.1875), (0.75, 1.3125))
    else:
        shapes = ((1.0, 1.0), (0.875, 1.125), (1.0, 1.25), (1.0, 1.5))
    made: list[list[int]] = []
    for narrow, tall in shapes:
        upright = [round(width * narrow) // 8 * 8, round(height * tall) // 8 * 8]
        made += [one for one in (upright, upright[::-1]) if one not in made]
    return made


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []  # pyright: ignore
