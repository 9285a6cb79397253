"""What was written and not sent, for every chat, kept over a restart."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer

from app.storage.files import StorageError, write_atomically
from app.storage.records import Attachment

log = logging.getLogger(__name__)

SAVE_MS = 1_000  # after the last change


@dataclass(frozen=True)
class Draft:
    """A message that is not sent yet."""

    text: str = ""
    files: tuple[Attachment, ...] = ()


class Drafts(QObject):
    """Drafts by the number of their chat, 0 for the one that is not begun.

    A draft is a convenience: a file that cannot be read or written is logged and costs no message.
    """

    def __init__(self, path: Path, has_chat: Callable[[int], bool], parent: QObject) -> None:
        super().__init__(parent)
        self._path = path
        found = _read(path)
        self._drafts = {n: one for n, one in found.items() if n == 0 or has_chat(n)}
        self._changed = False
        self._wait = QTimer(self)
        self._wait.setSingleShot(True)
        self._wait.setInterval(SAVE_MS)
        self._wait.timeout.connect(self.flush)

    def of(self, chat: int) -> Draft:
        """The draft of a chat, empty if there is none."""
        return self._drafts.get(chat, Draft())

    def keep(self, chat: int, draft: Draft) -> None:
        """Remember a draft; an empty one is forgotten."""
        if draft == self.of(chat):
            return
        if draft == Draft():
            self._drafts.pop(chat, None)
        else:
            self._drafts[chat] = draft
        self._changed = True
        self._wait.start()

    def flush(self) -> None:
        """Write what has changed."""
        self._wait.stop()
        if not self._changed:
            return
        self._changed = False
        values = {str(number): asdict(one) for number, one in self._drafts.items()}
        data = json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")
        try:
            write_atomically(self._path, data)
        except StorageError as error:
            log.warning("drafts: %s", error)


def _read(path: Path) -> dict[int, Draft]:
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
        return {int(number): _draft(one) for number, one in values.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("drafts: %s", error)
        return {}


def _draft(values: dict[str, Any]) -> Draft:
    files = tuple(Attachment(str(one["name"]), str(one["text"])) for one in values["files"])
    return Draft(str(values["text"]), files)
