"""The person's settings: one JSON file in the configuration folder, written atomically.

Unknown keys are kept, so an older version of the program does not lose what a newer one wrote.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.storage.files import StorageError, move_aside, write_atomically

log = logging.getLogger(__name__)

# Every setting with its value out of the box. Keys are dotted: page.name.
DEFAULTS: dict[str, Any] = {
    "theme": "system",
    "language": "en",
    "window.geometry": "",
    "window.page": "chat",
    "chat.model": "",
    "chat.system": "",
    "chat.sampling": {},
    "chat.side_panel": False,
    "chat.last_chat": 0,
    "context": 0,  # tokens; 0: the model's own, bounded by what fits
    "device": "",
    "backend": "",
    "without": [],
    "models_folder": "",
    "memory.headroom_bytes": 512 * 2**20,
    "idle_unload_minutes": 0,  # 0: never
    "network.downloads": True,
    "network.hub_search": True,
}


class Settings(QObject):
    """The settings of this home folder.

    Attributes: path, problem (a sentence if the file was broken and moved aside, else "").
    Signals: changed(key, value); failed(sentence) when the file could not be written.
    """

    changed = Signal(str, object)
    failed = Signal(str)

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.problem = ""
        self._values: dict[str, Any] = self._read()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`: the person's, else the one out of the box, else `default`."""
        fallback = DEFAULTS.get(key, default)
        value = self._values.get(key, fallback)
        if key in DEFAULTS and type(value) is not type(fallback):
            return fallback  # a hand-edited file must not crash a page
        return value

    def set(self, key: str, value: Any) -> None:
        """Keep a JSON-able value; saved at once, `changed` tells those who care."""
        if self._values.get(key, DEFAULTS.get(key)) == value:
            return
        self._values[key] = value
        self._save()
        self.changed.emit(key, value)

    def reset(self) -> None:
        """Everything as out of the box."""
        keys = list(self._values)
        self._values.clear()
        self._save()
        for key in keys:
            self.changed.emit(key, DEFAULTS.get(key))

    def _save(self) -> None:
        text = json.dumps(self._values, indent=2, sort_keys=True, ensure_ascii=False)
        try:
            write_atomically(self.path, text.encode("utf-8", "replace") + b"\n")
        except StorageError as error:
            log.warning("%s", error)
            self.failed.emit(str(error))

    def _read(self) -> dict[str, Any]:
        try:
            values = json.loads(self.path.read_text(encoding="utf-8"))
            if isinstance(values, dict):
                return values
        except FileNotFoundError:
            return {}
        except OSError as error:
            self.problem = f"Your settings could not be read: {error.strerror or error}."
            return {}
        except ValueError as error:
            log.warning("settings: %s", error)
        aside = move_aside(self.path)
        self.problem = (
            f"Your settings file was damaged and was moved to {aside.name}. "
            "The settings are back to the defaults."
        )
        return {}
