"""Every picture that may go into the data set, with its names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import openclipart
from .emoji import Emoji, Group, Names, code_of, read_emoji
from .sources import PICTURE_SETS
from .words import clean

RENDERED = 256  # pixels a side at which drawings of lines and curves are rendered
UNWANTED_WEATHER = re.compile(
    r"\d|beaufort|celsius|fahrenheit|uv-|compass|not-available|code-|arrow|pressure"
)
_FOLDERS = {one.name: one.source for one in PICTURE_SETS}


@dataclass(frozen=True)
class Candidate:
    """A picture: a file, or an SVG text."""

    picture_set: str
    file: Path | None
    svg: str
    names: Names


def candidates(folder: Path) -> Iterator[Candidate]:
    """All pictures worth rendering. `folder` holds the unpacked sources."""
    emoji = read_emoji(folder)
    yield from _fluent_3d(folder, emoji)
    for name in ("modern", "flat", "noto", "blob", "twemoji"):
        yield from _emoji_set(folder, name, emoji)
    yield from _by_name(folder, emoji)
    yield from _flat_icons(folder)
    yield from _weather(folder)
    for path, names in openclipart.drawings(folder):
        yield Candidate("clip", path, "", names)


def _fluent_3d(folder: Path, emoji: dict[str, Emoji]) -> Iterator[Candidate]:
    for path in sorted((folder / "fluent-3d" / "assets").glob("*.webp")):
        one = emoji.get(code_of(path.stem))
        if one is not None:
            yield Candidate("fluent3d", path, "", one.finished())


def _emoji_set(folder: Path, name: str, emoji: dict[str, Emoji]) -> Iterator[Candidate]:
    """Sets that file their pictures by code point, or by the label's slug."""
    icons, codes = _icons(folder, name), _codes(folder, name)
    by_slug = {one.slug: one for one in emoji.values()}
    for key in icons["icons"]:
        one = emoji.get(code_of(codes[key])) if key in codes else by_slug.get(key)
        if one is not None:
            yield Candidate(name, None, _svg(icons, key), one.finished())


def _by_name(folder: Path, emoji: dict[str, Emoji]) -> Iterator[Candidate]:
    """FxEmoji files its pictures by words of its own, written together."""
    icons = _icons(folder, "fx")
    by_word = {one.slug.replace("-", ""): one for one in emoji.values()}
    for one in emoji.values():
        for alias in one.aliases:
            by_word.setdefault(alias.replace(" ", ""), one)
    for key in icons["icons"]:
        one = by_word.get(key)
        if one is not None and one.group != Group.PEOPLE:
            yield Candidate("fx", None, _svg(icons, key), one.finished())


def _flat_icons(folder: Path) -> Iterator[Candidate]:
    icons = _icons(folder, "fci")
    for key in icons["icons"]:
        yield Candidate("fci", None, _svg(icons, key), Names([clean(key)], [], []))


def _weather(folder: Path) -> Iterator[Candidate]:
    icons = _icons(folder, "meteo")
    for key in icons["icons"]:
        if key.endswith("-fill") and not UNWANTED_WEATHER.search(key):
            name = clean(key.removesuffix("-fill"))
            names = Names([name], [f"weather {name}"], ["weather"])
            yield Candidate("meteo", None, _svg(icons, key), names)


def _icons(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / _FOLDERS[name] / "icons.json").read_text("utf-8"))


def _codes(folder: Path, name: str) -> dict[str, str]:
    """Code points by picture."""
    listed = json.loads((folder / _FOLDERS[name] / "chars.json").read_text("utf-8"))
    return {picture: code for code, picture in listed.items()}


def _svg(icons: dict[str, Any], key: str) -> str:
    """An icon as a whole SVG text."""
    icon = icons["icons"][key]
    height = icon.get("height", icons.get("height", 16))
    width = icon.get("width", icons.get("width", icons.get("height", 16)))
    left, top = (icon.get(edge, icons.get(edge, 0)) for edge in ("left", "top"))
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    size = f'width="{RENDERED}" height="{RENDERED}" viewBox="{left} {top} {width} {height}"'
    return f"<svg {spaces} {size}>{icon['body']}</svg>"
