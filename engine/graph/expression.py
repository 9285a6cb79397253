"""Elementwise arithmetic as data: what one elementwise kernel computes for one element.

An :class:`Expression` is a list of steps over numbered operands: 0 .. inputs-1 are the inputs of
the node, inputs + i is the result of step i, and the last step is the result. It is independent of
layout and vector width, so a kernel generator loads the inputs, pastes :func:`wgsl_lines`, and
stores the last name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Arithmetic:
    """One elementwise op: its operands, the node attribute that is its constant, and its WGSL.

    In ``wgsl`` {a} and {b} are operands, {v} the constant, {t} the WGSL type. Arguments of exp and
    tanh are clamped: drivers compile with fast math, where an overflow may become NaN.
    """

    operands: int
    wgsl: str
    constant: str | None = None


# WGSL has no error function. 1 - erf(z), z = |a| / sqrt(2), is t * polynomial(t) * exp(-z * z) with
# t = 1 / (1 + 0.3275911 z), to within 1.5e-7 (Abramowitz and Stegun 7.1.26).
_T = "({t}(1.0) / ({t}(1.0) + {t}(0.23164189) * abs({a})))"
_ERFC_TERMS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def _erfc_of_half_square() -> str:
    text = f"{{t}}({_ERFC_TERMS[0]})"
    for term in _ERFC_TERMS[1:]:
        text = f"({text} * {_T} + {{t}}({term}))"
    return f"{text} * {_T} * exp(max({{a}} * {{a}} * {{t}}(-0.5), {{t}}(-80.0)))"


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
    "gelu": Arithmetic(
        1, f"max({{a}}, {{t}}(0.0)) - {{t}}(0.5) * abs({{a}}) * {_erfc_of_half_square()}"
    ),
    "quick_gelu": Arithmetic(
        1, "{a} / ({t}(1.0) + exp(clamp({a} * {t}(-1.702), {t}(-80.0), {t}(80.0))))"
    ),
    "relu": Arithmetic(1, "max({a}, {t}(0.0))"),
}

#: The ops that a kernel may apply to what it reads or writes.
ACTIVATIONS = tuple(
    op for op, kind in ARITHMETIC.items() if kind.operands == 1 and kind.constant is None
)


def activation(op: str, operand: str, wgsl_type: str = "vec4<f32>") -> str:
    """The WGSL expression of an activation of a plain identifier."""
    return ARITHMETIC[op].wgsl.format(a=operand, t=wgsl_type)


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

    def renumbered(self, to: Sequence[int]) -> Step:
        """The same step with operand i called ``to[i]``."""
        return replace(self, args=tuple(to[arg] for arg in self.args))


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
        self, outer_at: Sequence[int | None], inner: Expression, inner_at: Sequence[int], count: int
    ) -> Expression:
        """This expression with some inputs computed by ``inner``, over ``count`` inputs in all.

        ``outer_at[i]`` is the new number of this expression's input i, or None where ``inner``
        computes it; ``inner_at[i]`` the new number of input i of ``inner``.
        """
        done = count + len(inner.steps)  # operands before this expression's own steps
        inner_map = [*inner_at, *range(count, done)]
        outer_map = [done - 1 if at is None else at for at in outer_at]
        outer_map += range(done, done + len(self.steps))
        return Expression(
            count,
            (
                *(step.renumbered(inner_map) for step in inner.steps),
                *(step.renumbered(outer_map) for step in self.steps),
            ),
        )


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
