"""Expressions: elementwise arithmetic as data, and as WGSL statements."""

import pytest

from engine.graph.expression import ARITHMETIC, Expression, Step, expression_text, wgsl_lines

ADD_SILU = Expression(2, (Step("add", (0, 1)), Step("silu", (2,))))


def test_wgsl_has_one_statement_a_step():
    expression = Expression(2, (Step("add", (0, 1)), Step("scale", (2,), 0.5)))
    assert wgsl_lines(expression, ["a", "b"]) == [
        "let e0 = a + b;",
        "let e1 = e0 * vec4<f32>(0.5);",
    ]


def test_wgsl_for_another_type_and_prefix():
    lines = wgsl_lines(Expression(1, (Step("softcap", (0,), 30.0),)), ["x"], "f32", "t")
    assert lines == ["let t0 = f32(30.0) * tanh(clamp(x / f32(30.0), f32(-15.0), f32(15.0)));"]


@pytest.mark.parametrize("op", ARITHMETIC)
def test_every_op_has_wgsl_without_holes(op: str):
    kind = ARITHMETIC[op]
    constant = 2.0 if kind.constant else None
    line = wgsl_lines(Expression(2, (Step(op, (0, 1)[: kind.operands], constant),)), ["a", "b"])[0]
    assert "{" not in line
    assert line.count("(") == line.count(")")


def test_text_for_a_listing():
    assert expression_text(ADD_SILU, ["x", "y"]) == "e0 = add(x, y); e1 = silu(e0)"


def test_merging_computes_an_input_by_another_expression():
    outer = Expression(2, (Step("mul", (0, 1)),))  # p * q, with p = silu(a + b)
    merged = outer.merged([None, 0], ADD_SILU, [1, 2], 3)
    assert expression_text(merged, ["q", "a", "b"]) == (
        "e0 = add(a, b); e1 = silu(e0); e2 = mul(e1, q)"
    )


def test_merging_into_both_operands():
    square = Expression(2, (Step("mul", (0, 1)),))
    merged = square.merged([None, None], ADD_SILU, [0, 1], 2)
    assert expression_text(merged, ["a", "b"]).endswith("e2 = mul(e1, e1)")


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: Step("sin", (0,)), "no elementwise op 'sin'"),
        (lambda: Step("add", (0,)), r"takes 2 operand\(s\), not 1"),
        (lambda: Step("scale", (0,)), "has the constant factor; got None"),
        (lambda: Step("add", (0, 1), 2.0), "has the constant None; got 2.0"),
        (lambda: Step("scale", (0,), float("nan")), "must be finite"),
        (lambda: Expression(0, (Step("silu", (0,)),)), "at least one input and one step"),
        (lambda: Expression(1, ()), "at least one input and one step"),
        (lambda: Expression(1, (Step("silu", (1,)),)), "before they exist"),
        (lambda: wgsl_lines(ADD_SILU, ["a"]), "has 2 inputs, not 1"),
    ],
)
def test_nonsense_is_refused(made, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        made()
