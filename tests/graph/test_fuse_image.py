"""Fusion around convolutions: each rewrite by example, and when it holds back."""

from __future__ import annotations

from typing import Any

import pytest

from engine.formats.quants import Quant
from engine.graph.fuse import fuse
from engine.graph.graph import Graph, Role, Value
from engine.graph.node import Node
from engine.kernels.quantise_blocks import weight_desc
from engine.tensor.descriptor import Shape, TensorDesc, matrix, vector

SHAPE = Shape(2, 4, 4, 8)


class Build:
    """A graph under test: inputs x and r of 8 channels, an output y."""

    def __init__(self) -> None:
        self.graph = Graph("test")
        self.x = self.graph.value("x", TensorDesc(SHAPE), Role.INPUT)
        self.r = self.graph.value("r", TensorDesc(SHAPE), Role.INPUT)

    def weight(self, name: str, rows: int, cols: int) -> Value:
        return self.graph.value(name, weight_desc(Quant.F16, rows, cols), Role.WEIGHT)

    def conv(self, x: Value, name: str = "w", **attrs: Any) -> Value:
        w = self.weight(name, 8, 9 * x.tensor.shape.c)
        return self.graph.add("conv2d", [x, w], kernel=3, padding=1, **attrs)

    def norm(self, x: Value, name: str = "n", act: str | None = "silu") -> Value:
        channels = x.tensor.shape.c
        parts = [self.graph.value(f"{name}.{p}", vector(channels), Role.WEIGHT) for p in "gb"]
        return self.graph.add("group_norm", [x, *parts], groups=2, eps=1e-5, act=act)

    def out(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        y = self.graph.value("y", TensorDesc(SHAPE), Role.OUTPUT)
        self.graph.add(op, inputs, outputs=[y], **attrs)
        return y

    def end(self, value: Value) -> None:
        """Make a value matter: scaled into the output."""
        self.out("scale", value, factor=2.0)

    def nodes(self, **options: Any) -> list[Node]:
        return list(fuse(self.graph, **options).nodes)

    def ops(self, **options: Any) -> list[str]:
        return [node.op for node in self.nodes(**options)]


def names(node: Node) -> dict[str, str]:
    """The inputs of a node by the part they play."""
    return {part: value.name for part, value in node.named.items()}


def test_a_group_norm_leaves_its_table_to_the_convolution():
    b = Build()
    b.end(b.conv(b.norm(b.x)))
    table, conv, _ = b.nodes()
    assert (table.op, conv.op, conv.attrs["norm_act"]) == ("group_table", "conv2d", "silu")
    assert names(conv) == {"x": "x", "weight": "w", "table": table.output.name}
    assert table.output.tensor.shape == Shape(b=2, w=2, c=8)


def test_a_plain_linear_takes_a_table_as_a_convolution_of_one_pixel():
    b = Build()
    b.end(b.graph.add("linear", [b.norm(b.x, act=None), b.weight("w", 8, 8)]))
    table, conv, _ = b.nodes()
    assert (table.op, conv.op, conv.attrs["kernel"]) == ("group_table", "conv2d", 1)


def test_a_norm_that_something_else_reads_stays():
    b = Build()
    normed = b.norm(b.x)
    b.out("add", b.conv(normed), normed)
    assert b.ops() == ["group_norm", "conv2d"]


def test_a_concat_is_read_where_its_parts_lie():
    b = Build()
    both = b.graph.add("concat", [b.x, b.r])
    short = b.graph.add("conv2d", [both, b.weight("s", 8, 16)], kernel=1)
    b.out("add", b.conv(b.norm(both)), short)
    table, first, last = b.nodes()
    assert [table.op, first.op, last.op] == ["group_table", "conv2d", "conv2d"]
    assert names(table)["skip"] == names(first)["skip"] == names(last)["skip"] == "r"
    assert names(last)["residual"] == first.output.name


def test_a_concat_that_something_else_reads_stays():
    b = Build()
    both = b.graph.add("concat", [b.x, b.r])
    b.graph.add("scale", [both], factor=1.0)
    b.end(b.conv(both))
    assert "concat" in b.ops()


def test_the_time_embedding_goes_into_the_convolution():
    b = Build()
    shift = b.graph.value("t", matrix(2, 8), Role.INPUT)
    b.end(b.graph.add("add_shift", [b.conv(b.x), shift]))
    assert names(b.nodes()[0])["shift"] == "t"


def test_a_residual_and_then_an_activation_end_a_convolution():
    b = Build()
    b.out("relu", b.graph.add("add", [b.conv(b.x), b.r]))
    (conv,) = b.nodes()
    assert (names(conv)["residual"], conv.attrs["act"], conv.output.name) == ("r", "relu", "y")


def test_nothing_is_added_after_an_activation():
    b = Build()
    b.out("add", b.conv(b.x, act="relu"), b.r)
    assert b.ops() == ["conv2d", "add"]


def test_no_convolution_binds_more_than_every_device_can():
    b = Build()
    shift = b.graph.value("t", matrix(2, 8), Role.INPUT)
    bias = b.graph.value("bias", vector(8), Role.WEIGHT)
    normed = b.norm(b.graph.add("concat", [b.x, b.r]))
    given = {"x": normed, "weight": b.weight("w", 8, 144), "bias": bias, "shift": shift}
    conv = b.graph.add("conv2d", given, kernel=3, padding=1)
    b.out("add", conv, b.x)
    for node in b.nodes():
        assert node.op != "conv2d" or len(node.inputs) + 2 <= 8


@pytest.mark.parametrize(
    "name", ["concat_into_readers", "group_norm_into_conv", "residual_into_conv"]
)
def test_each_can_be_switched_off_and_runs_once_for_all(name: str):
    b = Build()
    both = b.graph.add("concat", [b.x, b.r])
    b.out("add", b.conv(b.norm(both)), b.x)
    fused = fuse(b.graph)
    assert [n.op for n in fuse(fused).nodes] == [n.op for n in fused.nodes]
    assert b.ops(without={name}) != [n.op for n in fused.nodes]
