"""The folders of this home: DRIFTWOOD_HOME if set, else what the system intends for a program."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from engine.models.paths import home_paths


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
    """The folders of the home in use; the engine decides, so both use the same."""
    return Places(**asdict(home_paths()))
