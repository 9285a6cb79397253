"""Files that pictures were made with: a picture names them without a folder, and here they are
found again. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, Protocol

KNOWN = "images.files"  # the setting: [{"kind", "path"}], the newest first
MOST_KNOWN = 80
SUFFIX = ".safetensors"


class Store(Protocol):
    """Where settings are kept."""

    def get(self, key: str, default: Any = None) -> Any:
        """A value."""

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""


class KnownFiles:
    """Paths by kind: "lora", "vae", "init", "mask"."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def remember(self, kind: str, path: str) -> None:
        """A file is used: it comes first from now on."""
        mine = {"kind": kind, "path": path}
        others = [one for one in self._entries() if one != mine]
        self._store.set(KNOWN, [mine, *others][:MOST_KNOWN])

    def recent(self, kind: str, most: int) -> list[str]:
        """The files of a kind used last that are still there."""
        mine = [one["path"] for one in self._entries() if one["kind"] == kind]
        return [path for path in mine if Path(path).is_file()][:most]

    def find(self, kind: str, name: str, folders: tuple[Path, ...] = ()) -> str:
        """Where the file that a picture names lies, "" when it is not here.

        ``name`` may be a whole path, a file's name, or (of LoRA files in other tools) a stem.
        """
        if Path(name).is_absolute() and Path(name).is_file():
            return name
        base = PureWindowsPath(name).name
        wanted = {base, f"{base}{SUFFIX}"} if kind in ("lora", "vae") else {base}
        paths = [Path(one["path"]) for one in self._entries() if one["kind"] == kind]
        for path in paths:
            if path.name in wanted and path.is_file():
                return str(path)
        for folder in dict.fromkeys([*folders, *(path.parent for path in paths)]):
            for one in sorted(wanted):
                if (folder / one).is_file():
                    return str(folder / one)
        return ""

    def _entries(self) -> list[Mapping[str, str]]:
        kept = self._store.get(KNOWN, [])
        return [
            {"kind": str(one.get("kind")), "path": str(one.get("path"))}
            for one in (kept if isinstance(kept, list) else [])
            if isinstance(one, Mapping)
        ]
