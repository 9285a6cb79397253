"""Captions: a picture's names, put into the many forms in which people ask for it."""

from __future__ import annotations

from random import Random

from .dataset import Item
from .emoji import Group
from .sources import PICTURE_SETS
from .words import COLOURS, table, without_colours

_PLAIN_SHARE = {one.name: one.plain_share for one in PICTURE_SETS}
_ADJECTIVES = ("3d", "flat", "cartoon")  # styles that stand before the thing


def caption(
    item: Item, random: Random, colour: str | None = None, background: str | None = None
) -> str:
    """One caption.

    `colour`: the picture was repainted so; `background`: the colour it was put on, white if None.
    """
    text = _thing(item, random, painted=colour is not None)
    text = _painted(text, colour, random) if colour else _with_facts(text, item, random)
    if random.random() < 0.4 and "," not in text.split(" ")[0]:
        text = with_article(text)
    if random.random() > _PLAIN_SHARE[item.picture_set]:
        text = _styled(text, random.choice(table("styles")[item.picture_set]), random)
    return text + _ending(background, random)


def with_article(text: str) -> str:
    """`a` or `an` before it."""
    return ("an " if text.startswith(("a", "e", "i", "o", "u")) else "a ") + text


def _thing(item: Item, random: Random, painted: bool) -> str:
    """What the picture shows: mostly its first name."""
    chance = random.random()
    first, others = item.names[0], item.names[1:]
    if chance < 0.45 or not (item.aliases or others):
        return first
    if chance < 0.62 and others:
        return random.choice(others)
    if chance < 0.88 and item.aliases:
        alias = random.choice(item.aliases)
        if random.random() < 0.3 and not painted:
            return f"{alias}, {first}" if random.random() < 0.5 else f"{first}, {alias}"
        return alias
    if item.synonyms and chance < 0.97:
        return random.choice(item.synonyms)
    return first


def _painted(text: str, colour: str, random: Random) -> str:
    """The thing with the colour it was repainted in, in place of its own."""
    bare = without_colours(text) or "thing"
    if random.random() < 0.85:
        return f"{colour} {bare}"
    return f"{bare}, {colour}" if random.random() < 0.6 else f"{colour} colored {bare}"


def _with_facts(text: str, item: Item, random: Random) -> str:
    """Sometimes with its own colour, sometimes with a keyword."""
    if item.colour and random.random() < 0.3:
        has_colour = bool(set(text.split()) & COLOURS)
        if not has_colour and item.group != Group.PEOPLE:
            text = f"{item.colour} {text}"
    if item.keywords and random.random() < 0.18:
        word = random.choice(item.keywords)
        after = random.random() < 0.6 or word in COLOURS
        text = f"{text}, {word}" if after else f"{word}, {text}"
    return text


def _styled(text: str, style: str, random: Random) -> str:
    chance = random.random()
    if style in _ADJECTIVES:
        if text.startswith(("a ", "an ")):
            return f"a {style} " + text.split(" ", 1)[1]
        return f"{style} {text}"
    if chance < 0.45:
        return f"{style} of {text}"
    if chance < 0.9 and ("," in text or chance < 0.75):
        return f"{text}, {style}"
    return f"{text} {style}" if chance < 0.9 else f"{style}, {text}"


def _ending(background: str | None, random: Random) -> str:
    if background is not None:
        form = random.choice([" on a {} background", ", {} background", " on {} background"])
        return form.format(background)
    if random.random() < 0.1:
        return random.choice([" on a white background", ", white background"])
    return ""
