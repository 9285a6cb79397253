"""The building blocks that the picture networks share, as graph nodes over named weights.

Names are diffusers' names of modules; ``.weight`` and ``.bias`` are appended here.
Activations are ``[b, h, w, c]``, or matrices ``[b * tokens, c]`` for text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.graph.ops import resolve
from engine.image.weights import NetworkWeights
from engine.tensor.descriptor import DType


@dataclass(frozen=True)
class Layers:
    """A graph under construction, its network's weights, and the element type of activations."""

    graph: Graph
    weights: NetworkWeights
    dtype: DType = DType.F32

    def add(
        self,
        op: str,
        inputs: Mapping[str, Value | None],
        *,
        out: Value | None = None,
        dtype: DType | None = None,
        **attrs: Any,
    ) -> Value:
        """A node whose output has the layers' element type (or ``dtype``), or goes to ``out``."""
        named = self._used(inputs)
        if out is not None:
            self.graph.use(out)
            self.graph.add(op, named, outputs=[out], **attrs)
            return out
        _, made = resolve(op, tuple(named.values()), {**attrs, "inputs": tuple(named)})
        return self.graph.add(op, named, replace(made[0], dtype=dtype or self.dtype), **attrs)

    def change(self, op: str, inputs: Mapping[str, Value | None], **attrs: Any) -> None:
        """A node that only changes some of its inputs in place."""
        self.graph.add(op, self._used(inputs), outputs=[], **attrs)

    def _used(self, inputs: Mapping[str, Value | None]) -> dict[str, Value]:
        """The inputs that there are; those from outside become values of the graph."""
        named = {part: value for part, value in inputs.items() if value is not None}
        for value in named.values():
            if value.role is not Role.ACTIVATION:
                self.graph.use(value)
        return named

    def bias(self, name: str) -> Value | None:
        """The bias of a module, or None where it has none."""
        full = f"{name}.bias"
        return self.weights.vector(full) if self.weights.has(full) else None

    def conv(
        self,
        x: Value,
        name: str,
        *,
        kernel: int = 3,
        padding: int | tuple[int, int, int, int] = 1,
        fused: Mapping[str, Value | None] | None = None,
        out: Value | None = None,
        dtype: DType | None = None,
        **attrs: Any,
    ) -> Value:
        """A convolution with its bias; ``fused`` are further inputs (skip, shift, residual)."""
        inputs: dict[str, Value | None] = {"x": x, "weight": self.weights.matrix(name)}
        inputs |= {"bias": self.bias(name), **(fused or {})}
        return self.add(
            "conv2d", inputs, out=out, dtype=dtype, kernel=kernel, padding=padding, **attrs
        )

    def linear(
        self,
        x: Value,
        *names: str,
        residual: Value | None = None,
        out: Value | None = None,
        dtype: DType | None = None,
    ) -> Value:
        """A projection with its bias, or several of the same input side by side."""
        biases = [f"{name}.bias" for name in names]
        present = all(self.weights.has(bias) for bias in biases)
        inputs = {
            "x": x,
            "weight": self.weights.matrix(*names),
            "bias": self.weights.vector(*biases) if present else None,
            "residual": residual,
        }
        return self.add("linear", inputs, out=out, dtype=dtype, wide=self.wide)

    @property
    def wide(self) -> bool:
        """Whether activations are kept in 32 bits, because 16 would overflow or are not there."""
        return self.dtype is DType.F32

    def enlarged(self, x: Value, name: str, height: int, width: int) -> Value:
        """Twice as large (nearest), at most ``height`` by ``width``, then a 3x3 convolution."""
        shape = x.tensor.shape
        if (2 * shape.h, 2 * shape.w) == (height, width):
            return self.conv(x, name, upsample=2)
        return self.conv(x, name, upsample=2, crop=(height, width))

    def gated(self, x: Value, name: str, act: str) -> Value:
        """A projection to a value and its gate: value * act(gate). Stored value first."""
        inputs = {
            "x": x,
            "weight": self.weights.matrix(name, halves_swapped=True),
            "bias": self.weights.vector(f"{name}.bias", halves_swapped=True),
        }
        return self.add("gated", {"x": self.add("linear", inputs, wide=self.wide)}, act=act)

    def group_norm(
        self,
        x: Value,
        name: str,
        *,
        groups: int,
        eps: float,
        act: str | None = None,
        skip: Value | None = None,
    ) -> Value:
        """A group norm, over x with the channels of ``skip`` behind its own."""
        inputs = {
            "x": x,
            "gain": self.weights.vector(f"{name}.weight"),
            "bias": self.weights.vector(f"{name}.bias"),
            "skip": skip,
        }
        return self.add("group_norm", inputs, groups=groups, eps=eps, act=act)

    def layer_norm(self, x: Value, name: str, *, eps: float = 1e-5) -> Value:
        """A layer norm."""
        inputs = {
            "x": x,
            "gain": self.weights.vector(f"{name}.weight"),
            "bias": self.weights.vector(f"{name}.bias"),
        }
        return self.add("layer_norm", inputs, eps=eps)

    def self_attention(
        self,
        x: Value,
        parts: Sequence[str],
        out_name: str,
        *,
        heads: int,
        batch: int,
        residual: Value,
        causal: bool = False,
        dtype: DType | None = None,
    ) -> Value:
        """x + W_o attention(W_qkv norm(x)), with ``x`` normed already and ``residual`` not."""
        qkv = self.linear(x, *parts)
        channels = x.tensor.shape.c
        mixed = self.add(
            "attention_full",
            {"q": qkv, "k": qkv, "v": qkv},
            heads=heads,
            head_dim=channels // heads,
            batch=batch,
            causal=causal,
            offsets=(0, channels, 2 * channels),
        )
        return self.linear(mixed, out_name, residual=residual, dtype=dtype)
