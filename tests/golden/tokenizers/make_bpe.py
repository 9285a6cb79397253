"""Make bpe.json: a small byte-level vocabulary, and what llama.cpp makes of texts with it.

Its merges were learnt on whole texts, across words, digits and line ends, so that tokens show where
each pre-tokenizer cuts. Needs `tokenizers`, `gguf` and `cyllama` (llama.cpp for Python; 0.2.18 made
the committed file). Run: python make_bpe.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = (
    "default gpt-2 smollm falcon llama-bpe qwen2 qwen35 gpt-4o tekken deepseek-llm deepseek-coder"
    " deepseek-v3 bloom viking bailingmoe seed-coder"
)
PRE_TOKENIZERS = NAMES.split()  # one for each set of patterns
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_DEFINED = ["<think>", "</think>"]

CASED = ("gpt-4o", "tekken")  # llama.cpp only knows the case of A to Z in these
LINE_ENDS = ("deepseek-llm", "deepseek-coder")  # it counts U+2029 as white space; Oniguruma not


def comparable(name: str, text: str) -> bool:
    """Whether llama.cpp cuts ``text`` as the model's own tokenizer does."""
    letters = any(ord(char) > 127 and char.isalpha() for char in text)
    return not (name in CASED and letters) and not (name in LINE_ENDS and "\u2029" in text)


def train(texts: list[str]) -> dict[str, Any]:
    """Metadata of a GGUF file with a vocabulary learnt on ``texts``."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = [text for text in texts if not any(word in text for word in CONTROL + USER_DEFINED)]
    # Parts of texts several times, so that many different beginnings of words are learnt.
    parts = texts * 3 + [text[place : place + 9] for text in texts for place in range(len(text))]
    trainer = trainers.BpeTrainer(
        vocab_size=1400, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(parts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    ordered = sorted(model["vocab"], key=model["vocab"].__getitem__)
    tokens = CONTROL + USER_DEFINED + ordered
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(CONTROL)
        + [4] * len(USER_DEFINED)
        + [1] * len(ordered),
        "tokenizer.ggml.merges": [" ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
    }


def tokenise(path: str, special: bool) -> list[list[int]]:
    """What llama.cpp makes of every text (in a process of its own: it ends on bad files)."""
    from cyllama.llama.llama_cpp import LlamaModel, LlamaModelParams

    params = LlamaModelParams()
    params.n_gpu_layers = 0
    model = LlamaModel(path, params)
    vocab = model.get_vocab()
    texts = json.loads((HERE / "texts.json").read_text())
    return [list(vocab.tokenize(text, False, special)) for text in texts]


def reference(metadata: dict[str, Any], special: bool) -> list[list[int]]:
    """Ids of every text, from llama.cpp."""
    from gguf_vocab import write_vocab

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.gguf"
        write_vocab(path, metadata)
        arguments = [sys.executable, __file__, str(path), "special" if special else "plain"]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Write bpe.json, or, given a file, print its ids."""
    if len(sys.argv) == 3:
        print(json.dumps(tokenise(sys.argv[1], sys.argv[2] == "special")))
        return
    texts = json.loads((HERE / "texts.json").read_text())
    metadata = train(texts)
    ids: dict[str, list[list[int] | None]] = {}
    for name in PRE_TOKENIZERS:
        found = reference(metadata | {"tokenizer.ggml.pre": name}, False)
        pairs = zip(texts, found, strict=True)
        ids[name] = [row if comparable(name, text) else None for text, row in pairs]
    special = reference(metadata | {"tokenizer.ggml.pre": "qwen2"}, True)
    golden = {"metadata": metadata, "ids": ids, "special_ids": {"qwen2": special}}
    (HERE / "bpe.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
