"""Ops: the shape that each makes, and the sentence with which each refuses a wrong call."""

from typing import Any

import pytest

from engine.graph.expression import Expression, Step
from engine.graph.graph import Graph, GraphError, Role, Value
from engine.graph.ops import OPS, expression_of, mutated
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix, vector
from engine.tensor.weights import WeightDesc

HEADS = {"heads": 4, "kv_heads": 2, "head_dim": 8}
ROPE = {**HEADS, "rope_dim": 8, "mode": "neox"}
ATTENTION = {**HEADS, "scale": 0.35, "sequence_max": 64}


def weight(rows: int, cols: int) -> WeightDesc:
    return WeightDesc(rows, cols, "f16", cols // 2, 0, (rows,))


VALUES: dict[str, tuple[TensorDesc | WeightDesc, Role]] = {
    "x": (matrix(3, 32), Role.INPUT),
    "x1": (matrix(1, 32), Role.INPUT),
    "x64": (matrix(3, 64), Role.INPUT),
    "x33": (matrix(3, 33), Role.INPUT),
    "image": (TensorDesc(Shape(h=4, w=5, c=32)), Role.INPUT),
    "ids": (vector(3, DType.U32), Role.INPUT),
    "gain": (vector(32), Role.WEIGHT),
    "gain8": (vector(8), Role.WEIGHT),
    "bias64": (vector(64), Role.WEIGHT),
    "w64": (weight(64, 32), Role.WEIGHT),
    "w33": (weight(33, 32), Role.WEIGHT),
    "state": (vector(16, DType.U32), Role.STATE),
    "history": (vector(64, DType.U32), Role.STATE),
    "params": (vector(16), Role.INPUT),
    "k": (matrix(64, 16, DType.F16), Role.CACHE),
    "v": (matrix(64, 16, DType.F16), Role.CACHE),
    "freqs": (vector(4), Role.WEIGHT),
}


def apply(op: str, inputs: str, **attrs: Any) -> Value:
    """Apply an op to values of VALUES by name."""
    graph = Graph()
    names = inputs.split()
    known = {name: graph.value(name, *VALUES[name]) for name in dict.fromkeys(names)}
    return graph.add(op, [known[name] for name in names], **attrs)


def linear(inputs: str, **attrs: Any) -> Value:
    """A linear whose inputs are given as part=name."""
    pairs = [pair.split("=") for pair in inputs.split()]
    graph = Graph()
    known = {name: graph.value(name, *VALUES[name]) for name in {name for _, name in pairs}}
    return graph.add("linear", {part: known[name] for part, name in pairs}, **attrs)


FUSED = "x=x weight=w64 gain=gain residual=x64 bias=bias64"
EXPRESSION = Expression(2, (Step("add", (0, 1)),))


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (lambda: apply("embedding", "ids w64"), (3, 32)),
        (lambda: apply("embedding", "state w64", output=matrix(1, 32), scale=2.0), (1, 32)),
        (lambda: apply("rms_norm", "x gain", eps=1e-6), (3, 32)),
        (lambda: apply("linear", "x w64"), (3, 64)),
        (lambda: apply("linear", "x w64 bias64"), (3, 64)),
        (lambda: linear(FUSED, norm_eps=1e-5), (3, 64)),
        (lambda: linear("x=x weight=w64 residual=x", gated="silu"), (3, 32)),
        (lambda: apply("gated", "x64", act="gelu_tanh"), (3, 32)),
        (lambda: apply("add", "x x"), (3, 32)),
        (lambda: apply("scale", "x", factor=2), (3, 32)),
        (lambda: apply("softcap", "x", cap=30.0), (3, 32)),
        (lambda: apply("elementwise", "x x", expression=EXPRESSION), (3, 32)),
        (lambda: apply("rope_cache", "x64 k v freqs state", **ROPE), (3, 32)),
        (lambda: apply("rope_cache", "x64 k v freqs state gain8 gain8", **ROPE), (3, 32)),
        (lambda: apply("attention", "x k v state", **ATTENTION), (3, 32)),
        (lambda: apply("attention", "x k v state", window=4, softcap=5.0, **ATTENTION), (3, 32)),
        (lambda: apply("last_row", "x state"), (1, 32)),
    ],
)
def test_shapes(made, shape: tuple[int, int]):
    assert made().desc.shape == Shape(w=shape[0], c=shape[1])


def test_rows_may_be_spread_over_the_axes_of_an_image():
    assert apply("linear", "image w64").tensor.shape == Shape(h=4, w=5, c=64)


def test_sample_makes_nothing_and_changes_state_and_history():
    graph = Graph()
    values = [graph.value(n, *VALUES[n]) for n in ("x1", "history", "params", "state")]
    assert graph.add("sample", values, outputs=[]) == ()
    assert mutated(graph.nodes[0]) == (values[1], values[3])


def test_defaults_are_filled_in():
    graph = Graph()
    x, w = (graph.value(n, *VALUES[n]) for n in ("x", "w64"))
    graph.add("linear", [x, w])
    assert dict(graph.nodes[0].attrs) == {
        "inputs": ("x", "weight"),
        "norm_eps": None,
        "gated": None,
        "wide": False,
    }


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: apply("conv", "x"), 'no op "conv"; known ops: add'),
        (lambda: apply("add", "x"), "add takes a, b; got 1 input"),
        (lambda: apply("add", "x x x"), "add takes a, b; got 3 input"),
        (lambda: apply("elementwise", "", expression=EXPRESSION), "at least one input"),
        (lambda: linear("x=x weight=w64 bia=bias64"), "may have bias.*named x, weight, bia"),
        (lambda: linear("x=x gain=gain"), "linear takes x, weight"),
        (lambda: apply("linear", "x w64", gate="silu"), "no attribute gate"),
        (lambda: apply("rms_norm", "x gain"), "the attribute eps is missing"),
        (lambda: apply("embedding", "x w64"), "tokens must hold u32 or i32, not f32"),
        (
            lambda: apply("embedding", "ids w64", output=matrix(4, 32)),
            "4 rows are asked for, and there are only 3 tokens",
        ),
        (lambda: apply("rms_norm", "x gain8", eps=1e-5), "gain has 8 elements where 32"),
        (lambda: apply("rms_norm", "x gain", eps=0.0), "eps must be a positive number, not 0"),
        (lambda: apply("rms_norm", "ids gain", eps=1e-5), "x must hold f32 or f16, not u32"),
        (lambda: apply("linear", "x64 w64"), "x has 64 channels and the weight has 32 columns"),
        (lambda: apply("linear", "x x"), "weight must be a packed weight"),
        (lambda: apply("linear", "w64 w64"), "x must be a plain tensor"),
        (lambda: apply("linear", "x w64 gain"), "bias has 32 elements where 64"),
        (lambda: linear("x=x weight=w64 gain=gain"), "needs both the input gain and the attr"),
        (lambda: apply("linear", "x w64", norm_eps=1e-5), "needs both the input gain and the"),
        (lambda: apply("linear", "x w33", gated="silu"), "33 rows, which is no gate and up pair"),
        (
            lambda: apply("linear", "x w64", gated="relu"),
            "one of silu, gelu_tanh, gelu, not 'relu'",
        ),
        (
            lambda: linear("x=x weight=w64 residual=x"),
            r"linear\(x=x, weight=w64, residual=x\): residual is \[3, 32\], and y is \[3, 64\]",
        ),
        (lambda: apply("gated", "x33", act="silu"), "x has 33 channels, which is no gate"),
        (lambda: apply("add", "x x64"), r"a is \[3, 32\] and b is \[3, 64\]"),
        (lambda: apply("scale", "x", factor="2"), "factor must be a number, not '2'"),
        (lambda: apply("scale", "x", factor=float("inf")), "factor must be a finite number"),
        (lambda: apply("softcap", "x", cap=-1.0), "cap must be a positive number"),
        (lambda: apply("elementwise", "x", expression=EXPRESSION), "an Expression of 1 inputs"),
        (lambda: apply("rope_cache", "x k v freqs state", **ROPE), "qkv has 32 channels; 4 "),
        (lambda: apply("rope_cache", "x64 x v freqs state", **ROPE), "k_cache has the role input"),
        (lambda: apply("rope_cache", "x64 k v freqs x", **ROPE), "state has the role input"),
        (
            lambda: apply("rope_cache", "x64 k v freqs state", **{**ROPE, "rope_dim": 10}),
            "rope_dim must be even and at most 8, not 10",
        ),
        (
            lambda: apply("rope_cache", "x64 k v freqs state gain gain", **ROPE),
            "q_gain has 32 elements where 8",
        ),
        (
            lambda: apply("attention", "x k v state", **{**ATTENTION, "kv_heads": 3}),
            "4 heads cannot share 3 key and value heads",
        ),
        (
            lambda: apply("attention", "x k v state", **{**ATTENTION, "heads": True}),
            "heads must be a whole number of at least 1, not True",
        ),
        (lambda: apply("attention", "x64 k v state", **ATTENTION), "q has 64 channels; 4 heads"),
        (lambda: apply("attention", "x k v state", window=0, **ATTENTION), "window must be"),
        (lambda: apply("last_row", "x x"), "state has the role input, not state"),
        (lambda: apply("sample", "x history params state"), "must be one row, not 3; use last_row"),
        (lambda: apply("sample", "x1 history params state"), "makes 0 outputs: pass outputs"),
    ],
)
def test_a_wrong_call_is_refused_in_a_sentence(made, sentence: str):
    with pytest.raises(GraphError, match=sentence):
        made()


def test_every_elementwise_op_has_an_expression_and_others_have_none():
    graph = Graph()
    x, gain = (graph.value(n, *VALUES[n]) for n in ("x", "gain"))
    graph.add("softcap", [x], cap=30)
    graph.add("rms_norm", [x, gain], eps=1e-5)
    assert expression_of(graph.nodes[0]) == Expression(1, (Step("softcap", (0,), 30.0),))
    assert expression_of(graph.nodes[1]) is None


def test_what_an_op_changes_is_among_its_inputs():
    for op, spec in OPS.items():
        assert set(spec.mutates) <= {*spec.required, *spec.optional}, op


def test_concat_joins_channels():
    assert apply("concat", "x x64 x33").tensor.shape == Shape(w=3, c=32 + 64 + 33)
    with pytest.raises(GraphError, match=r"concat\(in0=x, in1=x1\): its inputs must have the same"):
        apply("concat", "x x1")
