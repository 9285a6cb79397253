"""The weights of one network on the GPU: asked for by name while graphs are built, then uploaded.

A graph builder asks for what it needs, ``matrix("conv_in")`` or several stacked over one another,
and gets a graph value; :meth:`NetworkWeights.upload` then brings what was asked for and is not yet
there. Convolutions become matrices whose columns run over (ky, kx, channel). What a graph never
asks for (the encoder of an autoencoder that only decodes) takes no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.formats.packed import Packed, pack, packed_words
from engine.formats.quants import Quant, quantise
from engine.graph.node import Role, Value
from engine.image.errors import ImageError
from engine.tensor.descriptor import vector
from engine.tensor.weights import WeightDesc

Floats = NDArray[np.float32]
F16_MOST = 65504.0


class Source(Protocol):
    """Where numbers come from, by diffusers names (engine.formats.diffusers_weights)."""

    def __contains__(self, name: object) -> bool: ...
    def shape(self, name: str) -> tuple[int, ...]:
        """Shape in numpy order."""
        ...

    def array(self, name: str) -> Floats:
        """The numbers."""
        ...


@dataclass(frozen=True)
class Recipe:
    """How a value is made of named weights: joined along their first axis, or added up.

    ``halves_swapped`` puts the second half of the rows first (GEGLU stores its gate last);
    ``scale`` and ``shift`` apply to every number.
    """

    names: tuple[str, ...]
    added: bool = False
    halves_swapped: bool = False
    scale: float = 1.0
    shift: float = 0.0

    @property
    def label(self) -> str:
        """What the value is called."""
        first, *rest = self.names
        tails = [_without_common(first, name) for name in rest]
        label = "+".join([first, *tails])
        changed = self.scale != 1.0 or self.shift != 0.0
        return f"{label}*{self.scale:g}{self.shift:+g}" if changed else label


def _without_common(first: str, name: str) -> str:
    """The dotted parts of ``name`` from where it differs from ``first``."""
    ours, theirs = name.split("."), first.split(".")
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    return ".".join(ours[same:])


@dataclass
class NetworkWeights:
    """The weights of one network as graph values.

    Attributes:
        source: the numbers.
        quant: how matrices are kept (Q8_0 only those whose columns are whole blocks, else F16).
        limit: the largest object that the device binds, bytes.
        deltas: what LoRA files add, by weight name.
    """

    label: str
    source: Source
    quant: Quant = Quant.F16
    limit: int = 128 << 20
    deltas: Mapping[str, Sequence[Callable[[], Floats]]] = field(
        default_factory=dict[str, Sequence[Callable[[], Floats]]]
    )
    recipes: dict[Value, Recipe] = field(default_factory=dict[Value, Recipe])
    _values: dict[str, Value] = field(default_factory=dict[str, Value])

    def matrix(self, *names: str, halves_swapped: bool = False, scale: float = 1.0) -> Value:
        """The packed matrix of one weight, or of several with their rows stacked."""
        recipe = Recipe(tuple(f"{name}.weight" for name in names), False, halves_swapped, scale)
        found = self._values.get(recipe.label)
        if found is None:
            shapes = [self.source.shape(name) for name in recipe.names]
            rows = sum(shape[0] for shape in shapes)
            cols = int(np.prod(shapes[0][1:]))
            desc = _described(rows, cols, self._kind(cols), self.limit)
            found = self._enter(Value(f"{self.label}.{recipe.label}", desc, Role.WEIGHT), recipe)
        return found

    def vector(
        self,
        *names: str,
        added: bool = False,
        halves_swapped: bool = False,
        scale: float = 1.0,
        shift: float = 0.0,
    ) -> Value:
        """A vector of f32: one weight, several end to end, or several ``added`` up."""
        recipe = Recipe(names, added, halves_swapped, scale, shift)
        found = self._values.get(recipe.label)
        if found is None:
            lengths = [self.source.shape(name)[0] for name in names]
            length = lengths[0] if added else sum(lengths)
            value = Value(f"{self.label}.{recipe.label}", vector(length), Role.WEIGHT)
            found = self._enter(value, recipe)
        return found

    def has(self, name: str) -> bool:
        """Whether the network has a weight."""
        return name in self.source

    def _kind(self, cols: int) -> Quant:
        whole = cols % self.quant.block == 0
        return self.quant if whole else Quant.F16

    def _enter(self, value: Value, recipe: Recipe) -> Value:
        self._values[recipe.label] = value
        self.recipes[value] = recipe
        return value

    def array(self, value: Value) -> Floats:
        """The numbers of a value: f32 ``[rows, cols]``, or ``[length]`` for a vector."""
        recipe = self.recipes[value]
        parts = [self._weight(name) for name in recipe.names]
        made = sum(parts[1:], parts[0]) if recipe.added else _joined(parts)
        if recipe.halves_swapped:
            half = len(made) // 2
            made = np.concatenate([made[half:], made[:half]])
        if recipe.scale != 1.0 or recipe.shift != 0.0:
            made = made * np.float32(recipe.scale) + np.float32(recipe.shift)
        return made

    def _weight(self, name: str) -> Floats:
        values = self.source.array(name)
        for delta in self.deltas.get(name, ()):
            values = values + delta().reshape(values.shape)
        if values.ndim == 4:  # [out, in, ky, kx]
            values = values.transpose(0, 2, 3, 1)
        return values.reshape(values.shape[0], -1) if values.ndim > 1 else values

    def packed(self, value: Value) -> Packed:
        """The planes of a matrix as the GPU reads them.

        Raises:
            ImageError: a number is none, or too large for its kind.
        """
        quant = Quant[value.weight.kind.upper()]
        values = self.array(value)
        most = float(np.max(np.abs(values)))
        if not most <= (F16_MOST if quant is not Quant.F32 else np.inf):
            raise ImageError(
                f"The weight {value.name} holds numbers up to {most:g}, which 16-bit floats do not "
                "reach. The model file is probably damaged."
            )
        return pack(quantise(np.ascontiguousarray(values), quant), quant, value.weight.cols)

    @property
    def nbytes(self) -> int:
        """Bytes on the GPU of everything asked for so far."""
        return sum(value.nbytes for value in self.recipes)


def _joined(parts: Sequence[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _described(rows: int, cols: int, quant: Quant, limit: int) -> WeightDesc:
    code_words, scale_words = packed_words(quant, cols)
    whole = WeightDesc(rows, cols, quant.name.lower(), code_words, scale_words, (rows,))
    return whole.split(limit, align_rows=4 if rows >= 4 else 1)
