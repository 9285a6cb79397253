"""What all rewrites share: the nodes of a graph while some of them become fewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.graph.graph import Graph, GraphError, Node, Role, Value, consumers
from engine.graph.ops import OPS, mutated


class Rewriter:
    """The nodes of a graph while two of them at a time become one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: list[Node | None] = list(graph.nodes)
        self._producer = {v: i for i, node in enumerate(graph.nodes) for v in node.outputs}
        self._readers = {v: set(at) for v, at in consumers(graph.nodes).items()}

    def each(self, *ops: str) -> Iterator[tuple[int, Node]]:
        """The nodes of some ops that still stand, in running order."""
        for index in range(len(self._nodes)):
            node = self._nodes[index]
            if node is not None and node.op in ops:
                yield index, node

    def node(self, index: int) -> Node:
        """The node that stands at an index."""
        node = self._nodes[index]
        if node is None:
            raise GraphError(f'A rewrite of "{self._graph.name}" used a node that it had removed.')
        return node

    def readers(self, value: Value) -> list[int]:
        """The indexes of the nodes that read a value, in order."""
        return sorted(self._readers.get(value, ()))

    def fusible(self, value: Value, reader: int) -> tuple[int, Node] | None:
        """The node that writes ``value``, if it may merge into ``reader``, its only reader."""
        at = self._producer.get(value)
        if at is None or value.role is not Role.ACTIVATION or self.readers(value) != [reader]:
            return None
        return (at, self.node(at)) if self.may_move(at, reader) else None

    def may_move(self, at: int, to: int) -> bool:
        """Whether a node reads and changes the same things when it runs at ``to`` instead."""
        moved = self.node(at)
        if mutated(moved) or len(moved.outputs) != 1:
            return False
        between = (node for node in self._nodes[at + 1 : to] if node is not None)
        changed = {value for node in between for value in mutated(node)}
        return changed.isdisjoint(moved.inputs)

    def replace(self, index: int, node: Node) -> None:
        """Put a node where another one with the same outputs stood."""
        self._forget(index)
        self._nodes[index] = node
        for value in node.inputs:
            self._readers.setdefault(value, set()).add(index)

    def remove(self, index: int) -> None:
        """Take away a node whose output nobody reads any more."""
        self._forget(index)
        self._nodes[index] = None

    def _forget(self, index: int) -> None:
        for value in self.node(index).inputs:
            self._readers[value].discard(index)

    def result(self) -> Graph:
        """The rewritten graph, checked."""
        return self._graph.rebuilt(node for node in self._nodes if node is not None)


def widened(node: Node, into: Node, swaps: dict[str, Value], **attrs: Any) -> Node:
    """``node`` with inputs exchanged or added by name, writing the outputs of ``into``."""
    order = (*OPS[node.op].required, *OPS[node.op].optional)  # one order: fewer distinct kernels
    both = {**node.named, **swaps}
    named = {part: both[part] for part in order if part in both}
    full = {**node.attrs, **attrs, "inputs": tuple(named)}
    return Node(node.op, tuple(named.values()), into.outputs, full)
