"""From what a person pastes to a file of the model hub. No Qt."""

from __future__ import annotations

from urllib.parse import unquote

PAGES = frozenset({"blob", "resolve", "raw"})  # OWNER/REPO/blob/REVISION/FILE
WANTED = "Paste OWNER/REPO/FILE.gguf, or the address of the file's page on the hub."
NO_GGUF = "This names no .gguf file. Open the file's own page on the hub and copy its address."


def hub_name(text: str) -> str | None:
    """``OWNER/REPO/FILE.gguf`` as the worker takes it; None if the text names no such file."""
    path = text.strip().split("?")[0].split("#")[0]
    has_server = "://" in path
    parts = [unquote(part) for part in path.partition("://")[2 if has_server else 0].split("/")]
    parts = [part for part in parts if part]
    if has_server or (len(parts) > 5 and parts[3] in PAGES):
        parts = parts[1:]
    if len(parts) > 4 and parts[2] in PAGES:
        parts = parts[:2] + parts[4:]
    is_path = len(parts) >= 3 and not any(part in (".", "..", "~") for part in parts)
    if not is_path or not parts[-1].lower().endswith(".gguf"):
        return None
    return "/".join(parts)


def address_problem(text: str) -> str:
    """Why this names no file of the hub, as a sentence; empty if it does."""
    if hub_name(text) is not None:
        return ""
    return NO_GGUF if text.count("/") >= 2 else WANTED
