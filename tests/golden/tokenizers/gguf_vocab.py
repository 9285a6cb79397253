"""A GGUF file with a given vocabulary and a model of no use, for reference tokenizers to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter

WIDTH = 32


def write_vocab(path: Path, metadata: Mapping[str, Any]) -> None:
    """Write ``tokenizer.ggml.*`` of ``metadata`` and zeros for one layer of a Llama."""
    writer = GGUFWriter(path, "llama")
    tokens: Sequence[str] = metadata["tokenizer.ggml.tokens"]
    writer.add_vocab_size(len(tokens))
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH)
    for key, value in metadata.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), WIDTH), np.float16))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros((WIDTH, WIDTH), np.float16))
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.zeros(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
