"""Make the golden files of the llama architecture with transformers; run once, by hand.

    python tests/golden/make_llama.py tiny                 (the small models and their answers)
    python tests/golden/make_llama.py smollm2 MODEL.gguf   (the answers of the real one)

Needs torch, transformers and gguf, which the tests themselves do not (but for gguf).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

FOLDER = Path(__file__).parent / "llama"
PROMPTS = (
    "What is the capital of France?",
    "Write a short poem about the sea, with an emoji.",
    "def fibonacci(n):",
)
Q = gguf.GGMLQuantizationType

# name: (config, kind of the matrices)
TINY = {
    # grouped heads, untied output, sizes that fit no block
    "grouped-f32": (
        {
            "hidden_size": 60,
            "intermediate_size": 100,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "head_dim": 12,
            "vocab_size": 259,
            "tie_word_embeddings": False,
        },
        Q.F32,
    ),
    "tied-f16": (
        {
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 16,
            "vocab_size": 301,
            "tie_word_embeddings": True,
        },
        Q.F16,
    ),
    "grouped-q8": (
        {
            "hidden_size": 96,
            "intermediate_size": 160,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "vocab_size": 320,
            "tie_word_embeddings": True,
        },
        Q.Q8_0,
    ),
    "llama3-rope-q4": (
        {
            "hidden_size": 128,
            "intermediate_size": 192,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "vocab_size": 288,
            "tie_word_embeddings": False,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
        Q.Q4_0,
    ),
    "linear-rope-f32": (
        {
            "hidden_size": 48,
            "intermediate_size": 80,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "head_dim": 16,
            "vocab_size": 263,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        },
        Q.F32,
    ),
    "yarn-rope-f32": (
        {
            "hidden_size": 48,
            "intermediate_size": 80,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "vocab_size": 263,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
        Q.F32,
    ),
    # neither q, k, v nor gate and up can be stacked: as in files that keep some matrices better
    "mixed-kinds": (
        {
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "vocab_size": 270,
            "tie_word_embeddings": False,
        },
        Q.Q4_0,
    ),
}
BETTER = {"mixed-kinds": {"attn_v": Q.Q8_0, "ffn_down": Q.Q8_0, "ffn_up": Q.Q5_1, "output.": Q.F16}}


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key matrix, halves to interleaved pairs, as GGUF files hold them."""
    rows, cols = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def write_model(path: Path, model: LlamaForCausalLM, default: Q) -> None:
    """Write a transformers Llama as GGUF and put the rounded weights back into the model."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    add_scaling(writer, config)
    add_tokenizer(writer, config.vocab_size)
    for name, parameter in tensors(model):
        data = parameter.detach().numpy()
        if data.ndim == 1:
            writer.add_tensor(name, data)
            continue
        stored = permute_if_needed(name, data, config)
        better = BETTER.get(path.stem, {})
        kind = next((better[part] for part in better if part in name), default)
        raw = gguf.quants.quantize(stored, kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
        rounded = gguf.quants.dequantize(raw, kind).reshape(stored.shape)
        parameter.data = torch.from_numpy(unpermute_if_needed(name, rounded, config).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_scaling(writer: gguf.GGUFWriter, config: LlamaConfig) -> None:
    """Rope scaling as GGUF says it: Llama 3's as a tensor of factors, the others as keys."""
    rope = config.rope_parameters
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    elif rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def llama3_factors(config: LlamaConfig) -> np.ndarray:
    """Divisors of the inverse frequencies: 1 for short wavelengths, ``factor`` for long ones."""
    rope = config.rope_parameters
    inverse = rope["rope_theta"] ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    wavelength = 2 * np.pi / inverse
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = (rope["original_max_position_embeddings"] / wavelength - low) / (high - low)
    smooth = np.clip(smooth, 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)


def add_tokenizer(writer: gguf.GGUFWriter, size: int) -> None:
    """A byte-level vocabulary: 256 bytes, an end token, one merge, then names."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    tokens = [*bytes_to_unicode().values(), "<|end|>", "ab"]
    tokens += [f"<extra{i}>" for i in range(size - len(tokens))]
    types = [1] * 256 + [3, 1] + [4] * (size - 258)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(256)
    writer.add_add_bos_token(False)


def tensors(model: LlamaForCausalLM):
    """GGUF names of the parameters; the output only where it is not tied."""
    names = {
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight
    if not model.config.tie_word_embeddings:
        yield "output.weight", model.lm_head.weight
    for index, layer in enumerate(model.model.layers):
        for path, name in names.items():
            yield f"blk.{index}.{name}.weight", layer.get_submodule(path).weight


def permute_if_needed(name: str, data: np.ndarray, config: LlamaConfig) -> np.ndarray:
    """Queries and keys go to the file with interleaved pairs."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    count = next((n for part, n in heads.items() if part in name), None)
    return data if count is None else permuted(data, count)


def unpermute_if_needed(name: str, data: np.ndarray, config: LlamaConfig) -> np.ndarray:
    """The inverse of :func:`permute_if_needed`."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    count = next((n for part, n in heads.items() if part in name), None)
    if count is None:
        return data
    rows, cols = data.shape
    return data.reshape(count, rows // count // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def greedy(model, prompt: list[int], count: int) -> tuple[list[int], np.ndarray]:
    """Greedy tokens, and the logits behind the prompt, f32 ``[vocabulary]``."""
    ids = torch.tensor([prompt])
    with torch.no_grad():
        logits = model(ids).logits[0, -1].float().numpy()
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            repetition_penalty=1.0,
        )
    return out[0, len(prompt) :].tolist(), logits


def make_tiny() -> None:
    """Random models: golden greedy tokens and logits of one prompt each."""
    FOLDER.mkdir(exist_ok=True)
    for name, (sizes, kind) in TINY.items():
        torch.manual_seed(7)
        config = LlamaConfig(
            num_hidden_layers=2,
            max_position_embeddings=256,
            rms_norm_eps=1e-5,
            initializer_range=0.12,
            attn_implementation="eager",
            **sizes,
        )
        model = LlamaForCausalLM(config).eval()
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.data += 0.2 * torch.randn_like(parameter)
        write_model(FOLDER / f"{name}.gguf", model, kind)
        rng = np.random.default_rng(1)
        prompt = rng.integers(0, 255, 90).tolist()
        model.generation_config.eos_token_id = None
        tokens, logits = greedy(model, prompt, 24)
        golden = {
            "prompt": prompt,
            "tokens": tokens,
            "logits": [round(float(x), 6) for x in logits],
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(golden))
        print(name, tokens[:8])


def make_smollm2(path: Path) -> None:
    """The real model, dequantised to float32: 64 greedy tokens of three prompts."""
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model.generation_config.eos_token_id = None
    cases = []
    for text in PROMPTS:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        tokens, logits = greedy(model, list(prompt), 64)
        top = np.argsort(-logits)[:50].tolist()
        some = sorted({*top, *range(0, len(logits), 997)})
        cases.append(
            {
                "text": text,
                "prompt": list(prompt),
                "tokens": tokens,
                "ids": some,
                "logits": [round(float(logits[i]), 5) for i in some],
                "scale": float(np.abs(logits).max()),
            }
        )
        print(repr(tokenizer.decode(tokens)))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "smollm2.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    if sys.argv[1:] == ["tiny"]:
        make_tiny()
    elif len(sys.argv) == 3 and sys.argv[1] == "smollm2":
        make_smollm2(Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
