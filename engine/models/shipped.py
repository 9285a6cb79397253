"""Models that come with Driftwood: they need no download and cannot be removed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

STARTER_PICTURES: Final = "starter-image"


def assets_folder() -> Path:
    """Where the program's own files lie: inside a frozen app, or beside the packages."""
    frozen = getattr(sys, "_MEIPASS", None)
    root = Path(frozen) if frozen else Path(__file__).resolve().parents[2]
    return root / "assets"


def shipped_models() -> tuple[Path, ...]:
    """The folders of the models that came with this copy of Driftwood."""
    folder = assets_folder() / STARTER_PICTURES
    return (folder,) if folder.is_dir() else ()
