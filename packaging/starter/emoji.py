"""The emoji that are drawn, and what people call them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from .words import COLOURS, clean, pattern, slug, table, unique, without_colours, word_list


class Group(IntEnum):
    """Groups of Unicode's emoji list, as emojibase numbers them, and two of our own."""

    SMILEYS = 0
    PEOPLE = 1
    COMPONENTS = 2
    ANIMALS = 3
    FOOD = 4
    SYMBOLS = 8
    FLAGS = 9
    CLIP_ART = 98
    ICONS = 99


CAT_FACES = 12  # subgroup
FAMILIES = (30, 31)  # subgroups
MOST_KEYWORDS = 10
LONGEST_KEYWORD = 25


@dataclass(frozen=True)
class Names:
    """What a picture may be called."""

    names: list[str]  # the first is the usual one
    aliases: list[str]  # other names for just this thing
    keywords: list[str]  # words about it, which do not name it
    group: int = Group.ICONS


@dataclass
class Emoji:
    """One emoji while its names are gathered."""

    label: str
    slug: str
    group: int
    subgroup: int | None
    keywords: list[str]
    names: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)

    def finished(self) -> Names:
        """The names that captions use."""
        others = [word for word in self.keywords if word not in self.aliases]
        return Names(self.names, self.aliases, others[:MOST_KEYWORDS], self.group)


def code_of(hexadecimal: str) -> str:
    """Code points without leading zeros and without the mark for coloured drawing."""
    points = hexadecimal.lower().split("-")
    return "-".join(point.lstrip("0") for point in points if point != "fe0f")


def read_emoji(folder: Path) -> dict[str, Emoji]:
    """All emoji worth drawing, by code, with names. `folder` holds the sources."""
    base = _json(folder / "emojibase" / "en" / "data.json")
    library = _json(folder / "emojilib" / "dist" / "emoji-en-US.json")
    notes = _json(folder / "cldr" / "annotations" / "en" / "annotations.json")
    annotations = notes["annotations"]["annotations"]
    found: dict[str, Emoji] = {}
    for entry in base:
        label = clean(entry["label"])
        if not _is_wanted(label, entry.get("group"), entry.get("subgroup")):
            continue
        sign = entry["emoji"]
        cldr = annotations.get(sign, annotations.get(sign.replace("\ufe0f", ""), {}))
        words = [*entry.get("tags", []), *library.get(sign, []), *cldr.get("default", [])]
        found[code_of(entry["hexcode"])] = Emoji(
            label=label,
            slug=slug(entry["label"]),
            group=entry["group"],
            subgroup=entry.get("subgroup"),
            keywords=_keywords(words, label),
        )
    _name_all(found.values())
    return found


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _is_wanted(label: str, group: int | None, subgroup: int | None) -> bool:
    """Pictures of things and faces; no flags, letters, signs, families, nothing that offends."""
    if group in (None, Group.COMPONENTS, Group.FLAGS):
        return False
    if group == Group.SYMBOLS:
        return label in word_list("wanted_symbols")
    if group == Group.PEOPLE and subgroup in FAMILIES:
        return False
    return not pattern("unwanted_emoji", r"\b{}\b").search(label)


def _keywords(words: Iterable[str], label: str) -> list[str]:
    cleaned = unique([clean(word) for word in words])
    return [word for word in cleaned if word != label and 1 < len(word) <= LONGEST_KEYWORD]


def _name_all(emoji: Iterable[Emoji]) -> None:
    """Fill in names and aliases: a keyword that few emoji share names its emoji."""
    every = list(emoji)
    uses = Counter(k for one in every if one.group != Group.PEOPLE for k in one.keywords)
    labels = {one.label for one in every}
    by_hand = table("emoji_aliases")
    for one in every:
        one.names = unique([one.label, *_variants(one)])
        found = [k for k in one.keywords if _is_alias(k, one, uses, labels)]
        # by hand ones twice: they are drawn more often, and are kept whatever they mean
        one.aliases = found + [a for alias in by_hand.get(one.label, []) for a in (alias, alias)]


def _is_alias(keyword: str, one: Emoji, uses: Counter[str], labels: set[str]) -> bool:
    shared = uses[keyword]
    label = one.label
    at_an_end = label.startswith(keyword) or label.endswith(keyword)
    if keyword in label.split() and len(keyword) > 3 and at_an_end and shared <= 3:
        return True
    few = 1 if one.group == Group.PEOPLE else 2
    return shared <= few and keyword not in COLOURS and keyword not in labels


def _variants(one: Emoji) -> list[str]:
    """Other ways to say the label."""
    label = one.label
    names: list[str] = []
    face = re.match(r"(.+) face$", label)
    if face and one.group == Group.ANIMALS:
        animal = face.group(1)
        names += [animal, f"{animal} head", f"cute {animal} face"]
    if one.subgroup == CAT_FACES:
        names += [label.replace("grinning", "smiling"), label.replace("cat", "cat face", 1)]
        names.append(re.sub(r" with.*", "", label))
    if label == "grinning cat":
        names += ["smiling cat face", "happy cat face", "smiling cat"]
    if one.group == Group.SMILEYS and "face" in label:
        names += [label.replace("face", "emoji"), label.replace("face", "smiley")]
    if one.group in (Group.ANIMALS, Group.FOOD):
        names.append(without_colours(label))
    return [name for name in names if name]
