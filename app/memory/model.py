"""What the memory meter shows, apart from how it is drawn. No Qt.

A :class:`MemoryState` is one reading of the worker's ``memory`` object; :func:`parts_of` splits it
into the five colours that mean the same everywhere, and :class:`History` keeps one minute of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.memory.units import gib, gib_number

HISTORY_SECONDS = 60.0
OURS_FROM = 2**30 // 20  # bytes from which our small buffers get a row of their own
VISIBLE_SHARE = 1 / 400  # of the whole bar: a smaller change would move no pixel of it


@dataclass(frozen=True)
class MemoryState:
    """One reading, in bytes. ``None`` where the platform does not tell."""

    weights: int = 0
    kv_cache: int = 0
    activations: int = 0
    other: int = 0  # ours, but none of the three above
    total: int = 0  # all that Driftwood holds
    peak: int = 0
    device_total: int | None = None
    device_used: int | None = None  # by every program, ours included
    others: int | None = None  # by other programs
    device_name: str = ""
    unified: bool = False  # the GPU shares the computer's own memory

    @property
    def used(self) -> int:
        """Bytes in use on the device, as far as known."""
        ours = max(self.total, self.weights + self.kv_cache + self.activations + self.other)
        if self.others is not None:
            return ours + self.others
        return max(ours, self.device_used or 0)

    @property
    def free(self) -> int | None:
        """Bytes nobody holds; ``None`` where the device's total is not known."""
        return None if self.device_total is None else max(0, self.device_total - self.used)

    @property
    def scale(self) -> int:
        """Bytes that a full bar stands for: the device's total, or the most we ever held."""
        return max(self.device_total or max(self.peak, self.used), self.used, 1)


@dataclass(frozen=True)
class Part:
    """One colour of the bar. ``key`` names its theme token."""

    key: str
    label: str
    nbytes: int
    hint: str


HINTS = {
    "weights": "The model itself: the numbers it learned.",
    "kv_cache": "The model's memory of this conversation. A shorter context makes it smaller.",
    "activations": "Scratch space for one step of work.",
    "ours": "Small buffers that belong to none of the others.",
    "others": "What other programs and the desktop hold on this GPU.",
    "free": "What nobody holds now.",
}


def memory_from(fields: Mapping[str, object]) -> MemoryState:
    """Read the protocol's ``memory`` object; what is missing or malformed counts as unknown."""
    return MemoryState(
        weights=_whole(fields.get("weights")) or 0,
        kv_cache=_whole(fields.get("kv_cache")) or 0,
        activations=_whole(fields.get("activations")) or 0,
        other=_whole(fields.get("other")) or 0,
        total=_whole(fields.get("total")) or 0,
        peak=_whole(fields.get("peak")) or 0,
        device_total=_whole(fields.get("device_total")),
        device_used=_whole(fields.get("device_used")),
        others=_whole(fields.get("others")),
        device_name=str(fields.get("device_name") or ""),
        unified=bool(fields.get("unified", False)),
    )


def parts_of(state: MemoryState) -> tuple[Part, ...]:
    """The split, in the order it is drawn. Parts that the platform does not tell are left out."""
    named = state.weights + state.kv_cache + state.activations
    ours = max(state.other, state.total - named)
    others = state.others
    if others is None and state.device_used is not None:
        others = max(0, state.device_used - max(state.total, named + state.other))
    rows: list[tuple[str, str, int | None]] = [
        ("weights", "Weights", state.weights),
        ("kv_cache", "KV cache", state.kv_cache),
        ("activations", "Activations", state.activations),
        ("ours", "Driftwood, other", ours if ours >= OURS_FROM else None),
        ("others", "Other programs", others),
        ("free", "Free", state.free),
    ]
    return tuple(
        Part(key, label, nbytes, HINTS[key]) for key, label, nbytes in rows if nbytes is not None
    )


def split_words(state: MemoryState, needed: int | None = None) -> str:
    """The split in words, for the tooltip and for screen readers."""
    lines = [state.device_name or "GPU memory", used_words(state)]
    lines += [f"{part.label}: {gib(part.nbytes)}" for part in parts_of(state)]
    if needed:
        lines.append(next_load_words(state, needed))
    return "\n".join(lines)


def used_words(state: MemoryState) -> str:
    """``5.3 of 8.0 GiB in use``, or only what we hold where the total is not known."""
    if state.device_total is None and not state.used:
        return "Driftwood holds nothing yet"
    if state.device_total is None:
        return f"Driftwood holds {gib(state.used)}; the device's total is not known"
    return f"{gib_number(state.used)} of {gib(state.device_total)} in use"


def next_load_words(state: MemoryState, needed: int) -> str:
    """What the next load would make of it, in one sentence."""
    if state.device_total is None:
        return f"The next load needs {gib(needed)}"
    short = needed - (state.free or 0)
    if short > 0:
        return f"The next load needs {gib(needed)}: {gib(short)} more than is free"
    return f"The next load needs {gib(needed)} and fits"


def looks_same(before: MemoryState | None, after: MemoryState) -> bool:
    """Whether painting again would change nothing that can be seen (keeps an idle meter idle)."""
    if before is None:
        return False
    if before == after:
        return True
    if before.device_name != after.device_name or before.device_total != after.device_total:
        return False
    if used_words(before) != used_words(after):
        return False
    old, new = parts_of(before), parts_of(after)
    if [part.key for part in old] != [part.key for part in new]:
        return False
    step = after.scale * VISIBLE_SHARE
    return all(
        abs(a.nbytes - b.nbytes) < step and gib(a.nbytes) == gib(b.nbytes)
        for a, b in zip(old, new, strict=True)
    )


class History:
    """The last minute of used bytes as a staircase: only changes are kept, so an idle minute is
    two entries."""

    def __init__(self, seconds: float = HISTORY_SECONDS) -> None:
        self.seconds = seconds
        self._steps: deque[tuple[float, int]] = deque()

    def push(self, now: float, used: int) -> None:
        """Note ``used`` bytes at ``now`` seconds (a monotonic clock)."""
        if not self._steps or self._steps[-1][1] != used:
            self._steps.append((now, used))
        start = now - self.seconds
        while len(self._steps) > 1 and self._steps[1][0] <= start:
            self._steps.popleft()

    def note(self, now: float, state: MemoryState) -> None:
        """Note a reading; a change too small to be seen keeps the last figure."""
        if not state.used and state.device_total is None:
            return  # the GPU is not open yet
        last = self.latest
        moved = last is None or abs(state.used - last) >= state.scale * VISIBLE_SHARE
        self.push(now, state.used if moved or last is None else last)

    def points(self, now: float) -> Iterator[tuple[float, int]]:
        """Corners of the staircase: (0.0 a minute ago .. 1.0 now, bytes)."""
        start = now - self.seconds
        last: int | None = None
        for time, used in self._steps:
            x = min(1.0, max(0.0, (time - start) / self.seconds))
            if last is not None:
                yield x, last
            yield x, used
            last = used
        if last is not None:
            yield 1.0, last

    def still(self, now: float) -> bool:
        """Whether nothing changed within the whole minute: the drawing then need not move."""
        return len(self._steps) == 1 and self._steps[0][0] <= now - self.seconds

    @property
    def latest(self) -> int | None:
        """The last bytes that were noted."""
        return self._steps[-1][1] if self._steps else None

    @property
    def highest(self) -> int:
        """The most bytes within the minute."""
        return max((used for _, used in self._steps), default=0)


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return int(value)
