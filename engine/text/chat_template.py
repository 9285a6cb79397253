"""From a conversation to the prompt that a model was trained on.

A model file carries its template as a Jinja program (run in :mod:`engine.text.template_sandbox`).
Control tokens may come only from that program: a person who types ``<|im_end|>`` has typed text. So
the messages are marked before they go in. In a message, a character with which a control token
begins is exchanged for a private-use character, one for one, so that lengths, splits and trims
come out the same; after rendering, what is still a control token is the template's, and the marks
turn back into the characters they stand for.

A template that looks into messages for such characters (for ``</think>``, say) would behave
differently. That shows, as each conversation is rendered with every such character marked and
again with only those that do begin a control token: where the two differ, the second counts.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jinja2

from engine.text.errors import TextError
from engine.text.fallback_templates import Fallback, choose_fallback
from engine.text.splitting import TokenSplitter
from engine.text.template_sandbox import (
    SECONDS,
    SIZE_LIMIT,
    Budget,
    GuardedEnvironment,
    LimitError,
    RefusalError,
)
from engine.text.tokenizer import Tokenizer

Message = Mapping[str, Any]

# What a broken template can raise when it is compiled or run, besides our own two.
_BROKEN = (
    jinja2.TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class TemplateError(TextError):
    """A conversation could not be turned into a prompt.

    Attributes:
        refused: the template itself said no, in its own words (an unsupported role, say).
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True)
class Piece:
    """A part of a prompt: one control token (``special``), or text that is nothing but text."""

    text: str
    special: bool


class ChatTemplate:
    """A model's template, or one that stands in for it.

    Attributes:
        source: the Jinja text.
        warning: a sentence for the person when the template is not the model's own, or None.
        stops: stop strings that end an answer where the model has no token for that.
    """

    def __init__(
        self,
        source: str,
        tokenizer: Tokenizer,
        *,
        warning: str | None = None,
        stops: tuple[str, ...] = (),
    ) -> None:
        self.source = source
        self.warning = warning
        self.stops = stops
        self._tokenizer = tokenizer
        self._splitter = TokenSplitter(tokenizer.special_tokens)
        self._lock = threading.Lock()
        self._environment = GuardedEnvironment()
        try:
            self._template = self._environment.compile_source(source)
        except LimitError as cause:
            raise TemplateError(f"The chat template of this model {cause}.") from cause
        except _BROKEN as cause:
            raise TemplateError(_broken(cause)) from cause

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object], tokenizer: Tokenizer) -> ChatTemplate:
        """The template of a GGUF file; one chosen by its tokens if it has none that works."""
        source = metadata.get("tokenizer.chat_template")
        if not isinstance(source, str) or not source.strip():
            return cls._fallback(metadata, tokenizer, "The model has no chat template")
        template = None
        try:
            template = cls(source, tokenizer)
            template.render([{"role": "user", "content": "Hello"}])
        except TemplateError as problem:
            if template is None or not problem.refused:
                return cls._fallback(metadata, tokenizer, str(problem).rstrip("."))
        return template

    @classmethod
    def _fallback(
        cls, metadata: Mapping[str, object], tokenizer: Tokenizer, reason: str
    ) -> ChatTemplate:
        architecture, name = (
            str(metadata.get(key, "")) for key in ("general.architecture", "general.name")
        )
        chosen: Fallback = choose_fallback(tokenizer.special_tokens, architecture, name)
        warning = f"{reason}; the {chosen.name} form is used instead, and answers may suffer."
        return cls(chosen.source, tokenizer, warning=warning, stops=chosen.stops)

    @functools.cached_property
    def supports_system(self) -> bool:
        """Whether a system message reaches the prompt."""
        word = "Lighthouse"
        messages = [{"role": "system", "content": word}, {"role": "user", "content": "Hello"}]
        try:
            return any(word in piece.text for piece in self.render(messages))
        except TemplateError:
            return False

    @functools.cached_property
    def end_ids(self) -> frozenset[int]:
        """The control token that the template puts behind an answer, if any; it ends one too."""
        word = "Lighthouse"
        messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": word}]
        try:
            pieces = self.render(messages, add_generation_prompt=False)
        except TemplateError:
            return frozenset()
        places = [place for place, piece in enumerate(pieces) if word in piece.text]
        behind = pieces[places[-1] + 1 :] if places else []
        if not behind or pieces[places[-1]].text.rstrip().rpartition(word)[2]:
            return frozenset()
        return frozenset({self._tokenizer.special_tokens[behind[0].text]})

    def encode(
        self,
        messages: Sequence[Message],
        tokenizer: Tokenizer | None = None,
        add_generation_prompt: bool = True,
        *,
        continue_last: bool = False,
    ) -> list[int]:
        """Token ids of the prompt, with the model's beginning token if it wants one."""
        pieces = self.render(
            messages, add_generation_prompt=add_generation_prompt, continue_last=continue_last
        )
        parts = [(piece.text, piece.special) for piece in pieces]
        return (tokenizer or self._tokenizer).encode_parts(parts)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_last: bool = False,
    ) -> list[Piece]:
        """The prompt in pieces.

        ``continue_last`` ends it inside the last message, so that the model goes on with it.
        :class:`TemplateError` says why a conversation cannot be rendered.
        """
        plain = _checked(messages)
        marks = _Marks(self._splitter, plain)
        ending = marks.ending if continue_last else ""
        if ending:
            plain[-1]["content"] += ending
        generate = add_generation_prompt and not continue_last

        def run(marked: list[dict[str, Any]]) -> str:
            text = self._run(marked, generate)
            return _cut(text, ending) if ending else text

        careful = run(marks.only_tokens(plain))
        if marks.needed:
            strict = run(marks.everywhere(plain))
            if marks.remove(strict) == marks.remove(careful):
                careful = strict
        return self._pieces(careful, marks)

    def render_text(self, messages: Sequence[Message], **options: Any) -> str:
        """The prompt as one text, control tokens by name."""
        return "".join(piece.text for piece in self.render(messages, **options))

    def _pieces(self, text: str, marks: _Marks) -> list[Piece]:
        pieces: list[Piece] = []
        for part in self._splitter.split(text):
            if isinstance(part, int):
                pieces.append(Piece(self._tokenizer.token_text(part), True))
            else:
                pieces.append(Piece(marks.remove(part), False))
        return pieces

    def _run(self, messages: list[dict[str, Any]], add_generation_prompt: bool) -> str:
        size = SIZE_LIMIT + 4 * sum(len(str(message["content"])) for message in messages)
        values = {
            "messages": messages,
            "tools": None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **self._special_names(),
        }
        with self._lock:
            self._environment.budget = Budget(size, SECONDS)
            try:
                return self._environment.concat(
                    self._template.root_render_func(self._template.new_context(values))
                )
            except RefusalError as cause:
                said = str(cause).strip() or "This conversation is not one the model can take."
                raise TemplateError(said, refused=True) from cause
            except LimitError as cause:
                raise TemplateError(f"The chat template of this model {cause}.") from cause
            except _BROKEN as cause:
                raise TemplateError(_broken(cause)) from cause

    def _special_names(self) -> dict[str, str]:
        tokenizer = self._tokenizer
        named = {
            "bos_token": tokenizer.bos_id,
            "eos_token": tokenizer.eos_id,
            "unk_token": tokenizer.unk_id,
            "pad_token": tokenizer.pad_id,
        }
        return {
            name: tokenizer.token_text(index) for name, index in named.items() if index is not None
        }


class _Marks:
    """Private-use characters that stand for the first characters of control tokens."""

    def __init__(self, splitter: TokenSplitter, messages: Sequence[Message]) -> None:
        text = "".join(_texts(messages))
        used = set(text)
        spare = (chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in used)
        self.ending = next(spare)
        firsts = [first for first in splitter.first_characters if first in used]
        self.needed = bool(firsts)
        self._mark = {first: next(spare) for first in firsts}
        self._remove = str.maketrans({mark: first for first, mark in self._mark.items()})
        self._table = str.maketrans(self._mark)
        self._splitter = splitter

    def everywhere(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Messages in which no character can begin a control token."""
        return [_mapped(message, self._mark_all) for message in messages]

    def only_tokens(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Messages in which the control tokens that are there are broken up, and nothing else."""
        return [_mapped(message, self._break_tokens) for message in messages]

    def remove(self, text: str) -> str:
        """The text without marks."""
        return text.translate(self._remove)

    def _mark_all(self, text: str) -> str:
        return text.translate(self._table)

    def _break_tokens(self, text: str) -> str:
        characters = list(text)
        for place in self._splitter.places(text):
            characters[place] = self._mark[text[place]]
        return "".join(characters)


def _texts(value: Any) -> list[str]:
    """Every text inside a message or a list of them."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, Any]", value).values())
    if isinstance(value, (list, tuple)):
        return [text for item in cast("Sequence[Any]", value) for text in _texts(item)]
    return []


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of ``value`` with every text changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        return {key: _mapped(item, change) for key, item in table.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(item, change) for item in cast("Sequence[Any]", value)]
    return value


def _checked(messages: Sequence[Message]) -> list[dict[str, Any]]:
    if not messages:
        raise TemplateError("There is no message to answer.")
    for place, message in enumerate(messages):
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                raise TemplateError(f"Message {place + 1} has no text under {key!r}.")
    return [dict(message) for message in messages]


def _cut(text: str, ending: str) -> str:
    before, found, _ = text.rpartition(ending)
    if not found:
        raise TemplateError("The chat template of this model cannot continue an answer.")
    return before


def _broken(cause: BaseException) -> str:
    line = getattr(cause, "lineno", None)
    where = f" (line {line})" if isinstance(line, int) else ""
    said = re.sub(r"\s+", " ", str(cause)).strip() or type(cause).__name__
    return f"The chat template of this model is broken: {said[:200].rstrip('.')}{where}."
