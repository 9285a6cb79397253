"""Clip art: which drawings of Openclipart are used, and what they are called.

The drawings are Debian's PNG files; titles and keywords stand in the SVG files of the same names.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .emoji import Group, Names
from .words import clean, pattern, table, unique, word_list

SMALLEST_FILE = 600  # bytes; smaller ones are empty
MOST_KEYWORDS = 6
LONGEST_KEYWORD = 23
MOST_TITLE_WORDS = 5


@dataclass(frozen=True)
class _Notes:
    """What an SVG file says about its drawing."""

    free: bool
    title: str
    keywords: list[str]


def drawings(folder: Path) -> Iterator[tuple[Path, Names]]:
    """Each drawing's PNG file and its names. `folder` holds the sources."""
    vectors = folder / "openclipart-svg" / "usr" / "share" / "openclipart" / "svg"
    pixels = folder / "openclipart-png" / "usr" / "share" / "openclipart" / "png"
    seen: set[tuple[str, int]] = set()
    for path in sorted(vectors.rglob("*.svg*")):
        stem = re.sub(r"\.svgz?$", "", path.relative_to(vectors).as_posix())
        png = pixels / f"{stem}.png"
        if not _is_wanted(stem) or not png.exists() or png.stat().st_size < SMALLEST_FILE:
            continue
        notes = _read_notes(path)
        if not notes.free or pattern("openclipart_unwanted").search(notes.title):
            continue
        names = _names(stem, notes)
        if names is None or (names.names[0], png.stat().st_size) in seen:
            continue
        seen.add((names.names[0], png.stat().st_size))
        yield png, names


def _is_wanted(stem: str) -> bool:
    wanted = pattern("openclipart_wanted", "^{}").search(stem)
    return bool(wanted) and not pattern("openclipart_unwanted").search(stem.lower())


def _read_notes(path: Path) -> _Notes:
    raw = path.read_bytes()
    if raw.startswith(b"\x1f\x8b"):
        raw = gzip.decompress(raw)
    text = raw.decode("utf-8", "replace")
    licence = re.search(r'cc:license\s+rdf:resource="([^"]+)"', text)
    title = re.search(r"<dc:title[^>]*>([^<]+)</dc:title>", text)
    subject = re.search(r"<dc:subject[^>]*>(.*?)</dc:subject>", text, re.S)
    listed = re.findall(r"<rdf:li[^>]*>([^<]+)</rdf:li>", subject.group(1)) if subject else []
    return _Notes(
        free=licence is None or "ublic" in licence.group(1),
        title=clean(re.sub(r"&[^;]*;|\(.*?\)|\S+@\S+", " ", title.group(1))) if title else "",
        keywords=[word for word in unique([clean(item) for item in listed]) if _says(word)],
    )


def _says(keyword: str) -> bool:
    """Whether a keyword tells something about a drawing."""
    known = keyword and keyword not in word_list("openclipart_generic")
    return bool(known) and len(keyword) <= LONGEST_KEYWORD and not re.search(r"\d", keyword)


def _names(stem: str, notes: _Notes) -> Names | None:
    """The drawing's names; None for one that nothing names."""
    folder, base = stem.split("/")[-2], os.path.basename(stem)
    keywords = notes.keywords
    title = _title(folder, base, notes)
    if len(title) < 3 or len(title.split()) > MOST_TITLE_WORDS:
        if not keywords:
            return None
        title = keywords[0]
    kind = table("openclipart_folders").get(folder)
    if kind and kind not in keywords:
        keywords = [kind, *keywords]
    things = [word for word in keywords if word in word_list("openclipart_things")]
    return Names([title], things, keywords[:MOST_KEYWORDS], Group.CLIP_ART)


def _title(folder: str, base: str, notes: _Notes) -> str:
    """The title, or the file's name where the title says nothing; some are Italian."""
    title = notes.title
    if not title or re.search(r"clipart|various|collection|icons? |theme|^svg", title):
        title = clean(_without_author(base))
    noise = r"\b(etiquette|color|colour|ganson|nicu|buculei|cartoon|hash|b and w)\b"
    title = re.sub(noise, "", re.sub(r"\d+", "", title))
    title = re.sub(r"\s+", " ", title).strip()
    first = title.split(" ")[0]
    if first in table("italian"):
        title = table("italian")[first]
    elif "architett" in base:
        title = notes.keywords[0] if notes.keywords else ""
    if folder == "smilies":
        known = not title or "smiley" in title or "smilies" in title
        title = "smiley face" if known else f"{title} smiley"
    return title


def _without_author(base: str) -> str:
    """`blue_fish_john.d._01` without the author's name and the number."""
    if re.search(r"_\d\d$|_\.?$", base):
        return re.sub(r"(_[a-z.]{1,14})?(_[a-z.]{0,14})?_?\d*$", "", base)
    return re.sub(r"\d+$", "", base)
