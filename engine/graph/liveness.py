"""When each activation is in memory, and which two of a node must not share a buffer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from engine.graph.graph import Graph, Role, Value


class PlanError(ValueError):
    """Lifetimes that cannot be planned, or a plan that is not valid; the message is a sentence."""


@dataclass(frozen=True)
class Lifetime:
    """``nbytes`` of memory needed from node ``first`` to node ``last``, both included.

    ``key`` names it: a Value, or anything hashable for a kernel's scratch memory.
    """

    key: Hashable
    nbytes: int
    first: int
    last: int

    def __post_init__(self) -> None:
        if self.nbytes < 1 or not 0 <= self.first <= self.last:
            raise PlanError(
                f"{self.label} cannot live for {self.nbytes} bytes from node {self.first} "
                f"to node {self.last}."
            )

    @property
    def label(self) -> str:
        """The key as a person reads it."""
        return self.key.name if isinstance(self.key, Value) else str(self.key)

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are in memory during some node."""
        return self.first <= other.last and other.first <= self.last


def lifetimes(graph: Graph) -> tuple[Lifetime, ...]:
    """The lifetime of every activation: from the node that writes it to the last that reads it."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for index, node in enumerate(graph.nodes):
        for value in node.outputs:
            first[value] = last[value] = index
        for value in node.inputs:
            last[value] = index
    return tuple(
        Lifetime(value, value.nbytes, at, last[value])
        for value, at in first.items()
        if value.role is Role.ACTIVATION
    )


def conflicts(graph: Graph) -> tuple[tuple[Value, Value], ...]:
    """Pairs (read, written) of activations of one node, which must lie in different buffers.

    WebGPU refuses one buffer bound ``read`` and ``read_write`` in one dispatch, even for ranges
    that do not overlap.
    """
    pairs = (
        (read, written)
        for node in graph.nodes
        for written in node.outputs
        for read in node.inputs
        if read.role is Role.ACTIVATION and written.role is Role.ACTIVATION
    )
    return tuple(dict.fromkeys(pairs))
