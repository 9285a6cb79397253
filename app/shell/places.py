"""The folders of this home: DRIFTWOOD_HOME if set, else what the system intends for a program."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import appdirs

NAME = "Driftwood"


@dataclass(frozen=True)
class Places:
    """Folders and files of one home. Nothing is created by asking."""

    models: Path
    cache: Path
    config: Path
    data: Path
    logs: Path

    @property
    def settings_file(self) -> Path:
        """The settings."""
        return self.config / "settings.json"

    @property
    def chats_file(self) -> Path:
        """All chats."""
        return self.data / "chats.sqlite"

    @property
    def log_file(self) -> Path:
        """The application's log."""
        return self.logs / "driftwood.log"

    @property
    def lock_file(self) -> Path:
        """Held by the one window that may use this home."""
        return self.data / "driftwood.lock"


def find_places() -> Places:
    """The folders of the home in use, the same as the engine's (engine.models.paths)."""
    home = os.environ.get("DRIFTWOOD_HOME")
    if home:
        root = Path(home).expanduser()
        return Places(*(root / part for part in ("models", "cache", "config", "data", "logs")))
    data = Path(appdirs.user_data_dir(NAME, False))
    return Places(
        models=data / "models",
        cache=Path(appdirs.user_cache_dir(NAME, False)),
        config=Path(appdirs.user_config_dir(NAME, False)),
        data=data,
        logs=Path(appdirs.user_log_dir(NAME, False)),
    )
