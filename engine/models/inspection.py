"""What a model file is, read from its header; a broken file gets a sentence instead of an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from engine.formats.errors import FormatError
from engine.formats.gguf import GgufFile, open_gguf
from engine.formats.safetensors import PICKLE_SUFFIXES
from engine.models.fit import MemoryNeed, shape_of, weight_bytes
from engine.models.image_inspection import image_details, image_facts, is_image_path
from engine.models.whole import files_below, size_of

SUFFIX: Final = ".gguf"
# general.file_type of the mixtures, which a tensor's own type cannot tell
_FILE_TYPES: Final = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    32: "BF16",
}


@dataclass(frozen=True)
class InstalledModel:
    """A model on this computer. With a ``problem``, the numbers may be 0 and texts empty."""

    name: str
    path: Path  # a file, or the folder of a picture model
    bytes: int
    kind: str  # "text" or "image"
    family: str  # general.architecture; of picture models sd1, sd2, sdxl or custom
    quant: str
    context: int  # tokens the model was made for; 0 for picture models
    licence: str
    parameters: int
    problem: str | None  # why it cannot be used, as a sentence
    weight_bytes: int = 0
    kv_bytes_per_token: int = 0
    activation_bytes: int = 0
    title: str = ""  # the model's own name for people, where it has one
    removable: bool = True  # False: it came with Driftwood

    def need(self, context: int) -> MemoryNeed:
        """What it holds on the GPU with a context of this many tokens."""
        tokens = min(context, self.context) if self.context else context
        return MemoryNeed(
            self.weight_bytes, self.kv_bytes_per_token * tokens, self.activation_bytes
        )


def inspect_model(path: Path, name: str | None = None) -> InstalledModel:
    """Read a model's header. Never raises for a bad one: its ``problem`` says what is wrong."""
    try:
        if is_picture_model(path):
            model = _described_pictures(path)
        else:
            size = path.stat().st_size
            with open_gguf(path) as file:
                model = _described(file, path, size)
    except FormatError as error:
        model = _unusable(path, _size(path), str(error))
    except OSError as error:
        reason = error.strerror or str(error)
        model = _unusable(path, _size(path), f"This file cannot be read: {reason}.")
    return model if name is None else replace(model, name=name)


def is_picture_model(path: Path) -> bool:
    """Whether a path is read as a picture model: a folder, a checkpoint, or what claims to be."""
    return path.is_dir() or is_image_path(path) or path.suffix.lower() in PICKLE_SUFFIXES


def model_details(path: Path) -> dict[str, object]:
    """Everything worth telling about a model, as JSON-able values. Raises FormatError, OSError."""
    if is_picture_model(path):
        return image_details(path)
    with open_gguf(path) as file:
        shape = shape_of(file.metadata)
        quants: dict[str, int] = {}
        for tensor in file.tensors.values():
            quants[tensor.quant.name] = quants.get(tensor.quant.name, 0) + 1
        simple = {k: v for k, v in file.metadata.items() if isinstance(v, str | int | float | bool)}
        return {
            "architecture": file.architecture,
            "layers": shape.layers,
            "channels": shape.channels,
            "heads": shape.heads,
            "kv_heads": max(shape.kv_heads, default=0),
            "vocabulary": shape.vocabulary,
            "tensors": len(file.tensors),
            "tensor_types": quants,
            "chat_template": "tokenizer.chat_template" in file.metadata,
            "metadata": {k: _shortened(v) for k, v in simple.items()},
        }


def _described(file: GgufFile, path: Path, size: int) -> InstalledModel:
    metadata = file.metadata
    shape = shape_of(metadata)
    return InstalledModel(
        name=path.stem,
        path=path,
        bytes=size,
        kind="text",
        family=file.architecture,
        quant=_quant(file),
        context=shape.context,
        licence=_licence(metadata),
        parameters=sum(_elements(one.shape) for one in file.tensors.values()),
        problem=None,
        weight_bytes=weight_bytes(file.tensors.values()),
        kv_bytes_per_token=shape.kv_bytes_per_token,
        activation_bytes=shape.activation_bytes(),
    )


def _described_pictures(path: Path) -> InstalledModel:
    facts = image_facts(path)
    return InstalledModel(
        name=model_stem(path),
        path=path,
        bytes=_size(path),
        kind="image",
        family=facts.family,
        quant=facts.quant,
        context=0,
        licence=facts.licence,
        parameters=facts.parameters,
        problem=None,
        weight_bytes=facts.weight_bytes,
        activation_bytes=facts.activation_bytes,
        title=facts.title,
    )


def model_stem(path: Path) -> str:
    """What a model is called by its place: a folder's name may hold dots, a file's ends at one."""
    return path.name if path.is_dir() else path.stem


def _unusable(path: Path, size: int, problem: str) -> InstalledModel:
    kind = "image" if is_picture_model(path) else "text"
    return InstalledModel(model_stem(path), path, size, kind, "", "", 0, "", 0, problem)


def _size(path: Path) -> int:
    return size_of(files_below(path))


def _quant(file: GgufFile) -> str:
    """The file's own word for its mixture, else the type that most bytes have."""
    file_type = file.metadata.get("general.file_type")
    if isinstance(file_type, int) and file_type in _FILE_TYPES:
        return _FILE_TYPES[file_type]
    sizes: dict[str, int] = {}
    for tensor in file.tensors.values():
        sizes[tensor.quant.name] = sizes.get(tensor.quant.name, 0) + tensor.nbytes
    return max(sizes, key=lambda name: sizes[name], default="")


def _licence(metadata: Mapping[str, object]) -> str:
    licence = metadata.get("general.license", "")
    known = {"apache-2.0": "Apache-2.0", "mit": "MIT"}
    return known.get(licence, licence) if isinstance(licence, str) else ""


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for axis in shape:
        product *= axis
    return product


def _shortened(value: object, limit: int = 400) -> object:
    if isinstance(value, str) and len(value) > limit:
        return f"{value[:limit]}… ({len(value):,} characters)"
    return value
