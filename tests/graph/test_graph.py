"""Graphs: values are declared, written once, and read after they are written."""

import pytest

from engine.graph.graph import Graph, GraphError, Node, Role, Value, consumers
from engine.tensor.descriptor import DType, matrix, vector
from engine.tensor.weights import WeightDesc

ROW = matrix(2, 8)


def graph_with(*names: str) -> tuple[Graph, list[Value]]:
    graph = Graph("test")
    return graph, [graph.value(name, ROW, Role.INPUT) for name in names]


def test_an_output_is_a_new_activation_of_the_inferred_shape():
    graph, (a, b) = graph_with("a", "b")
    y = graph.add("add", [a, b])
    assert (y.desc, y.role) == (ROW, Role.ACTIVATION)
    assert graph.producer(y) is graph.nodes[0]
    assert graph.producer(a) is None


def test_the_element_type_of_an_output_can_be_chosen():
    graph, (a, b) = graph_with("a", "b")
    half = matrix(2, 8, DType.F16)
    assert graph.add("add", [a, b], half, name="y").desc == half
    assert graph.find("y").nbytes == 32


def test_a_node_can_write_declared_values():
    graph, (a, b) = graph_with("a", "b")
    y = graph.value("y", ROW, Role.OUTPUT)
    assert graph.add("add", [a, b], outputs=[y]) == (y,)
    graph.check()


def test_inputs_are_named_by_the_part_they_play():
    graph, (a, b) = graph_with("a", "b")
    graph.add("mul", [a, b])
    assert graph.nodes[0].named == {"a": a, "b": b}
    assert graph.nodes[0].attrs["inputs"] == ("a", "b")


def test_values_are_listed_by_role():
    graph, (a, b) = graph_with("a", "b")
    y = graph.add("add", [a, b])
    assert graph.values() == (a, b, y)
    assert graph.values(Role.ACTIVATION) == (y,)


def test_two_values_are_the_same_only_if_they_are_one_object():
    assert Value("a", ROW, Role.INPUT) != Value("a", ROW, Role.INPUT)


def test_attributes_cannot_change():
    node = Node("add", (), (), {"x": 1})
    with pytest.raises(TypeError):
        node.attrs["x"] = 2  # type: ignore[index]


def test_graphs_share_weights_with_use():
    _, (a, _) = graph_with("a", "b")
    other = Graph("other")
    assert other.use(a) is a
    assert other.use(a) is a
    assert other.add("silu", [a]).desc == ROW


def test_consumers_lists_each_reader_once():
    graph, (a, b) = graph_with("a", "b")
    y = graph.add("mul", [a, a])
    graph.add("add", [y, a])
    assert consumers(graph.nodes) == {a: (0, 1), y: (1,)}
    assert b not in consumers(graph.nodes)


def test_rebuilding_drops_the_activations_that_nobody_writes():
    graph, (a, b) = graph_with("a", "b")
    x = graph.add("add", [a, b])
    y = graph.value("y", ROW, Role.OUTPUT)
    graph.add("silu", [x], outputs=[y])
    rebuilt = graph.rebuilt([Node("add", (a, b), (y,))])
    assert rebuilt.values() == (a, b, y)
    assert [node.op for node in graph.nodes] == ["add", "silu"]  # the original is untouched


def refused(sentence: str):
    return pytest.raises(GraphError, match=sentence)


def test_a_name_cannot_be_declared_twice():
    graph, (a, b) = graph_with("a", "b")
    with refused('already has a value "a"'):
        graph.value("a", ROW, Role.INPUT)
    with refused('already has a value "b"'):
        graph.add("add", [a, b], name="b")


def test_a_value_of_another_graph_must_be_taken_in():
    graph, _ = graph_with("a")
    with refused(r'"b", which is no value of the graph "test"; take it in with use\(\)'):
        graph.add("silu", [Value("b", ROW, Role.INPUT)])


def test_a_value_cannot_be_read_before_it_is_written():
    graph, _ = graph_with("a")
    y = graph.value("y", ROW, Role.ACTIVATION)
    with refused('reads "y" before any node has written it'):
        graph.add("silu", [y])


def test_a_value_cannot_be_written_twice():
    graph, (a,) = graph_with("a")
    y = graph.add("silu", [a])
    with refused('writes "y|silu.0", which is already written'):
        graph.add("silu", [a], outputs=[y])


@pytest.mark.parametrize("role", [Role.INPUT, Role.CACHE, Role.STATE])
def test_only_activations_and_outputs_are_written(role: Role):
    graph, (a,) = graph_with("a")
    y = graph.value("y", ROW, role)
    with refused(f'cannot write "y": it has the role {role.value}'):
        graph.add("silu", [a], outputs=[y])


def test_an_output_that_no_node_writes_is_found():
    graph, _ = graph_with("a")
    graph.value("y", ROW, Role.OUTPUT)
    with refused('No node of the graph "test" writes the output "y"'):
        graph.check()


def test_an_output_of_another_shape_is_refused():
    graph, (a, b) = graph_with("a", "b")
    with refused(r"add\(a=a, b=b\): makes \[2, 8\], and the output is \[2, 9\]"):
        graph.add("add", [a, b], matrix(2, 9))


def test_packed_weights_have_the_role_weight():
    with refused("has the role input; packed weights have the role weight"):
        Value("w", WeightDesc(8, 8, "f16", 16, 0, (8,)), Role.INPUT)


def test_the_two_kinds_of_description_are_not_mixed_up():
    weight = Value("w", WeightDesc(8, 8, "f16", 16, 0, (8,)), Role.WEIGHT)
    with refused('"w" is a packed weight where a plain tensor is needed'):
        _ = weight.tensor
    with refused('"v" is a plain tensor where a packed weight is needed'):
        _ = Value("v", vector(8), Role.WEIGHT).weight


def test_an_unknown_value_or_a_missing_name_is_refused():
    graph, _ = graph_with("a")
    with refused('has no value "z"'):
        graph.find("z")
    with refused("needs a name"):
        Value("", ROW, Role.INPUT)


def test_the_llama_graphs_are_right(llama):
    assert len(llama(1, layers=30).nodes) == 1 + 30 * 11 + 3
    assert len(llama(512, layers=30).nodes) == 1 + 30 * 11 + 4
