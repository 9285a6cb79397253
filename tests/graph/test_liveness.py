"""Liveness: from the node that writes an activation to the last one that reads it."""

import pytest

from engine.graph.graph import Graph, Role
from engine.graph.liveness import Lifetime, PlanError, conflicts, lifetimes
from engine.tensor.descriptor import matrix


def branch() -> Graph:
    """x -> a; a -> b; b -> c; a + c -> y (an output), and d that nobody reads."""
    g = Graph()
    x = g.value("x", matrix(2, 8), Role.INPUT)
    y = g.value("y", matrix(2, 8), Role.OUTPUT)
    a = g.add("silu", [x], name="a")
    b = g.add("silu", [a], name="b")
    g.add("silu", [x], name="d")
    c = g.add("mul", [b, b], name="c")
    g.add("add", [a, c], outputs=[y])
    return g


def test_lifetimes_of_activations_only():
    spans = {life.label: (life.first, life.last) for life in lifetimes(branch())}
    assert spans == {"a": (0, 4), "b": (1, 3), "d": (2, 2), "c": (3, 4)}


def test_sizes_are_those_of_the_values():
    assert {life.nbytes for life in lifetimes(branch())} == {64}


def test_conflicts_are_pairs_read_and_written_by_one_node():
    pairs = [(read.name, written.name) for read, written in conflicts(branch())]
    assert pairs == [("a", "b"), ("b", "c")]


def test_overlap_includes_both_ends():
    a, b, c = (
        Lifetime(name, 4, *span) for name, span in [("a", (0, 2)), ("b", (2, 3)), ("c", (3, 5))]
    )
    assert a.overlaps(b)
    assert b.overlaps(a)
    assert not a.overlaps(c)


@pytest.mark.parametrize("span", [(0, 3, 2), (4, -1, 2), (4, 3, 2)])
def test_an_impossible_lifetime_is_refused(span: tuple[int, int, int]):
    with pytest.raises(PlanError, match="scratch cannot live for"):
        Lifetime("scratch", *span)
