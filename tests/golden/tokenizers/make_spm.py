"""Make spm.json: two small SentencePiece vocabularies, and what SentencePiece makes of texts.

One adds a space in front of a text (as Llama 2 does), one does not (as Gemma). Needs
`sentencepiece`. Run: python make_spm.py
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import sentencepiece as spm

HERE = Path(__file__).parent


def train(texts: list[str], prefix: bool, bytes_for_unknown: bool) -> spm.SentencePieceProcessor:
    """A byte-pair model that leaves texts as they are."""
    model = io.BytesIO()
    lines = [line for text in texts for line in text.split("\n") if "\x00" not in line]
    # The last lines are left out, so that some characters are unknown.
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 2),
        model_writer=model,
        model_type="bpe",
        vocab_size=700,
        character_coverage=0.98,
        byte_fallback=bytes_for_unknown,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        hard_vocab_limit=False,
        user_defined_symbols=["<think>", "▁▁▁▁", "\n\n"],
        control_symbols=["<|im_end|>"],
        minloglevel=2,
    )
    return spm.SentencePieceProcessor(model_proto=model.getvalue())


def metadata(model: spm.SentencePieceProcessor, prefix: bool) -> dict[str, Any]:
    """The vocabulary as a GGUF file writes it."""
    tokens, scores, types = [], [], []
    for index in range(model.vocab_size()):
        piece = model.id_to_piece(index)
        kind = 1
        if model.is_unknown(index):
            kind = 2
        elif model.is_control(index):
            kind = 3
        elif model.is_unused(index):
            kind = 5
        elif model.is_byte(index):
            kind = 6
        elif piece in ("<think>", "▁▁▁▁", "\n\n"):
            kind = 4
        tokens.append(piece.replace("▁", " ") if kind == 4 else piece)
        scores.append(model.get_score(index))
        types.append(kind)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": model.bos_id(),
        "tokenizer.ggml.eos_token_id": model.eos_id(),
        "tokenizer.ggml.unknown_token_id": model.unk_id(),
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": prefix,
    }


def main() -> None:
    """Write spm.json."""
    texts = json.loads((HERE / "texts.json").read_text())
    golden = {}
    for name, prefix, with_bytes in (
        ("prefix", True, True),
        ("plain", False, True),
        ("unknown", True, False),
    ):
        model = train(texts, prefix, with_bytes)
        ids = [model.encode(text) for text in texts]
        golden[name] = {
            "metadata": metadata(model, prefix),
            "ids": ids,
            "texts": [model.decode(row) for row in ids],
        }
    (HERE / "spm.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
