"""The data set on disk: pictures.bin (WebP files one after another) and items.json.

An item says where its picture lies, what the picture may be called and what colour it has.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIZE = 128  # pixels a side
PICTURES, ITEMS = "pictures.bin", "items.json"


class DataSetError(Exception):
    """The data set cannot be read; the sentence says why."""


@dataclass(frozen=True)
class Item:
    """One picture: names for captions, facts about its colour, and its place in the file."""

    picture_set: str
    names: list[str]
    aliases: list[str]
    keywords: list[str]
    group: int
    may_flip: bool  # looks right mirrored
    colour: str | None  # its name
    hue: float | None  # degrees
    saturation: float
    value: float
    single_hue: bool  # can be repainted
    synonyms: list[str] = field(default_factory=list)
    offset: int = 0  # bytes in pictures.bin
    length: int = 0


def save(folder: Path, items: Sequence[Item], pictures: Sequence[bytes]) -> list[Item]:
    """Write a data set; the items with the places of their pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    placed: list[Item] = []
    offset = 0
    for item, picture in zip(items, pictures, strict=True):
        placed.append(replace(item, offset=offset, length=len(picture)))
        offset += len(picture)
    (folder / PICTURES).write_bytes(b"".join(pictures))
    save_items(folder, placed)
    return placed


def save_items(folder: Path, items: Iterable[Item]) -> None:
    """Write the items anew, with the pictures as they are."""
    rows = [json.dumps(asdict(item), separators=(",", ":")) for item in items]
    (folder / ITEMS).write_text("[\n" + ",\n".join(rows) + "\n]\n", "utf-8")


def load_items(folder: Path) -> list[Item]:
    """All items. Raises DataSetError."""
    try:
        return [Item(**fields) for fields in json.loads((folder / ITEMS).read_text("utf-8"))]
    except OSError as error:
        raise DataSetError(f"There is no data set in {folder}; build it first.") from error
    except (ValueError, TypeError) as error:
        raise DataSetError(f"{folder / ITEMS} is damaged: {error}.") from error


def load_pictures(
    folder: Path, items: Sequence[Item], threads: int = 16
) -> NDArray[np.uint8]:  # [N, 4, SIZE, SIZE]
    """The pictures of some items, red, green, blue and alpha. Raises DataSetError."""
    blob = (folder / PICTURES).read_bytes()

    def decoded(item: Item) -> NDArray[np.uint8]:
        data = blob[item.offset : item.offset + item.length]
        picture = Image.open(io.BytesIO(data)).convert("RGBA")
        if picture.size != (SIZE, SIZE):
            raise DataSetError(f"The picture of {item.names[0]!r} is {picture.size}, not {SIZE}.")
        return np.asarray(picture).transpose(2, 0, 1)

    with ThreadPoolExecutor(threads) as pool:
        return np.stack(list(pool.map(decoded, items)))
