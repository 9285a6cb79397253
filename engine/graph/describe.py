"""A graph as text that a person reads, for ``--verbose`` and for failed tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.graph.expression import Expression, expression_text
from engine.graph.graph import Graph, Node, Role, Value
from engine.graph.ops import OPS, mutated, shape_text
from engine.graph.plan import Plan
from engine.tensor.weights import WeightDesc


def describe(graph: Graph, plan: Plan | None = None) -> str:
    """One line a node, in running order, then the bytes by role; with a plan, where values lie."""
    lines = [f"{graph.name}: {len(graph.nodes)} nodes"]
    lines += (f"{index:4}  {node_text(node, plan)}" for index, node in enumerate(graph.nodes))
    lines += (f"{role.value}: {count} values, {size:,} bytes" for role, count, size in _sums(graph))
    if plan is not None:
        lines.append(f"plan: {plan.summary()}")
    return "\n".join(lines) + "\n"


def node_text(node: Node, plan: Plan | None = None) -> str:
    """``y [1, 576] f32 = linear(x=a, weight=w [576, 1536] q4_0) gated=silu`` and the like.

    ``&`` marks what the node changes in place, ``@2+256`` is object 2 of the plan at byte 256.
    Attributes at their default are left out.
    """
    changed = mutated(node)
    inputs = ", ".join(
        f"{part}={'&' if value in changed else ''}{value.name}{_packed_text(value)}"
        for part, value in node.named.items()
    )
    defaults = OPS[node.op].defaults
    told = {name: value for name, value in node.attrs.items() if value != defaults.get(name)}
    call = f"{node.op}({inputs}){_attrs_text(told)}"
    outputs = ", ".join(_output_text(value, plan) for value in node.outputs)
    return f"{outputs} = {call}" if outputs else call


def _output_text(value: Value, plan: Plan | None) -> str:
    text = f"{value.name} {shape_text(value.tensor.shape)} {value.tensor.dtype.value}"
    place = plan.places.get(value) if plan is not None else None
    return text if place is None else f"{text} @{place.object}+{place.offset}"


def _packed_text(value: Value) -> str:
    desc = value.desc
    if not isinstance(desc, WeightDesc):
        return ""
    parts = f" in {len(desc.parts)} parts" if len(desc.parts) > 1 else ""
    return f" [{desc.rows}, {desc.cols}] {desc.kind}{parts}"


def _attrs_text(attrs: Mapping[str, Any]) -> str:
    texts = [
        f" {{{expression_text(value, attrs['inputs'])}}}"
        if isinstance(value, Expression)
        else f" {name}={value:g}"
        if isinstance(value, float)
        else f" {name}={value}"
        for name, value in attrs.items()
        if name != "inputs"
    ]
    return "".join(texts)


def _sums(graph: Graph) -> Iterator[tuple[Role, int, int]]:
    for role in Role:
        values = graph.values(role)
        if values:
            yield role, len(values), sum(value.nbytes for value in values)
