"""A ``linear`` node for many tokens, numbers for its inputs, and the right answer in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.formats.packed import pack
from engine.formats.quants import Quant, dequantise, quantise
from engine.graph.node import Node, Role, Value
from engine.kernels.quantise_blocks import weight_desc
from engine.tensor.descriptor import DType, Storage, matrix, vector

EPS = 1e-5


@dataclass(frozen=True)
class Case:
    """Shape, packing, fused parts, and the form of what is read and written."""

    quant: Quant = Quant.Q4_0
    tokens: int = 9
    rows: int = 24
    cols: int = 256
    fused: frozenset[str] = frozenset()
    gated: str | None = None
    parts: tuple[int, ...] = ()
    dtype: DType = DType.F32
    storage: Storage = Storage.BUFFER

    @property
    def outputs(self) -> int:
        """Channels of y."""
        return self.rows // 2 if self.gated else self.rows


@dataclass(frozen=True)
class Problem:
    """A node with numbers for its inputs, the answer, and how large a sum of products may get."""

    node: Node
    inputs: dict[Value, np.ndarray]
    planes: dict[Value, tuple[np.ndarray, np.ndarray]]
    want: np.ndarray
    norms: np.ndarray  # |x[t]| * |W[row]|, which bounds a sum: [tokens, rows]


def problem(case: Case, seed: int = 11) -> Problem:
    """Random numbers for a case."""
    rng = np.random.default_rng(seed)
    raw = quantise(rng.normal(size=(case.rows, case.cols)).astype(np.float32), case.quant)
    packed = pack(raw, case.quant, case.cols)
    desc = weight_desc(case.quant, case.rows, case.cols)
    weight = Value("w", replace(desc, parts=case.parts or (case.rows,)), Role.WEIGHT)
    x_desc = matrix(case.tokens, case.cols, case.dtype).with_storage(case.storage)
    y_desc = matrix(case.tokens, case.outputs, case.dtype).with_storage(case.storage)
    tensors = {
        "x": Value("x", x_desc, Role.INPUT),
        "gain": Value("gain", vector(case.cols), Role.WEIGHT),
        "bias": Value("bias", vector(case.rows), Role.WEIGHT),
        "residual": Value("residual", y_desc, Role.INPUT),
    }
    used = {part: tensors[part] for part in tensors if part == "x" or part in case.fused}
    arrays = {
        part: rng.normal(size=(value.tensor.shape.w, value.tensor.shape.c)).astype(np.float16)
        for part, value in used.items()
    }
    attrs = {
        "inputs": ("weight", *used),
        "norm_eps": EPS if "gain" in case.fused else None,
        "gated": case.gated,
    }
    node = Node("linear", (weight, *used.values()), (Value("y", y_desc, Role.OUTPUT),), attrs)
    weights = dequantise(raw, case.quant, case.cols).astype(np.float64)
    want, norms = reference(case, weights, arrays)
    inputs = {value: arrays[part].astype(np.float32) for part, value in used.items()}
    return Problem(node, inputs, {weight: (packed.codes, packed.scales)}, want, norms)


def reference(
    case: Case, weights: np.ndarray, arrays: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """What the node means, in float64, and the largest that each sum could be."""
    wide = {part: array.astype(np.float64) for part, array in arrays.items()}
    x = wide["x"]
    if "gain" in wide:
        x = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPS) * wide["gain"]
    norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(weights, axis=1)[None]
    y = x @ weights.T + wide.get("bias", 0.0)
    if case.gated:
        gate, up = np.split(y, 2, axis=1)
        if case.gated == "silu":
            y = gate / (1 + np.exp(-gate)) * up
        else:
            inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
            y = 0.5 * gate * (1 + np.tanh(inner)) * up
        # An error in either factor is made larger by the other one.
        norms = norms[:, : case.outputs] * (np.abs(up) + 1) + norms[:, case.outputs :] * (
            np.abs(gate) + 1
        )
    return y + wide.get("residual", 0.0), norms
