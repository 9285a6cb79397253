"""Make the golden tokens of CLIP prompts with transformers; run once, by hand.

    python tests/golden/make_prompts.py [MERGES]     (writes tests/golden/prompts/*.json)

The starter model's tokenizer is read from its folder, CLIP's own from assets/clip-tokenizer. Needs
transformers, which the tests themselves do not.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from transformers import CLIPTokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from engine.image.prompt_tokenizer import (  # noqa: E402
    STANDARD_MERGES,
    _read_merges,
    _standard_vocab,
)

FOLDER = Path(__file__).parent / "prompts"
TEXTS = (
    "",
    " ",
    "a red apple",
    "A photograph of an astronaut riding a horse, 4k, highly detailed!!!",
    "it's the cat's pajamas; we'll see, they've, I'd, you're, I'm",
    "line\nbreaks\r\nand\ttabs   and  spaces",
    "1234 years, 3.14159, 50%",
    "caf\u00e9 na\u00efve \u00fcber stra\u00dfe",
    "cafe\u0301 decomposed",
    "\u65e5\u672c\u8a9e\u306e\u732b\u3001\u5bcc\u58eb\u5c71",
    "\u0391\u03b8\u03ae\u03bd\u03b1 \u041c\u043e\u0441\u043a\u0432\u0430 \u0130stanbul",
    "emoji \U0001f600\U0001f680 and \u2764\ufe0f family \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "quotes \"double\" 'single' \u201ccurly\u201d",
    "symbols: @#$%^&*()_+-=[]{}|\\;:,./<>?`~",
    "under_score snake_case camelCase kebab-case",
    "<|startoftext|>inside<|endoftext|> tokens",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "zero\u200bwidth and non\u00a0breaking",
    "blue cat " * 50,
)


def tokens(folder: Path) -> list[list[int]]:
    tokenizer = CLIPTokenizer.from_pretrained(str(folder))
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        standard = Path(name)
        vocab = _standard_vocab(_read_merges(STANDARD_MERGES))
        (standard / "vocab.json").write_text(json.dumps(vocab))
        (standard / "merges.txt").write_text(STANDARD_MERGES.read_text())
        made = {
            "starter": tokens(ROOT / "assets/starter-image/tokenizer"),
            "clip": tokens(standard),
        }
    rows = [
        {"text": text, **{name: lists[index] for name, lists in made.items()}}
        for index, text in enumerate(TEXTS)
    ]
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    (FOLDER / "tokens.json").write_text(text)
    print(len(rows), "texts")


if __name__ == "__main__":
    main()
