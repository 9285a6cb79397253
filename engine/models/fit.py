"""How much GPU memory a text model needs for a given context.

Weights keep the file's own bits per weight on the GPU, so they are as large there as in the file.
The KV cache holds f16 keys and values. The activations are those of one prefill chunk, before the
planner lets them share memory, so the estimate errs on the safe side.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

DEFAULT_CONTEXT: Final = 4096  # tokens, when the person has not chosen
PREFILL_TOKENS: Final = 256  # rows of one prefill chunk
_F16, _F32 = 2, 4


class Tensor(Protocol):
    """What the estimate reads of a tensor."""

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        ...


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes on the GPU, by purpose."""

    weights: int
    kv_cache: int
    activations: int

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + self.kv_cache + self.activations


@dataclass(frozen=True)
class Shape:
    """The numbers of an architecture that decide its memory; 0 where the file does not tell."""

    layers: int
    channels: int
    feed_forward: int
    heads: int
    kv_heads: tuple[int, ...]  # one a layer
    key_length: int
    value_length: int
    vocabulary: int
    context: int  # tokens the model was made for

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values of one token in all layers, f16."""
        return sum(self.kv_heads) * (self.key_length + self.value_length) * _F16

    def activation_bytes(self, tokens: int = PREFILL_TOKENS) -> int:
        """Bytes of the activations of one prefill chunk and of the logits, f32."""
        query_key_value = self.heads * self.key_length + (
            max(self.kv_heads, default=0) * (self.key_length + self.value_length)
        )
        row = 3 * self.channels + 2 * query_key_value + 3 * self.feed_forward
        return (tokens * row + 2 * self.vocabulary) * _F32


def shape_of(metadata: Mapping[str, object], vocabulary: int = 0) -> Shape:
    """Read the numbers from a GGUF's metadata; what is missing or no number counts as 0."""
    architecture = str(metadata.get("general.architecture", ""))

    def number(key: str) -> int:
        return _number(metadata.get(f"{architecture}.{key}"))

    layers = number("block_count")
    heads = number("attention.head_count")
    channels = number("embedding_length")
    head = channels // heads if heads else 0
    return Shape(
        layers=layers,
        channels=channels,
        feed_forward=number("feed_forward_length"),
        heads=heads,
        kv_heads=_per_layer(metadata.get(f"{architecture}.attention.head_count_kv"), layers, heads),
        key_length=number("attention.key_length") or head,
        value_length=number("attention.value_length") or head,
        vocabulary=number("vocab_size") or vocabulary,
        context=number("context_length"),
    )


def estimate(
    metadata: Mapping[str, object], tensors: Mapping[str, Tensor], context: int
) -> MemoryNeed:
    """What a GGUF with this metadata and these tensors needs with ``context`` tokens."""
    shape = shape_of(metadata)
    return MemoryNeed(
        weights=weight_bytes(tensors.values()),
        kv_cache=shape.kv_bytes_per_token * (min(context, shape.context) or context),
        activations=shape.activation_bytes(),
    )


def weight_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of all tensors together."""
    return sum(tensor.nbytes for tensor in tensors)


def fits(need: MemoryNeed, free: int) -> str | None:
    """None if it fits in ``free`` bytes, else a sentence with the numbers and what to do."""
    missing = need.total - free
    if missing <= 0:
        return None
    return (
        f"This model needs {gib(need.total)} and {gib(free)} are free, {gib(missing)} too little. "
        "Choose a shorter context, a smaller quantisation or another model."
    )


def gib(size: float) -> str:
    """Bytes for people: GiB with one decimal, MiB below half a GiB."""
    if abs(size) < 2**29:
        return f"{size / 2**20:,.0f} MiB"
    return f"{size / 2**30:,.1f} GiB"


def _number(value: object) -> int:
    """A whole number of the metadata; the largest one where the file has one a layer."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, numbers.Integral):  # numpy's integers are no int
        return int(value)
    return max(_items(value), default=0)


def _per_layer(value: object, layers: int, default: int) -> tuple[int, ...]:
    items = _items(value)
    if len(items) == layers and items:
        return items
    return (_number(value) or default,) * layers


def _items(value: object) -> tuple[int, ...]:
    """The whole numbers of a list or an array."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return ()
    items = cast(Iterable[object], value)
    return tuple(int(one) for one in items if isinstance(one, numbers.Integral))
