"""Elementwise arithmetic as data: what one elementwise kernel computes for one element.

An :class:`Expression` is a list of steps over numbered operands: 0 .. inputs-1 are the inputs of
the node, inputs + i is the result of step i, and the last step is the result. It is independent of
layout and vector width, so a kernel generator loads the inputs, pastes :func:`wgsl_lines`, and
stores the last name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arithmetic:
    """One elementwise op: its operands, the node attribute that is its constant, and its WGSL.

    In ``wgsl`` {a} and {b} are operands, {v} the constant, {t} the WGSL type. Arguments of exp and
    tanh are clamped: drivers compile with fast math, where an overflow may become NaN.
    """

    operands: int
    wgsl: str
    constant: str | None = None


ARITHMETIC: dict[str, Arithmetic] = {
    "add": Arithmetic(2, "{a} + {b}"),
    "mul": Arithmetic(2, "{a} * {b}"),
    "scale": Arithmetic(1, "{a} * {v}", "factor"),
    "softcap": Arithmetic(1, "{v} * tanh(clamp({a} / {v}, {t}(-15.0), {t}(15.0)))", "cap"),
    "silu": Arithmetic(1, "{a} / ({t}(1.0) + exp(-clamp({a}, {t}(-80.0), {t}(80.0))))"),
    "gelu_tanh": Arithmetic(
        1,
        "{t}(0.5) * {a} * ({t}(1.0) + tanh(clamp({t}(0.7978845608) * {a} * "
        "({t}(1.0) + {t}(0.044715) * {a} * {a}), {t}(-15.0), {t}(15.0))))",
    ),
}


@dataclass(frozen=True)
class Step:
    """One operation on numbered operands; ``constant`` is its factor or cap, where it has one."""

    op: str
    args: tuple[int, ...]
    constant: float | None = None

    def __post_init__(self) -> None:
        kind = ARITHMETIC.get(self.op)
        if kind is None:
            raise ValueError(
                f"There is no elementwise op {self.op!r}; known: {sorted(ARITHMETIC)}."
            )
        if len(self.args) != kind.operands:
            raise ValueError(f"{self.op} takes {kind.operands} operand(s), not {len(self.args)}.")
        if (self.constant is None) != (kind.constant is None):
            raise ValueError(f"{self.op} has the constant {kind.constant}; got {self.constant}.")
        if self.constant is not None and not math.isfinite(self.constant):
            raise ValueError(f"The constant of {self.op} must be finite, not {self.constant}.")


@dataclass(frozen=True)
class Expression:
    """Steps over ``inputs`` operands; the last step is the result."""

    inputs: int
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if self.inputs < 1 or not self.steps:
            raise ValueError("An elementwise expression needs at least one input and one step.")
        for index, step in enumerate(self.steps):
            if not all(0 <= arg < self.inputs + index for arg in step.args):
                raise ValueError(f"Step {index} ({step.op}) uses {step.args} before they exist.")

    def merged(
        self, at: int, inner: Expression, inner_at: Sequence[int], inputs: int
    ) -> Expression:
        """This expression with its input ``at`` computed by ``inner``.

        The new operand numbers of the inputs: ``inner_at[i]`` for input i of ``inner``; the inputs
        of this expression keep their order, ``at`` left out. ``inputs`` counts them all.
        """
        count = len(inner.steps)
        inner_map = [*inner_at, *(inputs + i for i in range(count))]
        kept = iter(range(self.inputs - 1))
        outer_map = [inputs + count - 1 if i == at else next(kept) for i in range(self.inputs)]
        outer_map += [inputs + count + i for i in range(len(self.steps))]
        steps = [Step(s.op, tuple(inner_map[a] for a in s.args), s.constant) for s in inner.steps]
        steps += [Step(s.op, tuple(outer_map[a] for a in s.args), s.constant) for s in self.steps]
        return Expression(inputs, tuple(steps))


def wgsl_lines(
    expression: Expression, names: Sequence[str], wgsl_type: str = "vec4<f32>", prefix: str = "e"
) -> list[str]:
    """WGSL statements that compute the expression; the last one defines its result.

    ``names`` are the WGSL expressions of the loaded inputs (plain identifiers: they may be used
    more than once). Step i becomes ``let {prefix}{i} = ...;``. ``wgsl_type`` is f32 or a vector of
    it: the clamps are chosen for the range of f32.
    """
    if len(names) != expression.inputs:
        raise ValueError(f"The expression has {expression.inputs} inputs, not {len(names)}.")
    operands = list(names)
    lines: list[str] = []
    for index, step in enumerate(expression.steps):
        fields = dict(zip("ab", (operands[arg] for arg in step.args), strict=False))
        fields |= {"t": wgsl_type, "v": f"{wgsl_type}({step.constant!r})"}
        lines.append(f"let {prefix}{index} = {ARITHMETIC[step.op].wgsl.format(**fields)};")
        operands.append(f"{prefix}{index}")
    return lines


def expression_text(expression: Expression, names: Sequence[str]) -> str:
    """The expression as one readable line, for listings: ``e0 = add(x, y); e1 = silu(e0)``."""
    operands = list(names)
    parts: list[str] = []
    for index, step in enumerate(expression.steps):
        constant = [] if step.constant is None else [f"{step.constant:g}"]
        args = ", ".join([*(operands[arg] for arg in step.args), *constant])
        parts.append(f"e{index} = {step.op}({args})")
        operands.append(f"e{index}")
    return "; ".join(parts)
