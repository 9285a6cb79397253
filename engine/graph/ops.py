"""The op vocabulary: for each op its inputs, attributes, the shape it makes, and what it changes.

A new op is one entry of :data:`OPS`: the names of its inputs, its attributes, and a function from a
:class:`Call` to the descriptions of its outputs that refuses, in a sentence, what cannot be right.
Those for pictures are in :mod:`engine.graph.ops_image`.
Rows (tokens) are the product of the axes b, h, w; channels are c.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.graph.call import FLOATS, Call, Descs, OpSpec, like, rows, shape_text
from engine.graph.expression import ARITHMETIC, Expression, Step
from engine.graph.node import GraphError, Node, Role, Value
from engine.graph.ops_image import IMAGE_OPS
from engine.tensor.descriptor import DType, Shape, matrix

__all__ = ["FLOATS", "GATES", "OPS", "Call", "OpSpec", "rows", "shape_text"]

GATES = ("silu", "gelu_tanh", "gelu")


def _embedding(call: Call) -> Descs:
    tokens = call.tensor("tokens", (DType.U32, DType.I32)).shape.elements
    channels = call.weight("weight").cols
    call.number("scale")
    count = rows(call.given[0].shape) if call.given else tokens
    if count > tokens:
        call.fail(f"{count} rows are asked for, and there are only {tokens} tokens.")
    return (matrix(count, channels),)


def _rms_norm(call: Call) -> Descs:
    desc = call.tensor("x")
    call.vector("gain", desc.shape.c)
    call.number("eps", positive=True)
    return (desc,)


def _linear(call: Call) -> Descs:
    desc, weight = call.tensor("x"), call.weight("weight")
    if desc.shape.c != weight.cols:
        call.fail(f"x has {desc.shape.c} channels and the weight has {weight.cols} columns.")
    call.vector("bias", weight.rows)
    if ("gain" in call.named) != (call.attrs["norm_eps"] is not None):
        call.fail("a fused norm needs both the input gain and the attribute norm_eps.")
    if "gain" in call.named:
        call.vector("gain", weight.cols)
        call.number("norm_eps", positive=True)
    channels = weight.rows
    if call.attrs["gated"] is not None:
        call.choice("gated", GATES)
        channels = _half(call, channels, "the weight has {} rows")
    out = like(desc, channels)
    if "residual" in call.named:
        have = call.tensor("residual").shape
        if have != out.shape:
            call.fail(f"residual is {shape_text(have)}, and y is {shape_text(out.shape)}.")
    return (out,)


def _half(call: Call, channels: int, what: str) -> int:
    if channels % 2:
        call.fail(f"{what.format(channels)}, which is no gate and up pair of equal halves.")
    return channels // 2


def _gated(call: Call) -> Descs:
    desc = call.tensor("x")
    call.choice("act", GATES)
    return (like(desc, _half(call, desc.shape.c, "x has {} channels")),)


def _elementwise(call: Call) -> Descs:
    parts = list(call.named)
    first = call.tensor(parts[0])
    for part in parts[1:]:
        if call.tensor(part).shape != first.shape:
            call.fail(
                f"{parts[0]} is {shape_text(first.shape)} and {part} is "
                f"{shape_text(call.tensor(part).shape)}; elementwise inputs have one shape."
            )
    if call.op == "elementwise":
        expression = call.attrs["expression"]
        if not isinstance(expression, Expression) or expression.inputs != len(parts):
            call.fail(f"expression must be an Expression of {len(parts)} inputs.")
    elif (constant := ARITHMETIC[call.op].constant) is not None:
        call.number(constant, positive=constant == "cap")
    return (first,)


def _heads(call: Call) -> tuple[int, int, int]:
    heads, kv_heads, dim = call.whole("heads"), call.whole("kv_heads"), call.whole("head_dim")
    if heads % kv_heads:
        call.fail(f"{heads} heads cannot share {kv_heads} key and value heads evenly.")
    for part in ("k_cache", "v_cache"):
        call.role(part, Role.CACHE)
    call.role("state", Role.STATE)
    return heads, kv_heads, dim


def _rope_cache(call: Call) -> Descs:
    heads, kv_heads, dim = _heads(call)
    desc = call.tensor("qkv")
    if desc.shape.c != (heads + 2 * kv_heads) * dim:
        call.fail(
            f"qkv has {desc.shape.c} channels; {heads} + 2 x {kv_heads} heads of {dim} "
            f"make {(heads + 2 * kv_heads) * dim}."
        )
    if call.whole("rope_dim", least=0) > dim or call.whole("rope_dim", least=0) % 2:
        call.fail(f"rope_dim must be even and at most {dim}, not {call.attrs['rope_dim']}.")
    call.choice("mode", ("normal", "neox"))
    for part in ("q_gain", "k_gain"):
        call.vector(part, dim)
    return (like(desc, heads * dim),)


def _attention(call: Call) -> Descs:
    heads, _, dim = _heads(call)
    desc = call.tensor("q")
    if desc.shape.c != heads * dim:
        call.fail(f"q has {desc.shape.c} channels; {heads} heads of {dim} make {heads * dim}.")
    _attention_attrs(call)
    return (desc,)


def _attention_attrs(call: Call) -> None:
    call.number("scale")
    call.whole("sequence_max")
    if call.attrs["window"] is not None:
        call.whole("window")
    if call.attrs["softcap"] is not None:
        call.number("softcap", positive=True)


def _rope_attention(call: Call) -> Descs:
    made = _rope_cache(call)
    if rows(call.tensor("qkv").shape) != 1:
        call.fail("it is for one token; use rope_cache and attention for more.")
    _attention_attrs(call)
    return made


def _concat(call: Call) -> Descs:
    parts = [call.tensor(part) for part in call.named]
    if len({rows(desc.shape) for desc in parts}) != 1:
        call.fail("its inputs must have the same number of rows.")
    return (like(parts[0], sum(desc.shape.c for desc in parts)),)


def _last_row(call: Call) -> Descs:
    desc = call.tensor("x")
    call.role("state", Role.STATE)
    return (replace(desc, shape=Shape(c=desc.shape.c)),)


def _sample(call: Call) -> Descs:
    desc = call.tensor("logits")
    call.role("state", Role.STATE)
    if rows(desc.shape) != 1:
        call.fail(f"logits must be one row, not {rows(desc.shape)}; use last_row first.")
    return ()


def _arithmetic() -> Iterator[tuple[str, OpSpec]]:
    for op, kind in ARITHMETIC.items():
        attrs = () if kind.constant is None else (kind.constant,)
        parts = ("a", "b") if kind.operands == 2 else ("x",)
        yield op, OpSpec(_elementwise, parts, attrs=attrs)


OPS: dict[str, OpSpec] = {
    "embedding": OpSpec(
        _embedding, ("tokens", "weight"), defaults={"scale": 1.0, "token_offset": 0}
    ),
    "rms_norm": OpSpec(_rms_norm, ("x", "gain"), attrs=("eps",)),
    "linear": OpSpec(
        _linear,
        ("x", "weight"),
        optional=("bias", "gain", "residual"),
        # wide: x may hold numbers that 16-bit floats do not reach
        defaults={"norm_eps": None, "gated": None, "wide": False},
    ),
    "gated": OpSpec(_gated, ("x",), attrs=("act",), defaults={"gate_first": True}),
    **dict(_arithmetic()),
    "elementwise": OpSpec(_elementwise, attrs=("expression",), variadic=True),
    "rope_cache": OpSpec(
        _rope_cache,
        ("qkv", "k_cache", "v_cache", "rope_freqs", "state"),
        optional=("q_gain", "k_gain"),
        mutates=("k_cache", "v_cache"),
        attrs=("heads", "kv_heads", "head_dim", "rope_dim", "mode"),
        open_attrs=True,
    ),
    "attention": OpSpec(
        _attention,
        ("q", "k_cache", "v_cache", "state"),
        attrs=("heads", "kv_heads", "head_dim", "scale", "sequence_max"),
        defaults={"window": None, "softcap": None},
        open_attrs=True,
    ),
    "rope_attention": OpSpec(
        _rope_attention,
        ("qkv", "k_cache", "v_cache", "rope_freqs", "state"),
        optional=("q_gain", "k_gain"),
        mutates=("k_cache", "v_cache"),
        attrs=(
            *("heads", "kv_heads", "head_dim", "rope_dim", "mode"),
            *("scale", "sequence_max"),
        ),
        defaults={"window": None, "softcap": None},
        open_attrs=True,
    ),
    "concat": OpSpec(_concat, variadic=True),
    "last_row": OpSpec(_last_row, ("x", "state")),
    "sample": OpSpec(
        _sample,
        ("logits", "history", "params", "state"),
        optional=("stops", "ring"),
        mutates=("history", "state", "ring"),
        open_attrs=True,
    ),
    **IMAGE_OPS,
}


def input_names(op: str, count: int, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The part that each of ``count`` inputs plays; ``names`` are the caller's, or None for order.

    Raises GraphError for an unknown op, a missing, unknown or repeated part.
    """
    spec = OPS.get(op)
    if spec is None:
        raise GraphError(f'There is no op "{op}"; known ops: {", ".join(sorted(OPS))}.')
    if spec.variadic:
        if count < 1:
            raise GraphError(f"{op} needs at least one input.")
        return tuple(f"in{index}" for index in range(count))
    known = (*spec.required, *spec.optional)
    parts = known[:count] if names is None else tuple(names)
    missing = [part for part in spec.required if part not in parts]
    unknown = [part for part in parts if part not in known]
    if missing or unknown or len(parts) != count or len(set(parts)) != count:
        optional = f", and may have {', '.join(spec.optional)}" if spec.optional else ""
        raise GraphError(
            f"{op} takes {', '.join(spec.required)}{optional}; "
            f"got {count} input(s) named {', '.join(parts) or 'nothing'}."
        )
    return parts


def resolve(
    op: str, inputs: Sequence[Value], attrs: Mapping[str, Any], given: Descs | None = None
) -> tuple[dict[str, Any], Descs]:
    """Complete attributes and output descriptions of an op; raises GraphError when it is wrong."""
    parts = input_names(op, len(inputs), attrs.get("inputs"))
    spec = OPS[op]
    full = {**spec.defaults, **attrs, "inputs": parts}
    call = Call(op, dict(zip(parts, inputs, strict=True)), full, given)
    missing = [attr for attr in spec.attrs if attr not in full]
    if missing:
        call.fail(f"the attribute {missing[0]} is missing.")
    unknown = full.keys() - {*spec.attrs, *spec.defaults, "inputs"}
    if unknown and not spec.open_attrs:
        call.fail(f"there is no attribute {min(unknown)}.")
    made = spec.infer(call)
    if given is not None:
        if len(given) != len(made):
            call.fail(f"makes {len(made)} output(s), and {len(given)} were given.")
        for want, have in zip(made, given, strict=True):
            if want.shape != have.shape:
                call.fail(
                    f"makes {shape_text(want.shape)}, and the output is {shape_text(have.shape)}."
                )
    return full, made if given is None else given


def mutated(node: Node) -> tuple[Value, ...]:
    """The inputs that a node changes in place (caches and state)."""
    return tuple(node.named[part] for part in OPS[node.op].mutates if part in node.named)


def expression_of(node: Node) -> Expression | None:
    """What an elementwise node (fused or single) computes, or None for any other op."""
    if node.op == "elementwise":
        expression = node.attrs["expression"]
        return expression if isinstance(expression, Expression) else None
    kind = ARITHMETIC.get(node.op)
    if kind is None:
        return None
    constant = None if kind.constant is None else float(node.attrs[kind.constant])
    return Expression(kind.operands, (Step(node.op, tuple(range(kind.operands)), constant),))
