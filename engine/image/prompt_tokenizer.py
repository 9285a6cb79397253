"""CLIP's tokenizer: lower-case byte-pair encoding with word ends.

It is built here from the vocabulary and the merges, so that a model's own tokenizer.json decides
nothing but its words; only a model that has no vocab.json is read by its tokenizer.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from engine.formats.diffusers import TokenizerFiles
from engine.formats.errors import CorruptFile, FormatError

BOS, EOS = "<|startoftext|>", "<|endoftext|>"
WORD_END = "</w>"
# Beside the packages, or inside a frozen app.
_ROOT = Path(getattr(sys, "_MEIPASS", None) or Path(__file__).resolve().parents[2])
STANDARD_MERGES = _ROOT / "assets" / "clip-tokenizer" / "merges.txt"
MAX_FILE_BYTES = 64 << 20

_WORDS = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


@dataclass(frozen=True)
class PromptTokenizer:
    """A CLIP tokenizer; ``positions`` is how many tokens its encoder takes, both ends included."""

    tokenizer: Tokenizer
    bos_id: int
    eos_id: int
    pad_id: int
    positions: int

    @property
    def limit(self) -> int:
        """Tokens of a prompt that the encoder takes at once."""
        return self.positions - 2

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without start and end."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def encode_with_places(self, text: str) -> list[tuple[int, int]]:
        """The tokens of a text, each with the place in the text where it begins."""
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        return [
            (token, span[0]) for token, span in zip(encoding.ids, encoding.offsets, strict=True)
        ]

    def count(self, text: str) -> int:
        """How many tokens a text has."""
        return len(self.encode(text))


def load_prompt_tokenizer(files: TokenizerFiles) -> PromptTokenizer:
    """The tokenizer of a model. Raises CorruptFile with the reason when its files are unsound."""
    if files.vocab and files.merges:
        vocab, merges = _read_vocab(files.vocab), _read_merges(files.merges)
        return _finish(_built(vocab, merges, files.merges.name), vocab.get, files)
    if files.json:
        label = files.json.name
        tokenizer = _guarded(label, lambda: Tokenizer.from_str(_read(files.json)))
        return _finish(tokenizer, tokenizer.token_to_id, files)
    merges = _read_merges(STANDARD_MERGES)
    vocab = _standard_vocab(merges)
    return _finish(_built(vocab, merges, STANDARD_MERGES.name), vocab.get, files)


def _finish(
    tokenizer: Tokenizer, find: Callable[[str], int | None], files: TokenizerFiles
) -> PromptTokenizer:
    ids = {name: find(name) for name in (BOS, EOS, files.pad)}
    bos, eos, pad = ids[BOS], ids[EOS], ids[files.pad]
    if bos is None or eos is None:
        raise CorruptFile(f"The model's tokenizer has no {BOS if bos is None else EOS}.")
    return PromptTokenizer(tokenizer, bos, eos, eos if pad is None else pad, files.positions)


def _built(vocab: Mapping[str, int], merges: list[tuple[str, str]], label: str) -> Tokenizer:
    def build() -> Tokenizer:
        made = Tokenizer(
            models.BPE(
                vocab=dict(vocab),
                merges=merges,
                continuing_subword_prefix="",
                end_of_word_suffix=WORD_END,
                fuse_unk=False,
                unk_token=EOS,
            )
        )
        made.normalizer = normalizers.Sequence(
            [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
        )
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        # The ends are tokens of their own wherever they stand, as in every CLIP tokenizer.
        ends = [token for token in (BOS, EOS) if token in vocab]
        made.add_special_tokens(ends)  # pyright: ignore[reportUnknownMemberType]
        return made

    return _guarded(label, build)


def _guarded(label: str, make: Callable[[], Tokenizer]) -> Tokenizer:
    try:
        return make()
    except FormatError:
        raise
    except Exception as error:  # the library raises bare exceptions for everything
        raise CorruptFile(f"The model's {label} is damaged: {str(error)[:120]}.") from error


def _read(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise CorruptFile(f"{path.name} has more than {MAX_FILE_BYTES:,} bytes.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptFile(f"{path.name} cannot be read: {error}.") from error


def _read_vocab(path: Path) -> dict[str, int]:
    try:
        loaded: Any = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{path.name} is damaged: it is not JSON.") from error
    table = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    if not table or any(type(value) is not int for value in table.values()):
        raise CorruptFile(f"{path.name} is damaged: it does not map words to numbers.")
    return table


def _read_merges(path: Path) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise CorruptFile(f"{path.name} is damaged: line {number} is not a pair of words.")
        merges.append((pair[0], pair[1]))
    return merges


def _standard_vocab(merges: list[tuple[str, str]]) -> dict[str, int]:
    """CLIP's own vocabulary follows from its merges: bytes, bytes at word ends, merges, ends."""
    letters = _byte_letters()
    words = [*letters, *(letter + WORD_END for letter in letters)]
    words += ["".join(pair) for pair in merges]
    return {word: number for number, word in enumerate([*words, BOS, EOS])}


def _byte_letters() -> list[str]:
    """A printable letter for each byte, in the order of the vocabulary: printable bytes first."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + index) for index in range(len(others))]
