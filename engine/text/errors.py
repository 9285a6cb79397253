"""What can go wrong with text, as types; each message is a sentence that a person can act on."""

from __future__ import annotations


class TextError(Exception):
    """Base of every error that the text floor raises."""


class UnsupportedModelError(TextError):
    """The file is sound, but its architecture or a part of it is not one that we run."""


class ContextFullError(TextError):
    """The prompt does not fit in the context that the model was loaded with.

    Attributes:
        needed: tokens that the prompt has, the answer's first token included.
        available: tokens of the context.
    """

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(
            f"This needs {needed:,} tokens and the context has {available:,}. "
            "Shorten the text or load the model with a longer context."
        )
        self.needed = needed
        self.available = available
