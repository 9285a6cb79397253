"""The parts of a graph: values (what is computed) and nodes (how), and the error of this room."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from engine.tensor.descriptor import TensorDesc
from engine.tensor.weights import WeightDesc


class GraphError(ValueError):
    """A graph that cannot be right; the message is a sentence with the cause and the numbers."""


class Role(enum.Enum):
    """What a value is for, which decides who owns its memory."""

    ACTIVATION = "activation"  # made and used up within one run: the planner places it
    INPUT = "input"  # written by the host before a run
    OUTPUT = "output"  # read by the host, or by another graph, after a run
    WEIGHT = "weight"  # constant
    CACHE = "cache"  # kept between runs; nodes change it in place (the KV cache)
    STATE = "state"  # kept between runs; lengths, token, random counter

    @property
    def writable(self) -> bool:
        """Whether a node may have such a value as its output."""
        return self in (Role.ACTIVATION, Role.OUTPUT)


@dataclass(frozen=True, eq=False)
class Value:
    """One tensor of a graph. Two values are the same only if they are the same object."""

    name: str
    desc: TensorDesc | WeightDesc
    role: Role

    def __post_init__(self) -> None:
        if not self.name:
            raise GraphError("A value needs a name.")
        if isinstance(self.desc, WeightDesc) and self.role is not Role.WEIGHT:
            raise GraphError(
                f'"{self.name}" is described as a packed weight but has the role '
                f"{self.role.value}; packed weights have the role weight."
            )

    @property
    def nbytes(self) -> int:
        """Bytes in GPU memory."""
        return self.desc.nbytes

    @property
    def tensor(self) -> TensorDesc:
        """The description of an activation-like value (raises GraphError for a packed weight)."""
        if isinstance(self.desc, WeightDesc):
            raise GraphError(f'"{self.name}" is a packed weight where a plain tensor is needed.')
        return self.desc

    @property
    def weight(self) -> WeightDesc:
        """The description of a packed weight (raises GraphError for anything else)."""
        if isinstance(self.desc, TensorDesc):
            raise GraphError(f'"{self.name}" is a plain tensor where a packed weight is needed.')
        return self.desc


@dataclass(frozen=True, eq=False)
class Node:
    """One op applied to values. ``attrs["inputs"]`` names the part each input plays."""

    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    @property
    def input_names(self) -> tuple[str, ...]:
        """The part each input plays ("x", "weight", "residual", ...), parallel to ``inputs``."""
        return tuple(self.attrs.get("inputs", ()))

    @property
    def named(self) -> dict[str, Value]:
        """The inputs by the part they play."""
        return dict(zip(self.input_names, self.inputs, strict=True))

    @property
    def output(self) -> Value:
        """The only output of the node (raises GraphError when there is not exactly one)."""
        if len(self.outputs) != 1:
            raise GraphError(f"{self.op} has {len(self.outputs)} outputs where one is expected.")
        return self.outputs[0]
