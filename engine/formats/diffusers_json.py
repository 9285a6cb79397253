"""Read the small JSON files of a model folder: checked size, checked kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from engine.formats.errors import CorruptFile, NotAModelFile

MAX_JSON_BYTES = 16 << 20


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises a FormatError with the reason when there is none."""
    label = f"{path.parent.name}/{path.name}"
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise CorruptFile(f"{label} has {size:,} bytes; at most {MAX_JSON_BYTES:,} are read.")
        loaded = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise NotAModelFile(f"The model's folder has no {label}.") from None
    except OSError as error:
        raise NotAModelFile(f"{label} cannot be read: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{label} is damaged: it is not JSON ({str(error)[:80]}).") from error
    if not isinstance(loaded, dict):
        raise CorruptFile(f"{label} is damaged: it is not a JSON object.")
    return cast("dict[str, Any]", loaded)
