"""Whether a model fits the GPU now, in numbers and in words. No Qt.

The rule of the page: first what happens ("Does not fit by 0.6 GiB"), then what to do about it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from app.memory.units import count, gib

SHORTEST_CONTEXT = 512


class Level(enum.Enum):
    """How a fit line is coloured. The words say the same, so colour is never alone."""

    LOADED = "loaded"
    FITS = "fits"
    SHORT = "short"
    UNKNOWN = "unknown"
    BROKEN = "broken"


@dataclass(frozen=True)
class Need:
    """What a load needs, in bytes, at ``context`` tokens."""

    weights: int
    kv_cache: int
    activations: int
    context: int

    @property
    def total(self) -> int:
        """Everything together."""
        return self.weights + self.kv_cache + self.activations

    def with_context(self, context: int) -> Need:
        """The need at another context, as far as it is known by parts."""
        if context <= 0 or self.context <= 0:
            return self
        cache = self.kv_cache * context // self.context
        return Need(self.weights, cache, self.activations, context)

    def at(self, context: int) -> int:
        """Bytes at another context: the KV cache grows with it, the rest stays."""
        return self.with_context(context).total


@dataclass(frozen=True)
class FitLine:
    """Two lines of a card: the headline and, dimmed, its detail."""

    level: Level
    headline: str
    detail: str = ""
    context: int | None = None  # a shorter context that would fit, offered as one click


@dataclass(frozen=True)
class Room:
    """GPU memory for a next load: ``free`` bytes now (None: unknown) and what unloading gives."""

    free: int | None
    unloading: int = 0
    headroom: int = 0  # kept for the desktop, from the settings

    @property
    def usable(self) -> int | None:
        """Bytes that a load may take once the loaded model is out; None where unknown."""
        if self.free is None:
            return None
        return max(0, self.free + self.unloading - self.headroom)


def fit_line(need: Need | None, room: Room, *, smaller_exists: bool = False) -> FitLine:
    """Say whether ``need`` fits into ``room``. ``smaller_exists``: a smaller model is installed."""
    if need is None:
        return FitLine(Level.UNKNOWN, "Not measured yet", "Load it to see what it needs")
    usable = room.usable
    if usable is None:
        return FitLine(
            Level.UNKNOWN, f"Needs {gib(need.total)}", "how much is free is not known yet"
        )
    if need.total <= usable:
        after = " after unloading" if room.unloading and need.total > (room.free or 0) else ""
        return FitLine(Level.FITS, "Fits", f"needs {gib(need.total)} of {gib(usable)} free{after}")
    short = need.total - usable
    context = longest_context(need, usable)
    return FitLine(
        Level.SHORT,
        f"Does not fit by {gib(short)}",
        _advice(context, smaller_exists),
        context,
    )


def loaded_line(held: int, context: int, context_max: int) -> FitLine:
    """The line of the loaded model: what it holds and the context it was given."""
    detail = f"{count(context)}-token context" if context else "ready to chat"
    if context and context_max > context:
        detail = f"{count(context)} of {count(context_max)} tokens of context"
    headline = f"Loaded · {gib(held)}" if held > 0 else "Loaded"
    return FitLine(Level.LOADED, headline, detail)


def broken_line(problem: str) -> FitLine:
    """The line of a file that cannot be used; ``problem`` is the worker's sentence."""
    return FitLine(Level.BROKEN, "Cannot be used", problem)


def longest_context(need: Need, usable: int) -> int | None:
    """The longest shorter context (a power of two) that fits, or None where none does."""
    context = 1 << max(0, (need.context - 1).bit_length() - 1)
    while context >= SHORTEST_CONTEXT:
        if context < need.context and need.at(context) <= usable:
            return context
        context //= 2
    return None


def short_words(need: Need, room: Room) -> str:
    """Cause, numbers, next step, as the sentence of a message before a load is refused."""
    usable = room.usable or 0
    line = fit_line(need, room)
    return (
        f"This model needs {gib(need.total)} and {gib(usable)} are free. "
        f"{line.detail[:1].upper()}{line.detail[1:]}."
    )


def _advice(context: int | None, smaller_exists: bool) -> str:
    if context is not None:
        return f"choose a {count(context)}-token context or a smaller quantisation"
    if smaller_exists:
        return "choose a smaller quantisation or another model"
    return "choose a smaller model, or close programs that use the GPU"
