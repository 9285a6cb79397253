"""The weights of one network, under their diffusers names, wherever they lie.

A weight may be a tensor of a file as it is, a part of one (the query rows of a fused projection),
a transposed one, or one without its 1 x 1 axes. Nothing is read before :meth:`WeightSource.array`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from engine.formats.errors import CorruptFile, FormatError, UnsupportedFile
from engine.formats.kinds import Floats
from engine.formats.safetensors import SafetensorsFile
from engine.formats.safetensors_header import DTYPE_BYTES, shown

NAMES_SHOWN = 3


@dataclass(frozen=True)
class Weight:
    """Where a weight lies and how it is made.

    ``shape`` is the finished one. ``rows`` selects a range of the stored tensor's first axis;
    ``transposed`` swaps its two axes.
    """

    file: SafetensorsFile
    stored: str
    shape: tuple[int, ...]
    rows: tuple[int, int] | None = None
    transposed: bool = False

    def read(self) -> Floats:
        """The numbers, float32 of ``shape``."""
        values = self.file.array(self.stored)
        if self.rows is not None:
            values = values[self.rows[0] : self.rows[1]]
        if self.transposed:
            values = values.T
        return np.ascontiguousarray(values).reshape(self.shape)


class WeightSource:
    """The weights of one network by their diffusers names."""

    def __init__(self, label: str, weights: Mapping[str, Weight]) -> None:
        self.label = label
        self.weights: Mapping[str, Weight] = MappingProxyType(dict(weights))

    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self.weights)

    def __contains__(self, name: object) -> bool:
        return name in self.weights

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight in numpy order (a convolution's is C_out, C_in, height, width)."""
        return self._find(name).shape

    def dtype(self, name: str) -> str:
        """How the file stores a weight: "F32", "F16", "BF16", ..."""
        weight = self._find(name)
        return weight.file.tensors[weight.stored].dtype

    def array(self, name: str) -> Floats:
        """A weight as float32."""
        return self._find(name).read()

    @property
    def parameters(self) -> int:
        """Numbers of all weights together."""
        return sum(math.prod(weight.shape) for weight in self.weights.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all weights as stored."""
        return sum(
            math.prod(self.shape(name)) * DTYPE_BYTES[self.dtype(name)] for name in self.weights
        )

    def _find(self, name: str) -> Weight:
        weight = self.weights.get(name)
        if weight is None:
            raise FormatError(f"{self.label} has no weight named {shown(name)}.")
        return weight


def check_weights(
    label: str,
    found: Mapping[str, Weight],
    expected: Mapping[str, tuple[int, ...]],
    extra: Iterable[str] = (),
) -> WeightSource:
    """The source of exactly the ``expected`` weights.

    ``extra`` names tensors of the file that stand for no weight. Raises CorruptFile for missing
    tensors, UnsupportedFile for extra ones and for wrong shapes; the message names them.
    """
    missing = [name for name in expected if name not in found]
    if missing:
        raise CorruptFile(
            f"{label} lacks {_count(missing, 'tensor')} that its configuration asks for: "
            f"{_listed(missing)}. Get the whole model again."
        )
    wrong = [name for name in expected if _matched(found[name], expected[name]) is None]
    if wrong:
        name = wrong[0]
        raise UnsupportedFile(
            f"{label} has {_count(wrong, 'tensor')} of another shape than its configuration asks "
            f"for: {shown(name)} is {list(found[name].shape)} instead of {list(expected[name])}."
        )
    surplus = [*extra, *(name for name in found if name not in expected)]
    if surplus:
        raise UnsupportedFile(
            f"{label} has {_count(surplus, 'tensor')} that Driftwood does not know in such a "
            f"network: {_listed(surplus)}."
        )
    weights = {name: _matched(found[name], shape) for name, shape in expected.items()}
    return WeightSource(label, {name: weight for name, weight in weights.items() if weight})


def _matched(weight: Weight, shape: tuple[int, ...]) -> Weight | None:
    """The weight in the wanted shape; 1 x 1 convolutions and linear layers are one and the same."""
    if weight.shape == shape:
        return weight
    squeezed = weight.shape[:2] if weight.shape[2:] == (1, 1) else weight.shape
    wanted = shape[:2] if shape[2:] == (1, 1) else shape
    if squeezed != wanted:
        return None
    return Weight(weight.file, weight.stored, shape, weight.rows, weight.transposed)


def _count(names: list[str], what: str) -> str:
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'}"


def _listed(names: list[str]) -> str:
    text = ", ".join(shown(name) for name in names[:NAMES_SHOWN])
    return text + (", ..." if len(names) > NAMES_SHOWN else "")
