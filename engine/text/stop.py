"""Stop strings: an answer ends where one of them begins, and no part of it is ever shown."""

from __future__ import annotations

from collections.abc import Sequence


class StopScanner:
    """Looks for stop strings in text that comes in pieces.

    Attributes:
        hit: the stop string that ended the text, or None.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.hit: str | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """The text that may be shown now, and the stop string if the end was reached.

        An ending that may grow into a stop string is held back. After a hit nothing more comes.
        """
        if self.hit is not None:
            return "", self.hit
        if not self._stops:
            return text, None
        text = self._held + text
        places = [(text.find(stop), -len(stop), stop) for stop in self._stops if stop in text]
        if places:
            place, _, self.hit = min(places)
            self._held = ""
            return text[:place], self.hit
        keep = self._possible_beginning(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def flush(self) -> str:
        """What was held back, when the answer ends for another reason."""
        held, self._held = self._held, ""
        return held

    def _possible_beginning(self, text: str) -> int:
        """Length of the longest ending of ``text`` with which a stop string begins."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            ending = text[-length:]
            if any(stop.startswith(ending) for stop in self._stops):
                return length
        return 0
