"""Rotary positions: their frequencies (numpy), and the op ``rope_cache`` that fills the KV cache.

Both caches are ``[kv_head][position][head_dim]``. The paper's other order for values,
``[kv_head][head_dim][position]``, makes attention's second product read along memory as well, but
every new token then writes head_dim separate cache lines, and a lane that owns a channel reads
values a whole row apart. With the rows of both caches contiguous, a token's write is one run, a
split of decode attention reads both with neighbours side by side, and prefill has one kind of tile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.gpu.capabilities import Capabilities
from engine.graph.node import GraphError, Node
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.kernels.state import STATE_WGSL

SIZE = 64


def rope_frequencies(
    *,
    rope_dim: int,
    base: float,
    kind: str = "none",
    factor: float = 1.0,
    original_context: int = 0,
    attention_factor: float = 1.0,
    factors: np.ndarray | None = None,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> tuple[np.ndarray, float]:
    """Inverse frequencies (radians a token), float32 ``[rope_dim / 2]``, and the magnitude.

    Args:
        rope_dim: channels of a head that are rotated, even.
        base: theta of the model; frequency i is base ** (-2 i / rope_dim).
        kind: "none", "linear" (positions divided by ``factor``) or "yarn".
        factor: how many times longer than trained.
        original_context: trained length in tokens (YaRN).
        attention_factor: a further factor of YaRN's magnitude.
        factors: divisors ``[rope_dim / 2]``: GGUF's rope_freqs.weight or :func:`llama3_factors`.
        beta_fast, beta_slow: turns within the trained length above which YaRN keeps a frequency,
            and below which it stretches it whole.

    Returns:
        The frequencies, and what the rotated channels are multiplied by (1 except for YaRN).

    Raises:
        ValueError: an unknown kind, an odd size, or factors of another length.
    """
    if rope_dim % 2 or rope_dim < 0:
        raise ValueError(f"The rotated part of a head must be even, not {rope_dim} channels.")
    freqs = base ** (-np.arange(0, rope_dim, 2, dtype=np.float64) / max(rope_dim, 1))
    if factors is not None:
        flat = np.asarray(factors, np.float64).reshape(-1)
        if len(flat) != len(freqs):
            raise ValueError(
                f"The model file has {len(flat)} rope factors; {rope_dim} rotated channels need "
                f"{len(freqs)}."
            )
        freqs = freqs / flat
    if kind == "none":
        return freqs.astype(np.float32), 1.0
    if kind == "linear":
        return (freqs / factor).astype(np.float32), 1.0
    if kind != "yarn":
        raise ValueError(f'There is no rope scaling "{kind}": choose none, linear or yarn.')
    keep = _yarn_keep(rope_dim, base, original_context, beta_fast, beta_slow)
    stretched = freqs / factor * (1 - keep) + freqs * keep
    return stretched.astype(np.float32), attention_factor * (1 + 0.1 * math.log(max(factor, 1.0)))


def _yarn_keep(
    rope_dim: int, base: float, original_context: int, beta_fast: float, beta_slow: float
) -> np.ndarray:
    """How much of each frequency YaRN keeps, 1 for fast ones to 0 for slow ones, f64."""

    def pair_of(turns: float) -> float:
        """The pair that makes so many turns within the trained length."""
        length = original_context / (turns * 2 * math.pi)
        return rope_dim * math.log(length) / (2 * math.log(base))

    low = max(math.floor(pair_of(beta_fast)), 0)
    high = min(math.ceil(pair_of(beta_slow)), rope_dim - 1)
    ramp = (np.arange(rope_dim // 2) - low) / max(high - low, 1e-3)
    return 1 - np.clip(ramp, 0, 1)


def llama3_factors(
    *,
    rope_dim: int,
    base: float,
    factor: float = 8.0,
    low: float = 1.0,
    high: float = 4.0,
    original_context: int = 8192,
) -> np.ndarray:
    """Llama 3's divisors of the frequencies, float64 ``[rope_dim / 2]``.

    Waves longer than original_context / low are stretched by ``factor``, those shorter than
    original_context / high are kept, and between them the frequency is a mixture.
    """
    freqs = base ** (-np.arange(0, rope_dim, 2, dtype=np.float64) / rope_dim)
    turns = original_context * freqs / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return 1 / ((1 - smooth) / factor + smooth)


@dataclass(frozen=True)
class Variant:
    """Vectors of four channels that one invocation does."""

    vecs: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"vecs{self.vecs}"


def choices(node: Node, caps: Capabilities) -> list[Variant]:
    """The variants allowed for a node on this device, best first."""
    slices = int(node.attrs["head_dim"]) // 4
    some = [count for count in (2, 4) if slices % count == 0]
    order = [*reversed(some), 1, slices] if caps.software else [1, *some]
    return [Variant(count) for count in dict.fromkeys(order)]


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """One dispatch; ``variant`` overrides the choice.

    Attributes of the node beside its shapes: ``magnitude`` (1), ``norm_eps`` (1e-6; with q_gain,
    k_gain).

    Raises:
        GraphError: heads whose size is no multiple of four.
    """
    chosen = variant or choices(node, caps)[0]
    head_dim = int(node.attrs["head_dim"])
    if head_dim % 4:
        raise GraphError(f"Attention heads must be a multiple of 4 channels wide, not {head_dim}.")
    named = node.named
    tokens = named["qkv"].tensor.shape.w
    heads, kv_heads = int(node.attrs["heads"]), int(node.attrs["kv_heads"])
    slices = head_dim // 4
    invocations = tokens * (heads + 2 * kv_heads) * (slices // chosen.vecs)
    size = 8 if caps.software else SIZE
    grid = fold(-(-invocations // size), caps)
    params = {
        "state_words": STATE_WGSL,
        "tokens": tokens,
        "slices": slices,
        "vecs": chosen.vecs,
        "positions": named["k_cache"].tensor.shape.w,
        **rotation_params(node),
        "size": size,
        "grid_x": grid[0],
    }
    binds = [
        Bind("qkv", named["qkv"]),
        Bind("k_cache", named["k_cache"], Access.WRITE),
        Bind("v_cache", named["v_cache"], Access.WRITE),
        Bind("rope_freqs", named["rope_freqs"]),
        Bind("state", named["state"], raw="array<u32>"),
        Bind("q", node.output, Access.WRITE),
    ]
    binds += [Bind(name, named[name]) for name in ("q_gain", "k_gain") if name in named]
    if not params["rope_dim"]:
        binds = [bind for bind in binds if bind.name != "rope_freqs"]
    return [Dispatch("rope/rope_cache.wgsl", params, tuple(binds), grid, "rope_cache")]


def rotation_params(node: Node) -> dict[str, Any]:
    """What ``rope/rotated.wgsl`` and its users take, of rope_cache or rope_attention."""
    return {
        "heads": int(node.attrs["heads"]),
        "kv_heads": int(node.attrs["kv_heads"]),
        "rope_dim": int(node.attrs["rope_dim"]),
        "mode": str(node.attrs["mode"]),
        "magnitude": float(node.attrs.get("magnitude", 1.0)),
        "eps": float(node.attrs.get("norm_eps", 1e-6)),
        "q_norm": "q_gain" in node.named,
        "k_norm": "k_gain" in node.named,
    }


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, for tests, the self-test and the tuner."""
    return {v.name: lower(node, caps, v) for v in choices(node, caps)}
