"""Training rows: each picture plain, on backgrounds and repainted, with the captions that fit.

Everything here is drawn from seeds, so the same data set gives the same rows; numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .captions import caption
from .colours import BACKGROUNDS, GREYS, HUES
from .dataset import Item
from .sources import PICTURE_SETS
from .tokenizer import Encoder
from .words import word_list

CAPTIONS = 8  # of each caption set
PLAIN_ROWS = 5
BACKGROUND_ROWS = 2
PLAIN_SHARE, BACKGROUND_SHARE, PAINTED_SHARE = 0.62, 0.13, 0.55  # of a picture's weight
WHITE = (1.0, 1.0, 1.0)
_WEIGHTS = {one.name: one.weight for one in PICTURE_SETS}


class Paint(NamedTuple):
    """A change of colour."""

    turn: float = 0.0  # degrees added to the hue
    saturation: float = 1.0  # factors
    value: float = 1.0
    grey: float = -1.0  # a lightness in place of colour; below 0: none


class Row(NamedTuple):
    """One training picture: how it is made, its captions, how often it is drawn."""

    picture: int
    scale: float
    shift: tuple[float, float]  # pixels
    flip: bool
    paint: Paint
    background: tuple[float, float, float]
    caption_set: int
    weight: float


@dataclass(frozen=True)
class Plan:
    """All rows as columns, and the captions as tokens."""

    picture: NDArray[np.int64]  # [R]
    scale: NDArray[np.float32]  # [R]
    shift: NDArray[np.float32]  # [R, 2]
    flip: NDArray[np.bool_]  # [R]
    paint: NDArray[np.float32]  # [R, 4]: turn, saturation, value, grey
    background: NDArray[np.float32]  # [R, 3]
    caption_set: NDArray[np.int64]  # [R]
    weight: NDArray[np.float32]  # [R]
    tokens: NDArray[np.int16]  # [sets, CAPTIONS, LENGTH]


def plan(items: Sequence[Item], tokenizer: Path, boost: float = 1.0, processes: int = 1) -> Plan:
    """Rows and captions of all items; `boost` is the factor of everyday things' weight."""
    size = -(-len(items) // max(1, processes * 4))
    jobs = [(at, items[at : at + size], tokenizer, boost) for at in range(0, len(items), size)]
    if processes == 1:
        return joined([_plan_part(job) for job in jobs])
    with ProcessPoolExecutor(processes) as pool:
        return joined(list(pool.map(_plan_part, jobs)))


def joined(parts: Sequence[Plan]) -> Plan:
    """Several plans as one; caption sets are numbered on."""
    starts = np.cumsum([0, *(len(part.tokens) for part in parts)])
    columns = {name: [getattr(part, name) for part in parts] for name in Plan.__annotations__}
    columns["caption_set"] = [
        part.caption_set + start for part, start in zip(parts, starts, strict=False)
    ]
    return Plan(**{name: np.concatenate(values) for name, values in columns.items()})


def rows_of(picture: int, item: Item, boost: float, random: Random) -> tuple[list[Row], list[str]]:
    """A picture's rows with caption sets numbered from 0, and CAPTIONS captions for each set."""
    weight = _WEIGHTS[item.picture_set] * (boost if is_everyday(item) else 1.0)
    rows = _plain_rows(picture, item, weight, random)
    captions = [caption(item, random) for _ in range(CAPTIONS)]
    for name in random.sample(list(BACKGROUNDS), BACKGROUND_ROWS):
        if name == "black" and item.picture_set in ("clip", "meteo"):
            continue  # their black lines would be lost
        rows.append(_background_row(picture, item, name, weight, len(captions), random))
        captions += [caption(item, random, background=name) for _ in range(CAPTIONS)]
    if item.single_hue:
        for name in [*HUES, *GREYS]:
            rows.append(_painted_row(picture, item, name, weight, len(captions), random))
            captions += [caption(item, random, colour=name) for _ in range(CAPTIONS)]
    return rows, captions


def is_everyday(item: Item) -> bool:
    """Whether it shows one of the things that people ask for first."""
    return not word_list("everyday").isdisjoint([*item.names[:2], *item.aliases])


def paint_for(item: Item, colour: str, random: Random) -> Paint:
    """The change that gives a single-hued picture another colour."""
    if colour in GREYS:
        return Paint(grey=GREYS[colour])
    hue, saturation, value = HUES[colour]
    return Paint(
        turn=hue - (item.hue or 0.0) + random.uniform(-6, 6),
        saturation=min(1.7, max(0.6, saturation / max(0.2, item.saturation))),
        value=min(1.6, max(0.65, value / max(0.2, item.value))),
    )


def _plain_rows(picture: int, item: Item, weight: float, random: Random) -> list[Row]:
    """The picture as it is, and a few times a little smaller, moved, mirrored."""
    each = weight * PLAIN_SHARE / PLAIN_ROWS
    rows = [Row(picture, 1.0, (0.0, 0.0), False, Paint(), WHITE, 0, each * 1.6)]
    for number in range(1, PLAIN_ROWS):
        flip = item.may_flip and number % 2 == 0
        scale, shift = _placing(5, random)
        rows.append(Row(picture, scale, shift, flip, Paint(), WHITE, 0, each * 0.85))
    return rows


def _background_row(
    picture: int, item: Item, name: str, weight: float, captions: int, random: Random
) -> Row:
    red, green, blue = (
        min(1.0, max(0.0, part + random.uniform(-0.04, 0.04))) for part in BACKGROUNDS[name]
    )
    scale, shift = _placing(4, random)
    flip = item.may_flip and random.random() < 0.5
    share = weight * BACKGROUND_SHARE / BACKGROUND_ROWS
    caption_set = captions // CAPTIONS
    return Row(picture, scale, shift, flip, Paint(), (red, green, blue), caption_set, share)


def _painted_row(
    picture: int, item: Item, name: str, weight: float, captions: int, random: Random
) -> Row:
    scale, shift = _placing(5, random)
    flip = item.may_flip and random.random() < 0.5
    share = weight * PAINTED_SHARE / (len(HUES) + len(GREYS))
    paint = paint_for(item, name, random)
    return Row(picture, scale, shift, flip, paint, WHITE, captions // CAPTIONS, share)


def _placing(pixels: float, random: Random) -> tuple[float, tuple[float, float]]:
    scale = random.uniform(0.86, 1.0)
    return scale, (random.uniform(-pixels, pixels), random.uniform(-pixels, pixels))


def _plan_part(job: tuple[int, Sequence[Item], Path, float]) -> Plan:
    """The plan of some items, of which the first has the given number."""
    first, items, tokenizer, boost = job
    random = Random(f"rows {first}")
    rows: list[Row] = []
    captions: list[str] = []
    for picture, item in enumerate(items, first):
        done = len(captions) // CAPTIONS
        new, texts = rows_of(picture, item, boost, random)
        rows += [row._replace(caption_set=row.caption_set + done) for row in new]
        captions += texts
    return _columns(rows, Encoder(tokenizer)(captions))


def _columns(rows: Sequence[Row], tokens: NDArray[np.int16]) -> Plan:
    return Plan(
        picture=np.array([row.picture for row in rows], np.int64),
        scale=np.array([row.scale for row in rows], np.float32),
        shift=np.array([row.shift for row in rows], np.float32),
        flip=np.array([row.flip for row in rows], np.bool_),
        paint=np.array([row.paint for row in rows], np.float32),
        background=np.array([row.background for row in rows], np.float32),
        caption_set=np.array([row.caption_set for row in rows], np.int64),
        weight=np.array([row.weight for row in rows], np.float32),
        tokens=tokens.reshape(-1, CAPTIONS, tokens.shape[-1]),
    )
