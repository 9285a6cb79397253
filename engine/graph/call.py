"""How an op is described: its inputs, attributes, the shape it makes, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from engine.graph.node import GraphError, Role, Value
from engine.tensor.descriptor import DType, Shape, TensorDesc
from engine.tensor.weights import WeightDesc

FLOATS = (DType.F32, DType.F16)
Descs = tuple[TensorDesc, ...]


@dataclass(frozen=True)
class Call:
    """An op about to be applied: named inputs, attributes, the output shapes the caller gave."""

    op: str
    named: Mapping[str, Value]
    attrs: Mapping[str, Any]
    given: Descs | None = None

    def fail(self, sentence: str) -> NoReturn:
        """Raise a GraphError that starts with the op and its inputs."""
        inputs = ", ".join(f"{part}={value.name}" for part, value in self.named.items())
        raise GraphError(f"{self.op}({inputs}): {sentence}")

    def tensor(self, part: str, dtypes: tuple[DType, ...] = FLOATS) -> TensorDesc:
        """The description of a plain tensor of one of the element types."""
        desc = self.named[part].desc
        if isinstance(desc, WeightDesc):
            self.fail(f"{part} must be a plain tensor, not a packed weight.")
        if desc.dtype not in dtypes:
            names = " or ".join(dtype.value for dtype in dtypes)
            self.fail(f"{part} must hold {names}, not {desc.dtype.value}.")
        return desc

    def weight(self, part: str) -> WeightDesc:
        """The description of a packed weight."""
        desc = self.named[part].desc
        if isinstance(desc, TensorDesc):
            self.fail(f"{part} must be a packed weight, not a plain tensor.")
        return desc

    def vector(self, part: str, length: int) -> None:
        """Refuse an optional or required vector that has not ``length`` elements."""
        if part in self.named:
            have = self.tensor(part).shape.elements
            if have != length:
                self.fail(f"{part} has {have} elements where {length} are needed.")

    def role(self, part: str, role: Role) -> None:
        """Refuse an input that has another role."""
        if self.named[part].role is not role:
            self.fail(f"{part} has the role {self.named[part].role.value}, not {role.value}.")

    def whole(self, attr: str, least: int = 1) -> int:
        """An attribute that is a whole number of at least ``least``."""
        value = self.attrs.get(attr)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fail(f"{attr} must be a whole number of at least {least}, not {value!r}.")
        return value

    def number(self, attr: str, *, positive: bool = False) -> float:
        """An attribute that is a finite number (above zero if ``positive``)."""
        value = self.attrs.get(attr)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(f"{attr} must be a number, not {value!r}.")
        if not math.isfinite(value) or (positive and value <= 0):
            self.fail(
                f"{attr} must be a {'positive' if positive else 'finite'} number, not {value}."
            )
        return float(value)

    def choice(self, attr: str, choices: tuple[str, ...]) -> str:
        """An attribute that is one of some names."""
        value = self.attrs.get(attr)
        if value not in choices:
            self.fail(f"{attr} must be one of {', '.join(choices)}, not {value!r}.")
        return str(value)


@dataclass(frozen=True)
class OpSpec:
    """What an op takes, makes and changes.

    ``required`` and ``optional`` name its inputs in order, ``mutates`` those that it changes in
    place, ``attrs`` the attributes that it must have, ``defaults`` those that it may have. With
    ``open_attrs`` it may have others too, which only its kernel reads. ``variadic`` ops take any
    number of inputs, named in0, in1, ...
    """

    infer: Callable[[Call], Descs]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    mutates: tuple[str, ...] = ()
    attrs: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    open_attrs: bool = False
    variadic: bool = False


def rows(shape: Shape) -> int:
    """Rows of a matrix: everything but channels."""
    return shape.b * shape.h * shape.w


def like(desc: TensorDesc, channels: int) -> TensorDesc:
    """The same tensor with another number of channels."""
    return replace(desc, shape=replace(desc.shape, c=channels))


def shape_text(shape: Shape) -> str:
    """A shape as [rows, channels], with the axes b and h in front where they are not 1."""
    lead = [str(axis) for axis in (shape.b, shape.h) if axis != 1]
    return "[" + ", ".join([*lead, str(shape.w), str(shape.c)]) + "]"
