"""A model as a list of nodes in the order in which they run, checked while it is built.

graph = Graph("decode")
x = graph.value("x", matrix(1, 576), Role.INPUT)
y = graph.add("rms_norm", [x, gain], eps=1e-5)  # the output's shape is inferred
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from engine.graph.node import GraphError, Node, Role, Value
from engine.graph.ops import resolve
from engine.tensor.descriptor import TensorDesc
from engine.tensor.weights import WeightDesc

__all__ = ["Graph", "GraphError", "Node", "Role", "Value"]


class Graph:
    """Nodes in running order, and the values that they read and write.

    Every value is written at most once, by one node, before it is read. Caches and state are
    inputs that some ops change in place. Graphs may share values: ``use`` takes one from another.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._nodes: list[Node] = []
        self._values: dict[str, Value] = {}
        self._written: dict[Value, Node] = {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in running order."""
        return tuple(self._nodes)

    def values(self, role: Role | None = None) -> tuple[Value, ...]:
        """The values in the order in which they were declared, of one role or of all."""
        return tuple(v for v in self._values.values() if role is None or v.role is role)

    def find(self, name: str) -> Value:
        """The value of a name (raises GraphError when there is none)."""
        if name not in self._values:
            raise GraphError(f'The graph "{self.name}" has no value "{name}".')
        return self._values[name]

    def producer(self, value: Value) -> Node | None:
        """The node that writes a value, or None when it comes from outside."""
        return self._written.get(value)

    def value(self, name: str, desc: TensorDesc | WeightDesc, role: Role) -> Value:
        """Declare a value; names are unique within a graph."""
        return self.use(Value(name, desc, role))

    def use(self, value: Value) -> Value:
        """Take a value of another graph (a shared weight, cache, state) into this one."""
        if self._values.setdefault(value.name, value) is not value:
            raise GraphError(f'The graph "{self.name}" already has a value "{value.name}".')
        return value

    @overload
    def add(
        self,
        op: str,
        inputs: Sequence[Value] | Mapping[str, Value],
        /,
        output: TensorDesc | None = None,
        *,
        name: str | None = None,
        **attrs: Any,
    ) -> Value: ...

    @overload
    def add(
        self,
        op: str,
        inputs: Sequence[Value] | Mapping[str, Value],
        /,
        *,
        outputs: Sequence[Value],
        **attrs: Any,
    ) -> tuple[Value, ...]: ...

    def add(
        self,
        op: str,
        inputs: Sequence[Value] | Mapping[str, Value],
        /,
        output: TensorDesc | None = None,
        *,
        outputs: Sequence[Value] | None = None,
        name: str | None = None,
        **attrs: Any,
    ) -> Value | tuple[Value, ...]:
        """Append a node and return its output.

        ``inputs`` are in the op's order, or a mapping from the part each plays ("x", "weight",
        "residual", ...) where optional ones are left out.
        The output is a new activation, described by ``output`` or else inferred, called ``name``
        or else after the op. With ``outputs`` the node writes those declared values instead (an
        empty list for an op that only changes state) and they are returned. Raises GraphError.
        """
        given = (output,) if output is not None else None
        if outputs is not None:
            given = tuple(value.tensor for value in outputs)
        if isinstance(inputs, Mapping):
            inputs, attrs = tuple(inputs.values()), {**attrs, "inputs": tuple(inputs)}
        full, made = resolve(op, inputs, attrs, given)
        if outputs is None and len(made) != 1:
            raise GraphError(f"{op} makes {len(made)} outputs: pass outputs=[...] to say which.")
        results = tuple(outputs) if outputs is not None else (self._fresh(op, made[0], name),)
        self._append(Node(op, tuple(inputs), results, full))
        return results if outputs is not None else results[0]

    def _fresh(self, op: str, desc: TensorDesc, name: str | None) -> Value:
        if name is None:
            name = f"{op}.{len(self._nodes)}"
        if name in self._values:
            raise GraphError(f'The graph "{self.name}" already has a value "{name}".')
        return Value(name, desc, Role.ACTIVATION)

    def _append(self, node: Node) -> None:
        for value in node.inputs:
            self._check_input(node, value)
        for value in node.outputs:
            if not value.role.writable:
                raise GraphError(
                    f'{node.op} cannot write "{value.name}": it has the role {value.role.value}.'
                )
            if value in self._written or value in node.inputs:
                raise GraphError(f'{node.op} writes "{value.name}", which is already written.')
        for value in node.outputs:
            self.use(value)
            self._written[value] = node
        self._nodes.append(node)

    def _check_input(self, node: Node, value: Value) -> None:
        if self._values.get(value.name) is not value:
            raise GraphError(
                f'{node.op} reads "{value.name}", which is no value of the graph "{self.name}"; '
                "take it in with use()."
            )
        if value.role.writable and value not in self._written:
            raise GraphError(f'{node.op} reads "{value.name}" before any node has written it.')

    def check(self) -> None:
        """Refuse an unfinished graph: an output or activation that no node writes (GraphError)."""
        for value in self._values.values():
            if value.role.writable and value not in self._written:
                raise GraphError(
                    f'No node of the graph "{self.name}" writes the '
                    f'{value.role.value} "{value.name}".'
                )

    def rebuilt(self, nodes: Iterable[Node]) -> Graph:
        """The same values with other nodes, checked again; activations left unwritten go."""
        graph = Graph(self.name)
        kept = list(nodes)
        written = {value for node in kept for value in node.outputs}
        for value in self._values.values():
            if value.role is not Role.ACTIVATION or value in written:
                graph.use(value)
        for node in kept:
            descs = tuple(value.tensor for value in node.outputs)
            full, _ = resolve(node.op, node.inputs, node.attrs, descs)
            same = full == node.attrs
            graph._append(node if same else Node(node.op, node.inputs, node.outputs, full))
        return graph


def consumers(nodes: Sequence[Node]) -> Mapping[Value, tuple[int, ...]]:
    """For each value that is read, the indexes of the nodes that read it, in order."""
    readers: dict[Value, list[int]] = {}
    for index, node in enumerate(nodes):
        for value in dict.fromkeys(node.inputs):
            readers.setdefault(value, []).append(index)
    return {value: tuple(indexes) for value, indexes in readers.items()}
