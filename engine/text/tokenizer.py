"""Text to token ids and back, for the vocabularies that GGUF files carry.

Control tokens (``<|im_end|>``, ``</s>``) come out of text only when the caller says that the text
is a template's (``special=True``); the same characters typed by a person stay text.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tokenizers import Tokenizer as FastTokenizer
from tokenizers import models

from engine.text.pretokenizers import build, recipe_for
from engine.text.splitting import TokenSplitter
from engine.text.spm import SPACE, SpmModel
from engine.text.vocabulary import TokenizerError, TokenType, Vocabulary, read_vocabulary

__all__ = ["StreamDecoder", "Tokenizer", "TokenizerError", "load_tokenizer"]

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class TextModel(Protocol):
    """What turns plain text into ids; it never makes a control token."""

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``."""
        ...


class BytePairModel:
    """Byte-level pairs, merged in the order of a list, inside the words of a pre-tokenizer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        recipe = recipe_for(vocabulary.pre)
        tokens, types = vocabulary.tokens, vocabulary.types
        control = int(TokenType.CONTROL)
        ids = {word: index for index, word in enumerate(tokens) if types[index] != control}
        merges = vocabulary.merges
        barred = {tokens[index] for index in vocabulary.ids_of(TokenType.CONTROL)}
        if barred:  # no text may merge into a control token, whatever the file lists
            merges = [pair for pair in merges if pair[0] + pair[1] not in barred]
        known = [pair for pair in merges if _is_known(pair, ids)]
        self.ignored_merges = len(merges) - len(known)
        model = models.BPE(vocab=ids, merges=known, ignore_merges=recipe.whole_words)
        self._fast = FastTokenizer(model)
        self._fast.pre_tokenizer = build(recipe)
        self._splitter = TokenSplitter(
            {tokens[index]: index for index in vocabulary.ids_of(TokenType.USER_DEFINED)}
        )

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``; user-defined tokens are taken whole."""
        output: list[int] = []
        for piece in self._splitter.split(text):
            if isinstance(piece, int):
                output.append(piece)
            else:
                output.extend(self._fast.encode(piece, add_special_tokens=False).ids)
        return output


class Tokenizer:
    """A model's vocabulary, ready to use.

    Attributes:
        vocab_size: number of tokens.
        bos_id: the token at the beginning of a text, or None.
        eos_ids: every token that ends an answer.
        add_bos: whether the model wants ``bos_id`` in front of a text.
        warnings: sentences for the person about what had to be guessed.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.vocab_size = len(vocabulary.tokens)
        self.bos_id = vocabulary.bos_id
        self.eos_id = vocabulary.eos_id
        self.unk_id = vocabulary.unk_id
        self.pad_id = vocabulary.pad_id
        self.eos_ids = vocabulary.end_ids
        self.add_bos = vocabulary.add_bos
        self.warnings = vocabulary.warnings
        self.strips_first_space = vocabulary.kind == "spm" and vocabulary.add_space_prefix
        if vocabulary.kind == "spm":
            self._model: TextModel = SpmModel(vocabulary)
        else:
            self._model = pairs = BytePairModel(vocabulary)
            if pairs.ignored_merges:
                self.warnings += (
                    f"{pairs.ignored_merges:,} merges of the tokenizer name tokens that the "
                    "vocabulary lacks; they are left out, and words may be cut in odd places.",
                )
        special = vocabulary.ids_of(TokenType.CONTROL, TokenType.UNKNOWN)
        self._special = frozenset(special)
        self._table = {vocabulary.tokens[index]: index for index in special}
        self._splitter = TokenSplitter(self._table)
        self._bytes_of: dict[int, bytes] = {}

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Text and id of every control token."""
        return self._table

    def is_special(self, token_id: int) -> bool:
        """Whether a token controls the model and is no text."""
        return token_id in self._special

    def token_text(self, token_id: int) -> str:
        """The token as the vocabulary writes it."""
        self._check(token_id)
        return self._vocabulary.tokens[token_id]

    def encode(self, text: str, *, special: bool = False, add_bos: bool | None = None) -> list[int]:
        """Token ids of ``text``.

        ``special`` lets the text name control tokens (for templates, never for what a person
        typed). ``add_bos`` None follows the model; a text that already begins with the token
        keeps one.
        """
        return self.encode_parts([(text, special)], add_bos=add_bos)

    def encode_parts(
        self, parts: Iterable[tuple[str, bool]], *, add_bos: bool | None = None
    ) -> list[int]:
        """Ids of a text that is given in parts ``(text, special)``.

        Parts are tokenised as one text: a word may reach across a border, a control token not.
        """
        output: list[int] = []
        plain = ""
        for text, special in parts:
            for piece in self._splitter.split(_valid(text)) if special else (_valid(text),):
                if isinstance(piece, str):
                    plain += self._behind_special(piece) if not plain and output else piece
                    continue
                output += self._model.encode(plain)
                output.append(piece)
                plain = ""
        output += self._model.encode(plain)
        begin = self.add_bos if add_bos is None else add_bos
        if begin and self.bos_id is not None and output[:1] != [self.bos_id]:
            output.insert(0, self.bos_id)
        return output

    def _behind_special(self, text: str) -> str:
        return text.lstrip() if self._vocabulary.rstrip else text

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of ``ids``; control tokens are left out unless ``special`` shows them."""
        data = b"".join(self.token_bytes(index, special=special) for index in ids)
        text = data.decode("utf-8", "replace")
        return text.removeprefix(" ") if self.strips_first_space else text

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """UTF-8 bytes of one token, perhaps only a part of a character.

        A control token is no text and gives none, unless ``special`` asks for its name.
        """
        self._check(token_id)
        if token_id in self._special:
            return self._vocabulary.tokens[token_id].encode() if special else b""
        data = self._bytes_of.get(token_id)
        if data is None:
            data = self._bytes_of[token_id] = self._make_bytes(token_id)
        return data

    def _make_bytes(self, token_id: int) -> bytes:
        word = self._vocabulary.tokens[token_id]
        kind = self._vocabulary.types[token_id]
        if kind == TokenType.BYTE and (value := _byte_value(word)) is not None:
            return bytes([value])
        if self._vocabulary.kind == "spm":
            return word.replace(SPACE, " ").encode()
        if kind == TokenType.USER_DEFINED:
            return word.encode()
        try:
            return bytes(_BYTE_OF[char] for char in word)
        except KeyError:  # a token that is outside the byte alphabet stands for itself
            return word.encode()

    def _check(self, token_id: int) -> None:
        if not 0 <= token_id < self.vocab_size:
            raise TokenizerError(
                f"Token {token_id} does not exist; the vocabulary has {self.vocab_size:,} tokens."
            )


class StreamDecoder:
    """Decodes an answer token by token, each in constant time, and shows whole characters only.

    ``continuing`` keeps the first space of a SentencePiece answer: the text goes on behind other
    text. Otherwise that space only marks the beginning of a word, and is dropped.
    """

    def __init__(self, tokenizer: Tokenizer, *, continuing: bool = False) -> None:
        self._tokenizer = tokenizer
        self._strip = tokenizer.strips_first_space and not continuing
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The characters that ``token_id`` completes; perhaps none."""
        return self._show(self._decoder.decode(self._tokenizer.token_bytes(token_id)))

    def flush(self) -> str:
        """What is left at the end: U+FFFD when a character stayed incomplete."""
        return self._show(self._decoder.decode(b"", final=True))

    def _show(self, text: str) -> str:
        if text and self._strip:
            self._strip = False
            return text.removeprefix(" ")
        return text


def load_tokenizer(metadata: Mapping[str, object]) -> Tokenizer:
    """The tokenizer that a GGUF file describes; :class:`TokenizerError` says why it cannot be."""
    return Tokenizer(read_vocabulary(metadata))


def _is_known(pair: tuple[str, str], ids: Mapping[str, int]) -> bool:
    """Whether both parts of a merge and their union are tokens; other merges can never apply."""
    left, right = pair
    return left in ids and right in ids and left + right in ids


def _valid(text: str) -> str:
    """``text`` with every lone half of a surrogate pair replaced, as UTF-8 cannot hold it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _byte_value(word: str) -> int | None:
    """The value of a ``<0x0A>`` token."""
    if len(word) == 6 and word.startswith("<0x") and word.endswith(">"):
        try:
            return int(word[3:5], 16)
        except ValueError:
            return None
    return None


def _byte_alphabet() -> dict[str, int]:
    """The printable character that byte-level vocabularies write for each byte, inverted."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(value): value for value in printable}
    hidden = [value for value in range(256) if value not in set(printable)]
    table.update({chr(256 + place): value for place, value in enumerate(hidden)})
    return table


_BYTE_OF = _byte_alphabet()
