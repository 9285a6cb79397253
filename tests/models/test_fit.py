from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from engine.models.fit import MemoryNeed, estimate, fits, gib, shape_of

LLAMA = {
    "general.architecture": "llama",
    "llama.block_count": 30,
    "llama.context_length": 8192,
    "llama.embedding_length": 576,
    "llama.feed_forward_length": 1536,
    "llama.attention.head_count": 9,
    "llama.attention.head_count_kv": 3,
    "llama.vocab_size": 49152,
}


@dataclass
class FakeTensor:
    nbytes: int


def test_the_cache_of_a_grouped_model_holds_f16_keys_and_values() -> None:
    need = estimate(LLAMA, {"a": FakeTensor(1000), "b": FakeTensor(24)}, context=2048)
    assert need.weights == 1024
    assert need.kv_cache == 2048 * 30 * 3 * 64 * 2 * 2
    assert need.total == need.weights + need.kv_cache + need.activations


def test_the_context_stops_at_the_model_s_own() -> None:
    assert estimate(LLAMA, {}, 10**6).kv_cache == estimate(LLAMA, {}, 8192).kv_cache


def test_heads_may_differ_by_layer_and_have_a_length_of_their_own() -> None:
    more = {
        "llama.block_count": 3,
        "llama.attention.head_count_kv": np.array([1, 2, 1]),
        "llama.attention.key_length": 256,
        "llama.attention.value_length": np.uint32(128),
    }
    assert shape_of({**LLAMA, **more}).kv_bytes_per_token == (1 + 2 + 1) * (256 + 128) * 2


def test_without_grouping_every_head_has_keys() -> None:
    plain = {k: v for k, v in LLAMA.items() if k != "llama.attention.head_count_kv"}
    assert shape_of(plain).kv_heads == (9,) * 30


def test_strange_metadata_counts_as_nothing() -> None:
    shape = shape_of({"general.architecture": "llama", "llama.block_count": "many"})
    assert shape.kv_bytes_per_token == 0
    assert shape.activation_bytes() == 0


def test_what_does_not_fit_is_told_with_numbers_and_a_way_out() -> None:
    need = MemoryNeed(weights=4 * 2**30, kv_cache=2**30, activations=2**30)
    assert fits(need, 6 * 2**30) is None
    assert fits(need, 5 * 2**30) == (
        "This model needs 6.0 GiB and 5.0 GiB are free, 1.0 GiB too little. "
        "Choose a shorter context, a smaller quantisation or another model."
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 MiB"), (2**20, "1 MiB"), (2**29, "0.5 GiB"), (3 * 2**40, "3,072.0 GiB")],
)
def test_sizes_are_gib(size: int, text: str) -> None:
    assert gib(size) == text
