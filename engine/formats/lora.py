"""LoRA files: small additions to a picture model's weights.

A LoRA holds, for each weight it changes, two slim matrices whose product is added to the weight,
scaled by alpha / rank. Files come under kohya's names (``lora_unet_down_blocks_0_...``, with
diffusers' block names or a checkpoint's) and under diffusers' and PEFT's (``unet.down_blocks.0...
.lora_A.weight``); lora_names.py tells them apart. Other ways to change weights (LoHa, LoKr, DoRA,
...) are refused by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self, cast

import numpy as np

from engine.formats.diffusers_types import PipelineFiles
from engine.formats.errors import CorruptFile, FormatError, UnsupportedFile
from engine.formats.kinds import Floats
from engine.formats.lora_names import (
    COMPONENTS,
    DOWN,
    MIDDLE,
    UP,
    flat_names,
    refuse_other_kinds,
    split_name,
)
from engine.formats.safetensors import SafetensorsFile, open_safetensors
from engine.formats.safetensors_header import shown

__all__ = ["Delta", "Lora", "load_lora"]

_FAMILIES = {768: "Stable Diffusion 1", 1024: "Stable Diffusion 2", 2048: "Stable Diffusion XL"}
_NAMES = {"sd1": _FAMILIES[768], "sd2": _FAMILIES[1024], "sdxl": _FAMILIES[2048]}


@dataclass(frozen=True)
class Delta:
    """What is added to one weight at strength 1. Call it for the numbers."""

    file: SafetensorsFile
    down: str
    up: str
    middle: str | None
    scale: float
    shape: tuple[int, ...]  # of the weight

    def __call__(self) -> Floats:
        """The addition as float32 of the weight's shape."""
        down, up = self.file.array(self.down), self.file.array(self.up)
        rank = down.shape[0]
        up = up.reshape(-1, rank if self.middle is None else up.shape[1])
        if self.middle is None:
            product = up @ down.reshape(rank, -1)
        else:
            # Convolutions in three parts: 1 x 1 in, k x k between, 1 x 1 out.
            middle = self.file.array(self.middle)
            product = np.einsum("ijkl,jr,pi->prkl", middle, down.reshape(rank, -1), up)
        return (product.reshape(self.shape) * np.float32(self.scale)).astype(np.float32)


@dataclass(frozen=True)
class _Module:
    """The tensors that change one weight, by part, and the scale of their product."""

    name: str  # as the file has it
    tensors: Mapping[str, str]
    scale: float


class Lora:
    """An open LoRA file. ``rank`` is its largest; ``components`` those it changes."""

    def __init__(self, file: SafetensorsFile, modules: Mapping[str, Mapping[str, _Module]]) -> None:
        self.path = file.path
        self.components = tuple(name for name in COMPONENTS if modules.get(name))
        self._file = file
        self._modules = modules
        self.rank = max(self._rank(module) for part in modules.values() for module in part.values())

    def deltas(self, component: str, model: PipelineFiles) -> Mapping[str, Delta]:
        """What is added to a component's weights, by their diffusers names.

        Raises UnsupportedFile when the LoRA was made for another kind of model: for weights that
        this one lacks or has in another shape.
        """
        modules = self._modules.get(component, {})
        if not modules:
            return MappingProxyType({})
        source = model.weights.get(component)
        if source is None:
            raise self._other_family(model, next(iter(modules.values())).name)
        names = flat_names(component, source.names(), model.unet)
        made: dict[str, Delta] = {}
        for flat, module in modules.items():
            name = names.get(flat)
            if name is None:
                raise self._other_family(model, module.name)
            made[name] = self._delta(module, source.shape(name), model)
        return MappingProxyType(made)

    def check(self, model: PipelineFiles) -> None:
        """Raises UnsupportedFile unless every part of the LoRA has its weight in the model."""
        for component in self.components:
            self.deltas(component, model)

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _rank(self, module: _Module) -> int:
        return self._file.tensors[module.tensors[DOWN]].shape[0]

    def _delta(self, module: _Module, shape: tuple[int, ...], model: PipelineFiles) -> Delta:
        down = self._file.tensors[module.tensors[DOWN]].shape
        up = self._file.tensors[module.tensors[UP]].shape
        middle = module.tensors.get(MIDDLE)
        rows, cols = shape[0], math.prod(shape[1:])
        fits = up[0] == rows and (middle is not None or math.prod(down[1:]) == cols)
        if middle is not None:
            between = self._file.tensors[middle].shape
            fits = fits and len(shape) == 4 and between[2:] == shape[2:] and down[1] == shape[1]
        if not fits:
            raise self._other_family(model, module.name)
        return Delta(
            self._file, module.tensors[DOWN], module.tensors[UP], middle, module.scale, shape
        )

    def _other_family(self, model: PipelineFiles, name: str) -> FormatError:
        made_for = self._made_for()
        own = _NAMES.get(model.family, f"the model {model.name}")
        if made_for is not None and made_for != own:
            return UnsupportedFile(
                f"{self.path.name} was made for {made_for} and cannot be added to {own}."
            )
        return UnsupportedFile(
            f"{self.path.name} does not fit {model.name}: it changes {shown(name)}, which the "
            "model lacks or has in another shape."
        )

    def _made_for(self) -> str | None:
        """The family that the width of the text in cross attention tells."""
        for flat, module in self._modules.get("unet", {}).items():
            if flat.endswith(("attn2_to_k", "attn2_to_v")):
                width = self._file.tensors[module.tensors[DOWN]].shape[-1]
                return _FAMILIES.get(width)
        return None


def load_lora(path: str | Path) -> Lora:
    """Open a LoRA file. Raises a FormatError with the reason when it cannot be used."""
    file = open_safetensors(path)
    try:
        refuse_other_kinds(file.tensors, file.path.name)
        return Lora(file, _modules(file))
    except FormatError:
        file.close()
        raise


def _modules(file: SafetensorsFile) -> dict[str, dict[str, _Module]]:
    """Modules by component and flattened name."""
    label = file.path.name
    parts: dict[tuple[str, str], dict[str, str]] = {}
    for name in file.tensors:
        split = split_name(name)
        if split is None:
            raise UnsupportedFile(
                f"{label} holds {shown(name)}, which is no part of a LoRA that Driftwood knows."
            )
        component, flat, part = split
        parts.setdefault((component, flat), {})[part] = name
    if not parts:
        raise UnsupportedFile(f"{label} holds no tensors.")
    settings = _settings(file.metadata)
    modules: dict[str, dict[str, _Module]] = {}
    for (component, flat), tensors in parts.items():
        missing = [part for part in (DOWN, UP) if part not in tensors]
        if missing:
            raise CorruptFile(
                f"{label} is damaged: {shown(next(iter(tensors.values())))} comes without its "
                f"{missing[0]} matrix."
            )
        _check_shapes(file, tensors)
        scale = _scale(file, component, flat, tensors, settings)
        modules.setdefault(component, {})[flat] = _Module(tensors[DOWN], tensors, scale)
    return modules


def _check_shapes(file: SafetensorsFile, tensors: Mapping[str, str]) -> None:
    down, up = (file.tensors[tensors[part]].shape for part in (DOWN, UP))
    sound = 2 <= len(down) <= 4 and 2 <= len(up) <= 4 and math.prod(up[2:]) == 1
    ranks = (down[0], up[1]) if sound else (0, 1)
    if MIDDLE in tensors and sound:
        middle = file.tensors[tensors[MIDDLE]].shape
        sound = len(middle) == 4 and math.prod(down[2:]) == 1
        ranks = (middle[1], down[0]) if sound and middle[0] == up[1] else (0, 1)
    if not sound or ranks[0] != ranks[1] or ranks[0] < 1:
        raise CorruptFile(
            f"{file.path.name} is damaged: {shown(tensors[DOWN])} {list(down)} and its up matrix "
            f"{list(up)} do not go together."
        )


def _scale(
    file: SafetensorsFile,
    component: str,
    flat: str,
    tensors: Mapping[str, str],
    settings: Mapping[str, Any],
) -> float:
    """alpha / rank, with alpha from the tensor beside, or from the metadata, or equal to rank."""
    rank = file.tensors[tensors[DOWN]].shape[0]
    if "alpha" in tensors:
        if math.prod(file.tensors[tensors["alpha"]].shape) != 1:
            raise CorruptFile(
                f"{file.path.name} is damaged: {shown(tensors['alpha'])} is not one number."
            )
        alpha = float(file.array(tensors["alpha"]).reshape(()))
    else:
        alpha = _stated_alpha(component, flat, settings)
    scale = 1.0 if alpha is None else alpha / rank
    if alpha is not None and settings.get(f"{component}.use_rslora") is True:
        scale = alpha / math.sqrt(rank)
    if not math.isfinite(scale):
        raise CorruptFile(f"{file.path.name} is damaged: the scale of {shown(flat)} is {scale}.")
    return scale


def _stated_alpha(component: str, flat: str, settings: Mapping[str, Any]) -> float | None:
    """The alpha that PEFT's settings give a module: its own by pattern, or the common one."""
    pattern = settings.get(f"{component}.alpha_pattern")
    choices: Iterable[tuple[Any, Any]] = ()
    if isinstance(pattern, dict):
        choices = cast("dict[Any, Any]", pattern).items()
    for name, value in choices:
        ending = str(name).replace(".", "_").lstrip("^")
        if (flat == ending or flat.endswith("_" + ending)) and isinstance(value, int | float):
            return float(value)
    common = settings.get(f"{component}.lora_alpha")
    if isinstance(common, int | float) and not isinstance(common, bool):
        return float(common)
    return None


def _settings(metadata: Mapping[str, str]) -> Mapping[str, Any]:
    """PEFT's settings, which diffusers keeps in the file's metadata."""
    try:
        loaded: Any = json.loads(metadata.get("lora_adapter_metadata", "{}"))
    except (ValueError, RecursionError):
        return {}
    settings = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    for component in COMPONENTS:
        if settings.get(f"{component}.use_dora") is True:
            raise UnsupportedFile("The file is a DoRA, which Driftwood does not run; get a LoRA.")
    return settings
