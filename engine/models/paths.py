"""Where Driftwood keeps its files: the platform's usual folders, or all below DRIFTWOOD_HOME."""

# appdirs has no types
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import appdirs

HOME_VARIABLE: Final = "DRIFTWOOD_HOME"
_APP: Final = "driftwood"


@dataclass(frozen=True)
class Paths:
    """The program's folders. None of them needs to exist yet."""

    models: Path
    cache: Path
    config: Path
    data: Path
    logs: Path


def home_paths() -> Paths:
    """The folders of the person who runs the program."""
    home = os.environ.get(HOME_VARIABLE)
    if home:
        root = Path(home).expanduser().absolute()
        return Paths(*(root / name for name in ("models", "cache", "config", "data", "logs")))
    data = _folder(appdirs.user_data_dir(_APP, appauthor=False))
    return Paths(
        models=data / "models",
        cache=_folder(appdirs.user_cache_dir(_APP, appauthor=False)),
        config=_folder(appdirs.user_config_dir(_APP, appauthor=False)),
        data=data,
        logs=_folder(appdirs.user_log_dir(_APP, appauthor=False)),
    )


def _folder(name: object) -> Path:
    return Path(cast(str, name))
