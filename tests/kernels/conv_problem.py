"""A ``conv2d`` node, numbers for its inputs, and the right answer in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.formats.packed import pack
from engine.formats.quants import Quant, dequantise, quantise
from engine.graph.graph import Graph
from engine.graph.node import Node, Role, Value
from engine.kernels.quantise_blocks import weight_desc
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix, vector

Planes = dict[Value, tuple[np.ndarray, np.ndarray]]
ACTS = {
    "silu": lambda v: v / (1 + np.exp(-v)),
    "relu": lambda v: np.maximum(v, 0),
    None: lambda v: v,
}
ALL = frozenset({"bias", "shift", "residual", "table"})


@dataclass(frozen=True)
class Case:
    """Shapes, packing and fused parts of one convolution."""

    channels: int = 8
    outputs: int = 8
    height: int = 5
    width: int = 7
    batch: int = 1
    kernel: int = 3
    stride: int = 1
    padding: int | tuple[int, int, int, int] = 1
    upsample: int = 1
    crop: tuple[int, int] | None = None
    skip: int = 0
    fused: frozenset[str] = frozenset()
    act: str | None = None
    norm_act: str | None = None
    quant: Quant = Quant.F32
    dtype: DType = DType.F32
    shifts: int = 0  # rows of shift: 1 for all pictures, else one for each
    parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Problem:
    """A node with numbers for its inputs, the right answer, and how large a sum may get."""

    node: Node
    inputs: dict[Value, np.ndarray]
    planes: Planes
    want: np.ndarray
    norms: np.ndarray


def columns(x: np.ndarray, case: Case) -> np.ndarray:
    """Every output pixel's taps, ``[b, h, w, taps * channels]``."""
    if case.upsample == 2:
        x = x.repeat(2, axis=1).repeat(2, axis=2)
    if case.crop is not None:
        x = x[:, : case.crop[0], : case.crop[1]]
    p = case.padding
    left, top, right, bottom = (p, p, p, p) if isinstance(p, int) else p
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    k, step = case.kernel, case.stride
    high, wide = (x.shape[1] - k) // step + 1, (x.shape[2] - k) // step + 1
    taps = [
        x[:, i : i + step * (high - 1) + 1 : step, j : j + step * (wide - 1) + 1 : step]
        for i in range(k)
        for j in range(k)
    ]
    return np.concatenate(taps, axis=-1)


def problem(case: Case, seed: int = 5) -> Problem:
    """Random numbers for a case."""
    rng = np.random.default_rng(seed)
    total = case.channels + case.skip
    cols = case.kernel**2 * total
    raw = quantise(rng.normal(size=(case.outputs, cols)).astype(np.float32), case.quant)
    packed = pack(raw, case.quant, cols)
    desc = weight_desc(case.quant, case.outputs, cols)
    graph = Graph("test")
    shape = Shape(case.batch, case.height, case.width, case.channels)
    given: dict[str, Value] = {}

    def take(part: str, tensor: TensorDesc, role: Role = Role.INPUT) -> None:
        given[part] = graph.value(part, tensor, role)

    take("x", TensorDesc(shape, case.dtype))
    weight = replace(desc, parts=case.parts or desc.parts)
    given["weight"] = graph.value("weight", weight, Role.WEIGHT)
    if case.skip:
        take("skip", TensorDesc(replace(shape, c=case.skip), case.dtype))
    if "bias" in case.fused:
        take("bias", vector(case.outputs), Role.WEIGHT)
    if "shift" in case.fused:
        take("shift", matrix(case.shifts or case.batch, case.outputs, case.dtype))
    if "table" in case.fused:
        take("table", TensorDesc(Shape(b=case.batch, w=2, c=total)))
    attrs = {
        "kernel": case.kernel,
        "stride": case.stride,
        "padding": case.padding,
        "upsample": case.upsample,
        "crop": case.crop,
        "act": case.act,
        "norm_act": case.norm_act,
    }
    if "residual" in case.fused:
        made = Graph("shape")
        out = made.add("conv2d", {k: made.use(v) for k, v in given.items()}, **attrs)
        take("residual", out.tensor)
    graph.add("conv2d", given, **attrs)
    node = graph.nodes[0]
    arrays = {
        part: rng.normal(size=_shape(value)).astype(np.float16).astype(np.float64)
        for part, value in given.items()
        if part != "weight"
    }
    want, norms = reference(case, dequantise(raw, case.quant, cols).astype(np.float64), arrays)
    inputs = {given[part]: array.astype(np.float32) for part, array in arrays.items()}
    return Problem(node, inputs, {given["weight"]: (packed.codes, packed.scales)}, want, norms)


def _shape(value: Value) -> tuple[int, int, int, int]:
    shape = value.tensor.shape
    return (shape.b, shape.h, shape.w, shape.c)


def reference(
    case: Case, weights: np.ndarray, arrays: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """What the node means, in float64, and the largest that each sum could be."""
    x = arrays["x"]
    if "skip" in arrays:
        x = np.concatenate([x, arrays["skip"]], axis=-1)
    if "table" in arrays:
        scale, shift = arrays["table"][:, 0, 0], arrays["table"][:, 0, 1]
        x = ACTS[case.norm_act](x * scale[:, None, None] + shift[:, None, None])
    taps = columns(x, case)
    norms = np.linalg.norm(taps, axis=-1)[..., None] * np.linalg.norm(weights, axis=1)
    y = taps @ weights.T + arrays.get("bias", 0.0)
    if "shift" in arrays:
        y = y + arrays["shift"][0, 0][:, None, None]
    return ACTS[case.act](y + arrays.get("residual", 0.0)), norms + 1e-3
