"""The tokenizer: byte-level BPE in CLIP's layout, trained on the words of the captions.

Training anew gives other numbers to the same words, so only a model from scratch may use it; a
model that goes on learning keeps the tokenizer it came with.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dataset import Item
from .words import table

VOCABULARY = 5000
LENGTH = 32  # tokens of a prompt, with start and end
START, END = "<|startoftext|>", "<|endoftext|>"
WORD_END = "</w>"
PIECES = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
LITTLE_WORDS = (
    "a an of on the background with and, in red orange yellow green blue purple pink brown black "
    "white gray teal cute happy"
)


def train(items: Sequence[Item], words: Sequence[str], folder: Path) -> None:
    """Train on names and words; write the files that a diffusers folder has."""
    merges = _learn_merges(list(_corpus(items, words)))
    vocabulary = _clip_order(merges)
    tokenizer = _assembled(vocabulary, merges)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), "utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    _write_settings(folder)


class Encoder:
    """Texts to rows of LENGTH numbers, padded with the end token as CLIP does."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.start, self.end = self._number(START), self._number(END)
        self.size: int = self._tokenizer.get_vocab_size()
        self._tokenizer.enable_truncation(LENGTH)
        self._tokenizer.enable_padding(length=LENGTH, pad_id=self.end, pad_token=END)

    def _number(self, token: str) -> int:
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise ValueError(f"This tokenizer has no {token}: it is not one of CLIP's kind.")
        return number

    def __call__(self, texts: Sequence[str], batch: int = 40_000) -> NDArray[np.int16]:
        """Token numbers [N, LENGTH]."""
        parts = [
            np.array([one.ids for one in self._tokenizer.encode_batch(texts[at : at + batch])])
            for at in range(0, len(texts), batch)
        ]
        return np.concatenate(parts).astype(np.int16)


def _corpus(items: Sequence[Item], words: Sequence[str]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for item in items:
        for text in [*item.names * 3, *item.aliases * 2, *item.keywords]:
            counts[text] += 1
    for text, count in counts.items():
        yield from [text] * min(count, 20)
    yield from words
    for styles in table("styles").values():
        yield from styles * 300
    yield from [LITTLE_WORDS] * 2000


def _parts() -> tuple[Any, Any]:
    """Normaliser and splitter, as CLIP has them."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    normaliser = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    split = pre_tokenizers.Split(Regex(PIECES), "removed", invert=True)
    levels = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return normaliser, pre_tokenizers.Sequence([split, levels])


def _learn_merges(corpus: list[str]) -> list[tuple[str, str]]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    learner = Tokenizer(models.BPE(end_of_word_suffix=WORD_END, unk_token=END))
    learner.normalizer, learner.pre_tokenizer = _parts()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 2,
        min_frequency=1,
        end_of_word_suffix=WORD_END,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    learner.train_from_iterator(corpus, trainer)
    merges = json.loads(learner.to_str())["model"]["merges"]
    pairs = [one.split(" ") if isinstance(one, str) else one for one in merges]
    return [(first, second) for first, second in pairs][: VOCABULARY - 2 - 2 * 256]


def byte_characters() -> list[str]:
    """The character that stands for each byte, in CLIP's order."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    shown += range(ord("®"), ord("ÿ") + 1)
    hidden = 256 - len(shown)
    return [chr(code) for code in shown] + [chr(256 + index) for index in range(hidden)]


def _clip_order(merges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Bytes, bytes that end a word, merges, start, end."""
    base = byte_characters()
    ends = [character + WORD_END for character in base]
    joined = [first + second for first, second in merges]
    tokens = dict.fromkeys([*base, *ends, *joined, START, END])
    return {token: number for number, token in enumerate(tokens)}


def _assembled(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, processors

    model = models.BPE(
        vocab=vocabulary, merges=merges, end_of_word_suffix=WORD_END, unk_token=END, fuse_unk=False
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = _parts()
    tokenizer.decoder = decoders.ByteLevel()
    end, start = (END, vocabulary[END]), (START, vocabulary[START])
    tokenizer.post_processor = processors.RobertaProcessing(
        end, start, trim_offsets=False, add_prefix_space=False
    )
    marks = [AddedToken(START, special=True, normalized=True)]
    marks.append(AddedToken(END, special=True, normalized=False))
    tokenizer.add_special_tokens(marks)
    return tokenizer


def _write_settings(folder: Path) -> None:
    marks = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
    rules = {"do_lower_case": True, "errors": "replace", "add_prefix_space": False}
    config = {"tokenizer_class": "CLIPTokenizer", "model_max_length": LENGTH, **marks, **rules}
    for name, value in (("tokenizer_config", config), ("special_tokens_map", marks)):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=1), "utf-8")
