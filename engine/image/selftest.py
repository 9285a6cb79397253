"""The cases of pictures for the self-test of an adapter and driver.

Shapes are small, but one convolution is large enough that a GPU takes its widest tiles for it; of
that one only some pixels are compared. See engine/kernels/selftest.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from engine.formats.packed import packed_words
from engine.formats.quants import Quant
from engine.gpu.capabilities import Capabilities
from engine.gpu.device import Device
from engine.gpu.findings import Findings
from engine.graph.node import Role, Value
from engine.graph.ops_image import HISTORY
from engine.kernels import scheduler_step, selftest
from engine.kernels.selftest import Case, Maker
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix, vector

Doubles = np.ndarray
WIDE, COMPARED = 128, 256  # pixels along the large picture's side, and how many are compared


def check_device(
    device: Device,
    kind: Quant,
    findings: Findings,
    progress: Callable[[str, int, int], None],
) -> None:
    """Test what pictures with weights of this kind need; see the room below."""
    caps = device.caps
    groups = {
        "pictures": lambda: op_cases(caps),
        f"pictures {kind.name}": lambda: kind_cases(kind, caps),
    }
    selftest.check_device(device, groups, findings, progress)


def op_cases(caps: Capabilities) -> Iterator[Case]:
    """Everything that reads no matrix."""
    yield _group_norm(caps)
    yield _layer_norm(caps)
    for head_dim, tokens in ((40, 77), (64, 96)):
        yield _attention(caps, head_dim, tokens)
    yield _step()


def kind_cases(kind: Quant, caps: Capabilities) -> Iterator[Case]:
    """Convolutions and projections whose weights are of one kind."""
    yield _fused_conv(kind, caps)
    if not caps.software:
        yield _wide_conv(kind, caps)
    yield _projection(kind, caps)


def _dtype(caps: Capabilities) -> DType:
    """What activations are kept in on this device."""
    return DType.F16 if caps.f16 and not caps.software else DType.F32


def _loose(caps: Capabilities) -> float:
    return 2e-2 if _dtype(caps) is DType.F16 else 1e-3


def _silu(x: Doubles) -> Doubles:
    return x / (1 + np.exp(-x))


def _taps(x: Doubles, rows: Doubles) -> Doubles:
    """The 3 x 3 pixels around chosen ones of x [b, h, w, c], ``[rows, 9 c]``; outside is 0."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    picture, y, across = np.unravel_index(rows, x.shape[:3])
    near = [padded[picture, y + i, across + j] for i in range(3) for j in range(3)]
    return np.concatenate(near, axis=1)


def _wide_conv(kind: Quant, caps: Capabilities) -> Case:
    """A 3 x 3 convolution of a large picture."""
    make = Maker()
    weight, exact = make.weight(kind, WIDE, 9 * 32)
    x = make.tensor("x", TensorDesc(Shape(1, WIDE, WIDE, 32), _dtype(caps)))
    bias = make.tensor("bias", vector(WIDE), Role.WEIGHT)
    make.graph.add("conv2d", {"x": x, "weight": weight, "bias": bias}, kernel=3, padding=1)
    rows: Doubles = np.linspace(0, WIDE * WIDE - 1, COMPARED).astype(np.int64)
    expected = _taps(make.inputs[x].astype(np.float64), rows) @ exact.T + make.array(bias)
    return make.case(expected, _loose(caps), rows=rows)


def _fused_conv(kind: Quant, caps: Capabilities) -> Case:
    """A convolution with all that the networks fold into it, of a picture that it enlarges."""
    make, dtype = Maker(), _dtype(caps)
    shape, outputs = Shape(2, 5, 7, 32), 36
    large = Shape(2, 10, 14, outputs)
    skipped = 0 if packed_words(kind, 32)[1] else 32  # scales take a place that skip would need
    total = shape.c + skipped
    weight, exact = make.weight(kind, outputs, 9 * total)
    inputs: dict[str, Value] = {"x": make.tensor("x", TensorDesc(shape, dtype)), "weight": weight}
    parts = {
        "bias": (vector(outputs), Role.WEIGHT),
        "shift": (matrix(shape.b, outputs), Role.INPUT),
        "residual": (TensorDesc(large, dtype), Role.INPUT),
        "table": (TensorDesc(Shape(b=shape.b, w=2, c=total)), Role.INPUT),
    }
    if skipped:
        parts["skip"] = (TensorDesc(Shape(2, 5, 7, skipped), dtype), Role.INPUT)
    inputs |= {name: make.tensor(name, desc, role) for name, (desc, role) in parts.items()}
    make.graph.add("conv2d", inputs, kernel=3, padding=1, upsample=2, norm_act="silu")

    def given(name: str) -> Doubles:
        return make.inputs[inputs[name]].astype(np.float64)

    table = given("table")
    x = np.concatenate([given(name) for name in ("x", "skip") if name in inputs], axis=3)
    x = _silu(x * table[:, :, :1] + table[:, :, 1:]).repeat(2, 1).repeat(2, 2)
    expected = _taps(x, np.arange(2 * 10 * 14)) @ exact.T + make.array(inputs["bias"])
    expected += make.array(inputs["shift"]).repeat(10 * 14, 0) + make.array(inputs["residual"])
    return make.case(expected, _loose(caps))


def _projection(kind: Quant, caps: Capabilities) -> Case:
    """A matrix product over many pixels, with bias and residual."""
    make, dtype = Maker(), _dtype(caps)
    weight, exact = make.weight(kind, 40, 64)
    inputs = {
        "x": make.tensor("x", matrix(200, 64, dtype)),
        "weight": weight,
        "bias": make.tensor("bias", vector(40), Role.WEIGHT),
        "residual": make.tensor("residual", matrix(200, 40, dtype)),
    }
    make.graph.add("linear", inputs)
    expected = make.array(inputs["x"]) @ exact.T + make.array(inputs["bias"])
    return make.case(expected + make.array(inputs["residual"]), _loose(caps))


def _normed(op: str, desc: TensorDesc, **attrs: Any) -> tuple[Maker, Value]:
    """A norm with its vectors."""
    make = Maker()
    x = make.tensor("x", desc)
    gain = make.tensor("gain", vector(desc.shape.c), Role.WEIGHT)
    bias = make.tensor("bias", vector(desc.shape.c), Role.WEIGHT)
    make.graph.add(op, {"x": x, "gain": gain, "bias": bias}, eps=1e-5, **attrs)
    return make, x


def _group_norm(caps: Capabilities) -> Case:
    desc = TensorDesc(Shape(2, 6, 7, 32), _dtype(caps))
    make, x = _normed("group_norm", desc, groups=8, act="silu")
    groups = make.array(x).reshape(2, 6 * 7, 8, 4)
    groups = groups - groups.mean((1, 3), keepdims=True)
    groups /= np.sqrt((groups**2).mean((1, 3), keepdims=True) + 1e-5)
    return make.case(_silu(_scaled(make, groups.reshape(-1, 32))), _loose(caps))


def _layer_norm(caps: Capabilities) -> Case:
    make, x = _normed("layer_norm", matrix(5, 96, _dtype(caps)))
    numbers = make.array(x) - make.array(x).mean(1, keepdims=True)
    numbers /= np.sqrt((numbers**2).mean(1, keepdims=True) + 1e-5)
    return make.case(_scaled(make, numbers), _loose(caps))


def _scaled(make: Maker, normed: Doubles) -> Doubles:
    """Normed numbers with the node's gain and bias."""
    named = make.graph.nodes[-1].named
    return normed * make.array(named["gain"]) + make.array(named["bias"])


def _attention(caps: Capabilities, head_dim: int, tokens: int) -> Case:
    """Two sequences of 70 queries over ``tokens`` keys beside their values, two heads.

    Later keys score higher: a kernel must scale what it has added up, more than once.
    """
    make, dtype, heads = Maker(), _dtype(caps), 2
    channels = heads * head_dim
    q = make.tensor("q", TensorDesc(Shape(b=2, w=70, c=channels), dtype))
    kv = make.tensor("kv", TensorDesc(Shape(b=2, w=tokens, c=2 * channels), dtype))
    inputs = {"q": q, "k": kv, "v": kv}
    make.graph.add(
        "attention_full", inputs, heads=heads, head_dim=head_dim, offsets=(0, 0, channels)
    )
    make.inputs[q] = np.abs(make.inputs[q])
    rising = np.linspace(0, 4, tokens).astype(np.float16).astype(np.float32)[:, None]
    both = make.inputs[kv] + np.repeat([1.0, 0.0], channels).astype(np.float32) * rising
    make.inputs[kv] = both.astype(np.float16).astype(np.float32)
    queries = make.array(q).reshape(2, 70, heads, head_dim)
    keys, values = np.split(make.array(kv).reshape(2, tokens, 2 * heads, head_dim), 2, axis=2)
    scores = np.einsum("bqhd,bkhd->bhqk", queries, keys) * head_dim**-0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("bhqk,bkhd->bqhd", weights, values).reshape(-1, channels)
    return make.case(expected, _loose(caps))


def _step() -> Case:
    """A guided step with everything that a sampler may read, its clean latents clipped."""
    make, shape = Maker(), Shape(1, 4, 5, 4)

    def latents(name: str, count: int, role: Role) -> Value:
        return make.tensor(name, TensorDesc(Shape(count, 4, 5, 4)), role)

    weights = np.random.default_rng(1).standard_normal((1 + HISTORY, scheduler_step.FACTORS))
    factors = scheduler_step.StepFactors(
        500.0, weights[0].tolist(), weights[1:].tolist(), 4.5, denoised=(0.6, -0.4), clip=0.8
    )
    table = scheduler_step.pack_steps([scheduler_step.StepFactors(0.0, ()), factors])
    x, model = latents("x", 1, Role.CACHE), latents("model", 2, Role.INPUT)
    history, noise = latents("history", HISTORY, Role.CACHE), latents("noise", 1, Role.INPUT)
    steps = make.tensor("steps", vector(table.size), Role.INPUT)
    make.inputs[steps] = table
    words = np.zeros(scheduler_step.STATE_WORDS, np.uint32)
    words[scheduler_step.STEP] = 1
    inputs = {"x": x, "model": model, "steps": steps, "history": history, "noise": noise}
    inputs["state"] = make.words("state", words, Role.STATE)
    make.graph.add("scheduler_step", inputs, outputs=[])
    old, kept = make.array(x), make.array(history).reshape(HISTORY, -1, shape.c)
    uncond, cond = np.split(make.array(model), 2)
    predicted = uncond + 4.5 * (cond - uncond)
    clean = np.clip(0.6 * old - 0.4 * predicted, -0.8, 0.8)
    terms = [old, predicted, *kept, make.array(noise), clean]
    expected = sum((w * t for w, t in zip(weights[0], terms, strict=True)), np.zeros_like(old))
    return make.case(expected, 1e-4, result=x)
