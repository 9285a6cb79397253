"""Make models.json: what llama.cpp makes of the texts with the vocabularies of real model files.

Needs `cyllama`. Run: python make_models.py SmolLM2-135M-Instruct.Q4_1.gguf gemma-3-270m-q4_k_m.gguf
"""

from __future__ import annotations

import json
import sys

from make_bpe import HERE, tokenise

NAMES = ("smollm2", "gemma3")


def main() -> None:
    """Write models.json."""
    texts = json.loads((HERE / "texts.json").read_text())
    golden: dict[str, list[list[int] | None]] = {}
    for name, path in zip(NAMES, sys.argv[1:], strict=True):
        rows = tokenise(path, False)
        # SentencePiece does not tell a space from its own mark for one; llama.cpp does. And it
        # takes </s>, which is an HTML tag to Gemma, for a control token.
        odd = ["▁" in text or "</s>" in text for text in texts]
        golden[name] = [
            None if skip and name == "gemma3" else row for skip, row in zip(odd, rows, strict=True)
        ]
    (HERE / "models.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
