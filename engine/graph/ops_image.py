"""The op vocabulary of pictures: activations ``[b, h, w, c]``, whole sequences, the denoising loop.

- ``conv2d(x, weight)``: columns of the weight are (ky, kx, c). Fused parts: ``skip``, whose
  channels follow those of x; ``bias`` [C_out]; ``shift`` [b or 1, C_out] (the time embedding);
  ``residual``; ``table``, the scales and shifts that a group norm made, applied as x is read and
  followed by ``norm_act``. y = act(conv(norm_act(x * scale + shift)) + bias + shift + residual).
- ``group_norm``: normalised x. ``group_table``: the scales and shifts alone, ``[b, 2, C]``.
- ``attention_full``: every query sees all keys, or with ``causal`` those up to its own position.
- ``scheduler_step`` and its companions read their step's row of a table (``STEP_WORDS`` each) at
  the position in the state, so that every step's recorded list is identical.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.graph.call import Call, Descs, OpSpec, like, rows, shape_text
from engine.graph.expression import ACTIVATIONS
from engine.graph.node import Role
from engine.tensor.descriptor import DType, Shape, TensorDesc

STEP_WORDS = 40  # f32 words of one row of the step table
HISTORY = 3  # tensors that a sampler may keep from step to step


def sides(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Padding as (left, top, right, bottom)."""
    if isinstance(padding, int):
        return (padding, padding, padding, padding)
    left, top, right, bottom = padding
    return (left, top, right, bottom)


def kernel_size(kernel: int | Sequence[int]) -> tuple[int, int]:
    """A kernel as (height, width)."""
    if isinstance(kernel, int):
        return (kernel, kernel)
    height, width = kernel
    return (height, width)


def _act(call: Call, attr: str) -> None:
    if call.attrs[attr] is not None:
        call.choice(attr, ACTIVATIONS)


def _joined(call: Call) -> TensorDesc:
    """x with the channels of the optional skip behind its own."""
    desc = call.tensor("x")
    if "skip" not in call.named:
        return desc
    other = call.tensor("skip")
    if replace(other.shape, c=1) != replace(desc.shape, c=1) or other.dtype is not desc.dtype:
        call.fail(
            f"x is {shape_text(desc.shape)} {desc.dtype.value} and skip is "
            f"{shape_text(other.shape)} {other.dtype.value}: only their channels may differ."
        )
    if desc.shape.c % 4:
        call.fail(f"x must have a multiple of 4 channels before a skip, not {desc.shape.c}.")
    return like(desc, desc.shape.c + other.shape.c)


def _whole(call: Call, attr: str, values: Sequence[object], least: int) -> None:
    if not all(isinstance(v, int) and not isinstance(v, bool) and v >= least for v in values):
        call.fail(f"{attr} must hold whole numbers of at least {least}, not {values!r}.")


def _conv2d(call: Call) -> Descs:
    desc, weight = _joined(call), call.weight("weight")
    (height, width), padding = kernel_size(call.attrs["kernel"]), sides(call.attrs["padding"])
    _whole(call, "kernel", (height, width), 1)
    _whole(call, "padding", padding, 0)
    stride, upsample = call.whole("stride"), call.whole("upsample")
    shape = desc.shape
    if weight.cols != height * width * shape.c:
        call.fail(
            f"the weight has {weight.cols} columns; a {height}x{width} kernel over {shape.c} "
            f"channels needs {height * width * shape.c}."
        )
    if upsample not in (1, 2):
        call.fail(f"upsample must be 1 or 2, not {upsample}.")
    high, wide = _enlarged(call, shape, upsample)
    left, top, right, bottom = padding
    rest_h, rest_w = high + top + bottom - height, wide + left + right - width
    if min(rest_h, rest_w) < 0:
        call.fail(f"a {height}x{width} kernel does not fit {shape_text(shape)} with its padding.")
    out = replace(
        desc, shape=Shape(shape.b, rest_h // stride + 1, rest_w // stride + 1, weight.rows)
    )
    _fused_conv(call, desc, out)
    return (out,)


def _enlarged(call: Call, shape: Shape, upsample: int) -> tuple[int, int]:
    """Height and width after upsampling and cropping to ``crop``."""
    crop = call.attrs["crop"]
    if crop is None:
        return shape.h * upsample, shape.w * upsample
    _whole(call, "crop", crop, 1)
    high, wide = crop
    if high > shape.h * upsample or wide > shape.w * upsample:
        call.fail(f"a crop to {high}x{wide} is larger than {shape_text(shape)} enlarged.")
    return high, wide


def _fused_conv(call: Call, desc: TensorDesc, out: TensorDesc) -> None:
    """Refuse fused parts of a convolution that do not fit."""
    call.vector("bias", out.shape.c)
    _act(call, "act")
    _act(call, "norm_act")
    if "shift" in call.named:
        _shift(call, out.shape)
    if "residual" in call.named and call.tensor("residual").shape != out.shape:
        have = shape_text(call.tensor("residual").shape)
        call.fail(f"residual is {have}, and y is {shape_text(out.shape)}.")
    if "table" in call.named:
        have, want = call.tensor("table", (DType.F32,)).shape, table_shape(desc.shape)
        if have != want:
            call.fail(f"table is {shape_text(have)} where {shape_text(want)} is needed.")
    elif call.attrs["norm_act"] is not None:
        call.fail("norm_act needs a table.")


def _shift(call: Call, shape: Shape) -> None:
    have = call.tensor("shift").shape
    if rows(have) not in (1, shape.b) or have.c != shape.c:
        call.fail(f"shift is {shape_text(have)} where [{shape.b}, {shape.c}] is needed.")


def table_shape(shape: Shape) -> Shape:
    """The table of a group norm over such a tensor: scales, then shifts, for each picture."""
    return Shape(b=shape.b, w=2, c=shape.c)


def _normed(call: Call) -> TensorDesc:
    """What a group norm normalises; refuses groups and vectors that do not fit."""
    desc = _joined(call)
    groups = call.whole("groups")
    if desc.shape.c % groups:
        call.fail(f"{desc.shape.c} channels cannot be cut into {groups} equal groups.")
    for part in ("gain", "bias"):
        call.vector(part, desc.shape.c)
    call.number("eps", positive=True)
    return desc


def _group_norm(call: Call) -> Descs:
    _act(call, "act")
    return (_normed(call),)


def _group_table(call: Call) -> Descs:
    return (TensorDesc(table_shape(_normed(call).shape)),)


def _layer_norm(call: Call) -> Descs:
    desc = call.tensor("x")
    for part in ("gain", "bias"):
        call.vector(part, desc.shape.c)
    call.number("eps", positive=True)
    return (desc,)


def _attention_full(call: Call) -> Descs:
    q, k, v = call.tensor("q"), call.tensor("k"), call.tensor("v")
    heads, batch = call.whole("heads"), call.attrs["batch"] or q.shape.b
    dim = call.attrs["head_dim"] or q.shape.c // heads
    if call.attrs["head_dim"] is None and q.shape.c % heads:
        call.fail(f"q has {q.shape.c} channels, which {heads} heads cannot share evenly.")
    if len({desc.dtype for desc in (q, k, v)}) != 1:
        call.fail("q, k and v must have one element type.")
    _whole(call, "offsets", call.attrs["offsets"], 0)
    for part, desc, offset in zip("qkv", (q, k, v), call.attrs["offsets"], strict=True):
        if offset + heads * dim > desc.shape.c:
            call.fail(
                f"{part} has {desc.shape.c} channels; {heads} heads of {dim} from channel "
                f"{offset} on need {offset + heads * dim}."
            )
        if rows(desc.shape) % batch:
            call.fail(f"{rows(desc.shape)} rows of {part} are not {batch} equal sequences.")
    if rows(k.shape) != rows(v.shape):
        call.fail(f"there are {rows(k.shape)} keys and {rows(v.shape)} values.")
    if call.attrs["causal"] and rows(k.shape) != rows(q.shape):
        call.fail("causal attention needs as many keys as queries.")
    if call.attrs["scale"] is not None:
        call.number("scale")
    return (like(q, heads * dim),)


def _add_shift(call: Call) -> Descs:
    desc = call.tensor("x")
    _shift(call, desc.shape)
    return (desc,)


def _timestep_embedding(call: Call) -> Descs:
    values = call.tensor("values", (DType.F32,)).shape.elements
    channels, count = call.whole("channels", 2), call.whole("count", 0)
    call.number("max_period", positive=True)
    call.number("freq_shift")
    if channels % 2:
        call.fail(f"{channels} channels are no pairs of sine and cosine.")
    if "state" in call.named:
        call.role("state", Role.STATE)
        return (TensorDesc(Shape(w=max(count, 1), c=channels)),)
    if count not in (0, values):
        call.fail(f"there are {values} values where {count} are needed.")
    return (TensorDesc(Shape(w=values, c=channels)),)


def _steps(call: Call) -> None:
    words = call.tensor("steps", (DType.F32,)).shape.elements
    call.role("state", Role.STATE)
    if words % STEP_WORDS:
        call.fail(f"steps has {words} words, which are no rows of {STEP_WORDS}.")


def _scheduler_input(call: Call) -> Descs:
    desc = call.tensor("x", (DType.F32,))
    _steps(call)
    copies = call.whole("copies")
    return (replace(desc, shape=replace(desc.shape, b=desc.shape.b * copies)),)


def _scheduler_step(call: Call) -> Descs:
    shape = call.tensor("x", (DType.F32,)).shape
    _steps(call)
    guided = replace(shape, b=2 * shape.b)
    have = call.tensor("model").shape
    if have not in (shape, guided):
        call.fail(f"model is {shape_text(have)}: as x, {shape_text(shape)}, or two of them.")
    if "shown" in call.named and call.tensor("shown", (DType.F32,)).shape != shape:
        call.fail(f"shown must have the shape of x, {shape_text(shape)}.")
    for part, most in (("history", HISTORY), ("noise", 0)):
        if part in call.named:
            kept = call.tensor(part, (DType.F32,)).shape
            count = kept.b // shape.b
            if kept != replace(shape, b=count * shape.b) or (most and count > most):
                limit = f"up to {most}" if most else "some"
                call.fail(f"{part} is {shape_text(kept)}: {limit} of {shape_text(shape)}.")
    return ()


def _inpaint_blend(call: Call) -> Descs:
    shape = call.tensor("x", (DType.F32,)).shape
    _steps(call)
    for part in ("init", "noise"):
        if call.tensor(part, (DType.F32,)).shape != shape:
            call.fail(f"{part} must have the shape of x, {shape_text(shape)}.")
    mask = call.tensor("mask", (DType.F32,)).shape
    if (mask.h, mask.w, mask.c) != (shape.h, shape.w, 1) or mask.b not in (1, shape.b):
        call.fail(f"mask is {shape_text(mask)}: one channel of x, {shape_text(shape)}.")
    return ()


def _advance_step(call: Call) -> Descs:
    call.role("state", Role.STATE)
    return ()


def _to_rgba(call: Call) -> Descs:
    desc = call.tensor("x")
    if "factors" in call.named:
        call.vector("factors", 4 * desc.shape.c + 4)
    elif desc.shape.c != 3:
        call.fail(f"a picture has 3 channels, not {desc.shape.c}.")
    shape = replace(desc.shape, b=1, h=1, w=-(-rows(desc.shape) // 4), c=4)
    return (TensorDesc(shape, DType.U32),)


_NORM = ("x", "gain", "bias")
_STEP = ("x", "steps", "state")

IMAGE_OPS: dict[str, OpSpec] = {
    "conv2d": OpSpec(
        _conv2d,
        ("x", "weight"),
        optional=("skip", "bias", "shift", "residual", "table"),
        attrs=("kernel",),
        defaults={
            "stride": 1,
            "padding": 0,
            "upsample": 1,
            "crop": None,  # height and width that are left of the upsampled x, from its top left
            "act": None,
            "norm_act": None,
        },
    ),
    "group_norm": OpSpec(
        _group_norm, _NORM, optional=("skip",), attrs=("groups", "eps"), defaults={"act": None}
    ),
    "group_table": OpSpec(_group_table, _NORM, optional=("skip",), attrs=("groups", "eps")),
    "layer_norm": OpSpec(_layer_norm, _NORM, attrs=("eps",)),
    "attention_full": OpSpec(
        _attention_full,
        ("q", "k", "v"),
        attrs=("heads",),
        defaults={
            "causal": False,
            "scale": None,  # 1 / sqrt(head_dim)
            "head_dim": None,  # channels of q / heads
            "batch": None,  # sequences; axis b of q
            "offsets": (0, 0, 0),  # first channel of q, k and v: for packed projections
        },
    ),
    "add_shift": OpSpec(_add_shift, ("x", "shift")),
    "timestep_embedding": OpSpec(
        _timestep_embedding,
        ("values",),
        optional=("state",),
        attrs=("channels",),
        defaults={"count": 0, "flip": True, "freq_shift": 0.0, "max_period": 10000.0},
    ),
    "scheduler_input": OpSpec(_scheduler_input, _STEP, attrs=("copies",)),
    "scheduler_step": OpSpec(
        _scheduler_step,
        ("x", "model", "steps", "state"),
        optional=("history", "noise", "shown"),
        mutates=("x", "history", "shown"),
    ),
    "inpaint_blend": OpSpec(
        _inpaint_blend, ("x", "init", "noise", "mask", "steps", "state"), mutates=("x",)
    ),
    "advance_step": OpSpec(_advance_step, ("state",), mutates=("state",)),
    "to_rgba": OpSpec(_to_rgba, ("x",), optional=("factors",)),
}
