"""A ledger of every byte of GPU memory by purpose, with totals and peaks.

wgpu tells nobody how much memory a program holds, so every allocation passes through here; the
memory meter in the window shows these numbers.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping
from dataclasses import dataclass


class Purpose(enum.Enum):
    """What an allocation is for; the same four parts that the memory meter shows."""

    WEIGHTS = "weights"
    KV_CACHE = "kv_cache"
    ACTIVATIONS = "activations"
    OTHER = "other"


@dataclass(frozen=True)
class LedgerTotals:
    """Bytes held now and at most so far."""

    by_purpose: Mapping[Purpose, int]
    total: int
    peak: int


class Ledger:
    """Counts bytes by purpose. Safe to read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Purpose, int] = dict.fromkeys(Purpose, 0)
        self._peak = 0

    def add(self, purpose: Purpose, nbytes: int) -> None:
        """Enter an allocation."""
        with self._lock:
            self._held[purpose] += nbytes
            self._peak = max(self._peak, sum(self._held.values()))

    def remove(self, purpose: Purpose, nbytes: int) -> None:
        """Strike a freed allocation."""
        with self._lock:
            self._held[purpose] -= nbytes

    def reset_peak(self) -> None:
        """Start a new peak from what is held now."""
        with self._lock:
            self._peak = sum(self._held.values())

    def totals(self) -> LedgerTotals:
        """A consistent copy of the numbers."""
        with self._lock:
            return LedgerTotals(dict(self._held), sum(self._held.values()), self._peak)
