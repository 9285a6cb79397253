"""Open a text-to-image model: a diffusers folder, or a single-file checkpoint.

``open_pipeline`` finds the networks, reads or works out their configurations, and holds their
tensors against the list of what such networks have: a model that opens is whole. No numbers are
read before they are asked for.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from engine.formats.diffusers_checkpoint import open_checkpoint, open_vae_file
from engine.formats.diffusers_folder import open_folder, open_vae_folder
from engine.formats.diffusers_prediction import PREDICTIONS
from engine.formats.diffusers_tiny import find_preview, is_preview, open_preview
from engine.formats.diffusers_types import PipelineFiles, TokenizerFiles, VaeFiles
from engine.formats.errors import FormatError, NotAModelFile, UnsupportedFile
from engine.formats.safetensors import PICKLE_SUFFIXES

__all__ = ["PipelineFiles", "TokenizerFiles", "VaeFiles", "open_pipeline", "open_vae"]


def open_pipeline(
    path: str | Path,
    *,
    vae: str | Path | None = None,
    prediction: str | None = None,
    preview: str | Path | None = None,
) -> PipelineFiles:
    """Open a diffusers folder or a .safetensors checkpoint and check that it is whole.

    ``vae`` names a separate autoencoder file to use instead of the model's; ``prediction``
    ("epsilon", "v_prediction", "sample") overrules what the model says or what was guessed;
    ``preview`` names a tiny autoencoder (TAESD) for the live preview, which is otherwise looked for
    beside the model. Raises a FormatError with the reason; missing, extra and misshapen tensors are
    named.
    """

    path = Path(path)
    if path.name == "model_index.json":
        path = path.parent
    other = None if vae is None else open_vae(vae)
    try:
        made = _open_directory(path, other) if path.is_dir() else open_checkpoint(path, other)
        if prediction is not None:
            made = _with_prediction(made, prediction)
        return _with_preview(made, None if preview is None else Path(preview))
    except FormatError:
        for file in () if other is None else other.files:
            file.close()
        raise


def open_vae(path: str | Path) -> VaeFiles:
    """Open an autoencoder by itself: a file, or a folder with config.json beside the weights."""
    path = Path(path)
    return open_vae_folder(path) if path.is_dir() else open_vae_file(path)


def _open_directory(path: Path, other: VaeFiles | None) -> PipelineFiles:
    """A diffusers folder, or one that holds a single checkpoint."""

    if (path / "model_index.json").is_file():
        return open_folder(path, other)
    files = sorted(item for item in path.iterdir() if item.is_file())
    weights = [item for item in files if item.suffix.lower() == ".safetensors"]
    single = [item for item in weights if not is_preview(item)]
    if len(single) == 1:
        return open_checkpoint(single[0], other)
    pickles = [item for item in files if item.suffix.lower() in PICKLE_SUFFIXES]
    if pickles and not single:
        raise UnsupportedFile(
            f"{path.name} holds only PyTorch checkpoints ({pickles[0].name}). Opening such a file "
            "can run code that is hidden in it, so Driftwood does not. Get the model as "
            ".safetensors."
        )
    found = f"{len(single)} .safetensors files" if single else "no .safetensors file"
    raise NotAModelFile(
        f"{path.name} is not a model folder: it has no model_index.json and {found}. Choose the "
        "folder that holds model_index.json, or one .safetensors file."
    )


def _with_preview(made: PipelineFiles, asked: Path | None) -> PipelineFiles:
    """The model with the tiny autoencoder that was asked for, or that lies beside it."""
    path = asked or find_preview(made.path, made.family)
    if path is None:
        return made
    try:
        tiny = open_preview(path, made.vae.latent_channels)
    except FormatError as error:
        if asked is not None:
            made.close()
            raise
        note = f"{path.name} beside the model is not used for the preview: {error}"
        return replace(made, notes=(*made.notes, note))
    return replace(made, preview=tiny, files=(*made.files, *tiny.files))


def _with_prediction(made: PipelineFiles, prediction: str) -> PipelineFiles:
    if prediction not in PREDICTIONS:
        made.close()
        raise UnsupportedFile(
            f"A model predicts epsilon, v_prediction or sample, not {prediction[:40]!r}."
        )
    scheduler = MappingProxyType({**made.scheduler, "prediction_type": prediction})
    return replace(made, scheduler=scheduler, notes=())
