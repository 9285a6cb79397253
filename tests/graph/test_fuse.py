"""Fusion: each rewrite by example, and that none of them changes what a graph computes."""

import numpy as np
import pytest

from engine.graph.expression import expression_text
from engine.graph.fuse import MAX_ELEMENTWISE_INPUTS, REWRITES, fuse
from engine.graph.fuse_image import IMAGE_REWRITES
from engine.graph.graph import Graph, GraphError, Role, Value
from engine.tensor.descriptor import DType, matrix, vector
from engine.tensor.weights import WeightDesc


class Build:
    """A graph under test: inputs x and r of 8 channels, an output y."""

    def __init__(self, rows: int = 1, channels: int = 8) -> None:
        self.graph = Graph("test")
        self.x = self.graph.value("x", matrix(rows, channels), Role.INPUT)
        self.r = self.graph.value("r", matrix(rows, channels), Role.INPUT)
        self.gain = self.graph.value("gain", vector(channels), Role.WEIGHT)
        self.rows = rows

    def weight(self, name: str, rows: int = 8, cols: int = 8, parts: tuple[int, ...] = ()) -> Value:
        desc = WeightDesc(rows, cols, "q4_0", 4, 1, parts or (rows,))
        return self.graph.value(name, desc, Role.WEIGHT)

    def linear(self, x: Value, name: str = "w", rows: int = 8) -> Value:
        return self.graph.add("linear", [x, self.weight(name, rows)])

    def norm(self, x: Value) -> Value:
        return self.graph.add("rms_norm", [x, self.gain], eps=1e-5)

    def out(self, op: str, *inputs: Value, name: str = "y", channels: int = 8, **attrs) -> Value:
        y = self.graph.value(name, matrix(self.rows, channels), Role.OUTPUT)
        self.graph.add(op, inputs, outputs=[y], **attrs)
        return y

    def ops(self, **options) -> list[str]:
        return [node.op for node in fuse(self.graph, **options).nodes]

    def parts(self, index: int = 0) -> dict[str, str]:
        node = fuse(self.graph).nodes[index]
        return {part: value.name for part, value in node.named.items()}


def test_a_gate_goes_into_the_linear_before_it():
    b = Build(rows=5)
    b.out("gated", b.linear(b.x, rows=16), act="silu")
    (node,) = fuse(b.graph).nodes
    assert (node.op, node.attrs["gated"], node.output.name) == ("linear", "silu", "y")


def test_a_gate_stays_when_the_weight_is_cut_into_parts():
    b = Build()
    w = b.weight("w", 16, parts=(12, 4))
    b.out("gated", b.graph.add("linear", [b.x, w]), act="silu")
    assert b.ops() == ["linear", "gated"]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_residual_add_goes_into_the_linear_before_it(swapped: bool):
    b = Build(rows=5)
    pair = (b.linear(b.x), b.r)
    b.out("add", *(pair[::-1] if swapped else pair))
    assert b.ops() == ["linear"]
    assert b.parts() == {"x": "x", "weight": "w", "residual": "r"}


def test_a_sum_of_two_linears_becomes_one_with_the_other_as_residual():
    b = Build()
    first, second = b.linear(b.x, "w1"), b.linear(b.x, "w2")
    b.out("add", first, second)
    assert b.ops() == ["linear", "linear"]
    assert b.parts(1)["residual"] == first.name


def test_a_linear_takes_one_residual_only():
    b = Build()
    once = b.graph.add("add", [b.linear(b.x), b.r])
    b.out("add", once, b.x)
    assert b.ops() == ["linear", "add"]


def test_a_linear_added_to_itself_stays():
    b = Build()
    y = b.linear(b.x)
    b.out("add", y, y)
    assert b.ops() == ["linear", "add"]


def test_a_gated_linear_takes_no_residual():
    b = Build()
    b.out("add", b.graph.add("gated", [b.linear(b.x, rows=16)], act="silu"), b.r)
    assert b.ops() == ["linear", "add"]


def test_a_norm_of_one_row_goes_into_the_linear_after_it():
    b = Build()
    b.out("linear", b.norm(b.x), b.weight("w"))
    (node,) = fuse(b.graph).nodes
    assert node.attrs["norm_eps"] == 1e-5
    assert b.parts() == {"x": "x", "weight": "w", "gain": "gain"}


def test_a_norm_goes_into_all_its_linears():
    b = Build()
    h = b.norm(b.x)
    b.out("linear", h, b.weight("w1"), name="y1")
    b.out("linear", h, b.weight("w2"), name="y2")
    assert b.ops() == ["linear", "linear"]


def test_a_norm_that_something_else_reads_stays():
    b = Build()
    h = b.norm(b.x)
    b.out("linear", h, b.weight("w"), name="y1")
    b.out("silu", h, name="y2")
    assert b.ops() == ["rms_norm", "linear", "silu"]


def test_a_norm_that_is_also_the_residual_stays():
    b = Build()
    h = b.norm(b.x)
    b.out("add", b.linear(h), h)
    assert b.ops() == ["rms_norm", "linear"]


def test_a_norm_of_many_rows_stays():
    b = Build(rows=2)
    b.out("linear", b.norm(b.x), b.weight("w"))
    assert b.ops() == ["rms_norm", "linear"]


def test_norm_gate_and_residual_meet_in_one_order_of_inputs():
    b = Build()
    b.out("add", b.linear(b.norm(b.x)), b.r)
    assert list(b.parts()) == ["x", "weight", "gain", "residual"]


def test_an_elementwise_chain_becomes_one_node():
    b = Build(rows=3)
    scaled = b.graph.add("scale", [b.x], factor=0.5)
    b.out("mul", b.graph.add("silu", [scaled]), b.r)
    (node,) = fuse(b.graph).nodes
    text = expression_text(node.attrs["expression"], [v.name for v in node.inputs])
    assert text == "e0 = scale(x, 0.5); e1 = silu(e0); e2 = mul(e1, r)"


def test_two_branches_become_one_node_that_reads_each_input_once():
    b = Build()
    left, right = b.graph.add("silu", [b.x]), b.graph.add("add", [b.x, b.r])
    b.out("mul", left, right)
    (node,) = fuse(b.graph).nodes
    assert (node.op, [v.name for v in node.inputs]) == ("elementwise", ["x", "r"])


def test_a_value_used_twice_by_one_node_is_computed_once():
    b = Build()
    h = b.graph.add("silu", [b.x])
    b.out("mul", h, h)
    (node,) = fuse(b.graph).nodes
    text = expression_text(node.attrs["expression"], ["x"])
    assert text == "e0 = silu(x); e1 = mul(e0, e0)"


def test_a_single_elementwise_op_stays_as_it_is():
    b = Build()
    b.out("mul", b.x, b.r)
    assert b.ops() == ["mul"]


def test_a_value_that_others_read_is_not_fused_away():
    b = Build()
    h = b.graph.add("silu", [b.x])
    b.out("mul", h, b.r, name="y1")
    b.out("add", h, b.r, name="y2")
    assert b.ops() == ["silu", "mul", "add"]


def test_an_output_of_the_graph_is_not_fused_away():
    b = Build()
    h = b.out("silu", b.x, name="seen")
    b.out("mul", h, b.r)
    assert b.ops() == ["silu", "mul"]


def test_an_elementwise_node_reads_no_more_than_a_device_binds():
    b = Build()
    names = [f"t{i}" for i in range(2 * MAX_ELEMENTWISE_INPUTS)]
    total = b.x
    for name in names:
        total = b.graph.add("add", [total, b.graph.value(name, matrix(1, 8), Role.INPUT)])
    b.out("silu", total)
    nodes = fuse(b.graph).nodes
    assert 2 <= len(nodes) <= 4
    assert max(len(node.inputs) for node in nodes) <= MAX_ELEMENTWISE_INPUTS


def test_a_node_does_not_move_past_one_that_changes_what_it_reads():
    b = Build()
    g = b.graph
    state = g.value("state", vector(8), Role.STATE)
    history = g.value("history", vector(8, DType.U32), Role.STATE)
    h = g.add("silu", [state])
    g.add("sample", [b.x, history, b.r, state], outputs=[])
    g.add("scale", [h], outputs=[g.value("y", vector(8), Role.OUTPUT)], factor=2.0)
    assert b.ops() == ["silu", "sample", "scale"]


def chain_of_all() -> Build:
    b = Build()
    gated = b.graph.add("gated", [b.linear(b.norm(b.x), "up", rows=16)], act="silu")
    down = b.graph.add("add", [b.linear(gated, "down"), b.r])
    b.out("softcap", b.graph.add("scale", [down], factor=2.0), cap=5.0)
    return b


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("gated_into_linear", "linear gated linear elementwise"),
        ("residual_into_linear", "linear linear elementwise"),
        ("norm_into_linear", "rms_norm linear linear elementwise"),
        ("elementwise_chain", "linear linear scale softcap"),
    ],
)
def test_each_rewrite_can_be_switched_off(name: str, ops: str):
    assert " ".join(chain_of_all().ops(without=[name])) == ops


def test_all_rewrites_can_be_switched_off():
    b = chain_of_all()
    assert fuse(b.graph, without=REWRITES).nodes == b.graph.nodes


def test_an_unknown_rewrite_is_refused():
    with pytest.raises(GraphError, match='no rewrite "norm"; known rewrites: gated_into_linear'):
        fuse(chain_of_all().graph, without=["norm"])


def test_the_original_graph_is_untouched_and_values_are_shared():
    b = chain_of_all()
    before = b.graph.nodes
    fused = fuse(b.graph)
    assert b.graph.nodes == before
    assert fused.find("y") is b.graph.find("y")
    assert fused.values(Role.WEIGHT) == b.graph.values(Role.WEIGHT)


def test_a_llama_layer_takes_five_nodes_in_decode_and_eight_in_prefill(llama):
    assert len(fuse(llama(1, layers=30)).nodes) == 1 + 30 * 5 + 2
    assert len(fuse(llama(64, layers=30)).nodes) == 1 + 30 * 8 + 3


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("seed", range(40))
def test_fusion_keeps_the_meaning(seed: int, rows: int, random_graph, numbers, interpret):
    graph = random_graph(seed, rows)
    fused = fuse(graph)
    arrays = numbers(graph)
    want, have = interpret(graph, arrays), interpret(fused, arrays)
    assert want.keys() == have.keys()
    for name in want:
        np.testing.assert_allclose(have[name], want[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", REWRITES)
def test_each_rewrite_alone_keeps_the_meaning(name: str, random_graph, numbers, interpret):
    for seed in range(100, 110):
        graph = random_graph(seed)
        arrays = numbers(graph)
        want, have = interpret(graph, arrays), interpret(REWRITES[name](graph), arrays)
        for output in want:
            np.testing.assert_allclose(have[output], want[output], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("seed", range(40))
def test_fusion_is_idempotent_and_never_adds_nodes(seed: int, rows: int, random_graph):
    graph = random_graph(seed, rows)
    once = fuse(graph)
    assert len(once.nodes) <= len(graph.nodes)
    assert fuse(once).nodes == once.nodes  # nodes compare by identity: not one was made anew


def test_the_random_graphs_exercise_every_rewrite(random_graph):
    for name, rewrite in REWRITES.items():
        if name in IMAGE_REWRITES or name == "rope_into_attention":
            continue
        graphs = [random_graph(seed) for seed in range(40)]
        assert any(len(rewrite(g).nodes) < len(g.nodes) for g in graphs), name
