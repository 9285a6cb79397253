"""What was found out about an adapter and driver, kept in a JSON file in the user's cache.

Self-test results and tuning are valid for one adapter, driver, library and set of shaders; the key
holds all four, so a driver update starts afresh.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any, cast

from engine.gpu.capabilities import Capabilities
from engine.gpu.shaders import wgsl_folder

log = logging.getLogger(__name__)


def shader_hash() -> str:
    """A hash of every shader template: results end with the shaders that they were found with."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(wgsl_folder().rglob("*.wgsl")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Findings:
    """A JSON object by adapter key. A file that cannot be read or written only costs time.

    Args:
        path: the file, or None to forget everything at the end of the process.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            try:
                found: Any = json.loads(path.read_text("utf-8"))
            except (OSError, ValueError) as error:
                log.warning("%s cannot be read and is made anew: %s", path.name, error)
                return
            if isinstance(found, dict):
                self._known = cast("dict[str, dict[str, Any]]", found)

    def of(self, caps: Capabilities) -> dict[str, Any]:
        """What is known of this device; empty at first sight."""
        found = self._known.get(self._key(caps))
        return dict(found) if isinstance(found, dict) else {}

    def remember(self, caps: Capabilities, **values: Any) -> None:
        """Add to what is known and write the file, beside and renamed."""
        self._known[self._key(caps)] = {**self.of(caps), **values}
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, suffix=".part")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._known, file, indent=1)
            Path(name).replace(self._path)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path.name, error)

    def _key(self, caps: Capabilities) -> str:
        switched = ",".join(sorted(caps.without))
        return f"{caps.key}|{shader_hash()}|{switched}"
