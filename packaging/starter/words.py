"""Text that captions are made of: cleaning, and the word lists in data/."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"
_HUES = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "teal", "cyan")
COLOURS = frozenset([*_HUES, "black", "white", "gray", "grey"])
APOSTROPHE, QUOTE = "\N{RIGHT SINGLE QUOTATION MARK}", "\N{LEFT DOUBLE QUOTATION MARK}"
_PLAIN = str.maketrans({"ñ": "n", "é": "e", "å": "a", "ã": "a", "ç": "c", "ô": "o"})


def clean(text: str) -> str:
    """Lower case, plain letters, digits and apostrophes, single spaces."""
    text = text.lower().replace(APOSTROPHE, "'").replace(QUOTE, "").translate(_PLAIN)
    text = re.sub(r"[^a-z0-9' ]+", " ", re.sub(r"[_-]", " ", text))
    return re.sub(r"\s+", " ", text).strip()


def slug(text: str) -> str:
    """The name under which icon sets file a picture: words joined by hyphens."""
    text = text.lower().replace(APOSTROPHE, "").replace("'", "").replace("&", "and")
    return re.sub(r"[^a-z0-9]+", "-", text.translate(_PLAIN)).strip("-")


def unique(texts: list[str]) -> list[str]:
    """Each text once, in the order of first use."""
    return list(dict.fromkeys(texts))


def without_colours(text: str) -> str:
    """The words that name no colour; may be empty."""
    return " ".join(word for word in text.split() if word not in COLOURS)


@cache
def word_list(name: str) -> frozenset[str]:
    """The lines of data/NAME.txt."""
    lines = (DATA / f"{name}.txt").read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line)


@cache
def pattern(name: str, form: str = "{}") -> re.Pattern[str]:
    """One pattern of the alternatives in data/NAME.txt, set into `form`."""
    return re.compile(form.format("(?:" + "|".join(sorted(word_list(name))) + ")"))


@cache
def table(name: str) -> dict[str, Any]:
    """The object in data/NAME.json."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))
