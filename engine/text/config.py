"""The shape of a transformer as data, read from a GGUF header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from engine.text.errors import UnsupportedModelError


@dataclass(frozen=True)
class RopeScaling:
    """How positions are stretched beyond the trained length.

    ``kind`` is "none", "linear" or "yarn"; Llama 3's scaling comes as a tensor of factors instead.
    """

    kind: str = "none"
    factor: float = 1.0
    original_context: int = 0
    attention_factor: float = 1.0


@dataclass(frozen=True)
class TransformerConfig:
    """Everything that a graph builder needs; counts unless a unit is named."""

    architecture: str
    layers: int
    embedding: int  # channels of the residual stream
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    context_max: int
    norm_eps: float
    rope_base: float
    rope_dim: int
    rope_mode: str  # "normal": interleaved pairs; "neox": halves
    rope_scaling: RopeScaling
    window: int | None = None  # sliding window of attention, in tokens

    @property
    def query_channels(self) -> int:
        """Channels of all query heads together."""
        return self.heads * self.head_dim

    @property
    def qkv_channels(self) -> int:
        """Channels of queries, keys and values together."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def kv_bytes_per_token(self, element_bytes: int) -> int:
        """Bytes that one token takes in the KV cache, all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * element_bytes


class Header:
    """Typed reads of ``<architecture>.<key>`` with sentences for what is missing or absurd."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._metadata = metadata
        self.architecture = str(metadata.get("general.architecture", ""))

    def find(self, key: str) -> Any:
        """The value of a key of this architecture, or None."""
        return self._metadata.get(f"{self.architecture}.{key}")

    def whole(self, key: str, default: int | None = None, *, most: int = 1 << 24) -> int:
        """A whole number of at least 1."""
        value = self.find(key)
        if value is None:
            value = default
        if isinstance(value, list):  # one entry a layer: only a uniform list is one number
            entries = cast("list[Any]", value)
            value = entries[0] if len(set(entries)) == 1 else None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise UnsupportedModelError(
                f"The model file says {self.architecture}.{key} = {value!r}, "
                f"where a whole number from 1 to {most} is needed."
            )
        return value

    def number(self, key: str, default: float) -> float:
        """A positive number."""
        value = self.find(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
            raise UnsupportedModelError(
                f"The model file says {self.architecture}.{key} = {value!r}, "
                "where a positive number is needed."
            )
        return float(value)


def read_config(
    metadata: Mapping[str, Any], vocabulary: int, *, rope_mode: str
) -> TransformerConfig:
    """The configuration of a llama-like architecture from its GGUF header.

    Raises:
        UnsupportedModelError: a value is missing, absurd, or needs something we do not have.
    """
    header = Header(metadata)
    heads = header.whole("attention.head_count", most=4096)
    kv_heads = header.whole("attention.head_count_kv", heads, most=4096)
    embedding = header.whole("embedding_length")
    if heads % kv_heads:
        raise UnsupportedModelError(
            f"The model file has {heads} attention heads, which {kv_heads} key heads cannot share."
        )
    head_dim = header.whole("attention.key_length", embedding // heads, most=1024)
    if head_dim % 4:
        raise UnsupportedModelError(
            f"The model's attention heads are {head_dim} channels wide; a multiple of 4 is needed."
        )
    if header.whole("attention.value_length", head_dim, most=1024) != head_dim:
        raise UnsupportedModelError("Keys and values of different sizes are not supported.")
    if header.find("expert_count"):
        raise UnsupportedModelError("Mixture-of-experts models are not supported yet.")
    window = header.find("attention.sliding_window")
    return TransformerConfig(
        architecture=header.architecture,
        layers=header.whole("block_count", most=1024),
        embedding=embedding,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward=header.whole("feed_forward_length"),
        vocabulary=vocabulary,
        context_max=header.whole("context_length"),
        norm_eps=header.number("attention.layer_norm_rms_epsilon", 1e-5),
        rope_base=header.number("rope.freq_base", 10000.0),
        rope_dim=header.whole("rope.dimension_count", head_dim, most=head_dim),
        rope_mode=rope_mode,
        rope_scaling=_scaling(header),
        window=window if isinstance(window, int) and window > 0 else None,
    )


def _scaling(header: Header) -> RopeScaling:
    kind = header.find("rope.scaling.type")
    legacy = header.find("rope.scale_linear")
    if kind is None and legacy is not None:
        return RopeScaling("linear", header.number("rope.scale_linear", 1.0))
    if kind in (None, "none"):
        return RopeScaling()
    if kind not in ("linear", "yarn"):
        raise UnsupportedModelError(f"The rope scaling {kind!r} is not supported.")
    original = header.find("rope.scaling.original_context_length")
    return RopeScaling(
        kind=str(kind),
        factor=header.number("rope.scaling.factor", 1.0),
        original_context=int(original or header.whole("context_length")),
        attention_factor=header.number("rope.scaling.attn_factor", 1.0),
    )
