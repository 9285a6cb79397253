"""Time: one deadline for everything, and a learning rate that reaches zero exactly then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

WARM_UP = 200  # steps in which the rate rises: the optimiser knows nothing yet


@dataclass(frozen=True)
class Clock:
    """Seconds since the start of a run, and the second at which it must have ended."""

    started: float
    limit: float
    now: Callable[[], float] = time.monotonic

    @classmethod
    def begin(cls, limit: float) -> Clock:
        """A clock that starts now."""
        return cls(time.monotonic(), limit)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.now() - self.started

    def span(self, reserve: float, part: tuple[float, float] = (0.0, 1.0)) -> Span:
        """From now until `reserve` seconds before the limit; at least a second."""
        begin = self.elapsed
        return Span(self, begin, max(begin + 1.0, self.limit - reserve), part)


@dataclass(frozen=True)
class Span:
    """The part of a run in which steps are made."""

    clock: Clock
    begin: float  # seconds
    end: float
    part: tuple[float, float] = (0.0, 1.0)  # of the whole training, which runs may share

    @property
    def passed(self) -> float:
        """How much of the span has passed, 0..1."""
        return min(1.0, max(0.0, (self.clock.elapsed - self.begin) / (self.end - self.begin)))

    def share(self, passed: float) -> float:
        """How much of the whole training is done when this much of the span has passed."""
        return self.part[0] + (self.part[1] - self.part[0]) * min(1.0, passed)


def rate(peak: float, share: float, step: int, warm_up: int = WARM_UP) -> float:
    """The learning rate: a short rise, then half a cosine down to 0 at share 1."""
    rise = min(1.0, (step + 1) / warm_up)
    return peak * rise * 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, share))))


def average_decay(step: int, most: float) -> float:
    """How much of the average of weights is kept by a step: little at first."""
    return min(most, (step + 1) / (step + 12))
