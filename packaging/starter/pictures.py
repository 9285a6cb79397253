"""Pictures of one look: rendered, cut to the object, fitted, and looked at for their colour."""

# pyright: reportMissingImports=false
from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from . import dataset
from .candidates import RENDERED, Candidate, candidates
from .colours import Colour, measure, settled_name
from .dataset import SIZE, Item
from .emoji import Group
from .words import pattern

FIT = 116  # pixels: the longer side of the object
QUALITY, ALPHA_QUALITY = 88, 70  # WebP
LARGEST = 2400  # pixels a side; larger clip art is mostly scans
MOST_ENLARGED = 1.6  # smaller clip art would be blurred
LONGEST_SHAPE = 4.0  # sides as 4 to 1 at most
_TOO_LARGE = (Image.DecompressionBombWarning, Image.DecompressionBombError)
# Mirrored, these would be wrong: writing, clock faces, the side that a hand is on.
HANDED = re.compile(
    "left|right|letter|text|book|news|music|guitar|abc|calendar|clock|dollar|euro|yen|pound|watch"
)


def build(sources: Path, folder: Path, processes: int = 2) -> list[Item]:
    """Render every candidate and write the data set; its items."""
    items: list[Item] = []
    pictures: list[bytes] = []
    seen: set[bytes] = set()
    for item, picture in _rendered(candidates(sources), processes):
        if picture in seen or _is_unwanted(item):
            continue
        seen.add(picture)
        items.append(item)
        pictures.append(picture)
    return dataset.save(folder, items, pictures)


def _rendered(every: Iterable[Candidate], processes: int) -> Iterator[tuple[Item, bytes]]:
    with Pool(processes) as pool:
        for result in pool.imap(make_item, every, chunksize=32):
            if result is not None:
                yield result


def make_item(candidate: Candidate) -> tuple[Item, bytes] | None:
    """A candidate's item and WebP file; None for a picture that will not do."""
    picture = _open(candidate)
    if picture is None:
        return None
    fitted = fit(picture, is_page=candidate.picture_set == "clip")
    if fitted is None:
        return None
    pixels: NDArray[np.float32] = np.asarray(fitted).astype(np.float32) / np.float32(255)
    inside = pixels[..., 3] > 0.5
    if not _has_substance(candidate.picture_set, pixels[..., :3], inside):
        return None
    file = io.BytesIO()
    fitted.save(file, "WEBP", quality=QUALITY, method=4, alpha_quality=ALPHA_QUALITY)
    return _item(candidate, measure(pixels[..., :3], inside)), file.getvalue()


def fit(picture: Image.Image, is_page: bool) -> Image.Image | None:
    """The object alone, its longer side FIT pixels, in the middle of SIZE x SIZE; None if unfit.

    `is_page`: a drawing that may stand on white paper, and may be too small to enlarge.
    """
    box = _object_box(picture, is_page)
    if box is None:
        return None
    width, height = box[2] - box[0], box[3] - box[1]
    scale = FIT / max(width, height)
    if max(width, height) > LONGEST_SHAPE * min(width, height):
        return None
    if is_page and scale > MOST_ENLARGED:
        return None
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    # colours times alpha while resizing: what is unseen must not colour the edge
    cut = picture.crop(box).convert("RGBa").resize(size, Image.Resampling.LANCZOS).convert("RGBA")
    canvas = Image.new("RGBA", (SIZE, SIZE), (255, 255, 255, 0))
    canvas.paste(cut, ((SIZE - size[0]) // 2, (SIZE - size[1]) // 2))
    return canvas


def _open(candidate: Candidate) -> Image.Image | None:
    if candidate.file is None:
        import resvg_py  # only the build of the data set needs it

        data = resvg_py.svg_to_bytes(svg_string=candidate.svg, width=RENDERED, height=RENDERED)
        return Image.open(io.BytesIO(bytes(data))).convert("RGBA")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(candidate.file)
        return picture.convert("RGBA") if max(picture.size) <= LARGEST else None
    except (*_TOO_LARGE, UnidentifiedImageError, OSError, ValueError, SyntaxError):
        return None  # some old PNG files are damaged


def _object_box(picture: Image.Image, is_page: bool) -> tuple[int, int, int, int] | None:
    pixels = np.asarray(picture)
    seen: NDArray[np.bool_] = pixels[..., 3] > 8
    if is_page and pixels[..., 3].min() > 250:
        seen = pixels[..., :3].min(-1) < 245
    rows, columns = np.where(seen)
    if len(rows) < 50:
        return None
    return (
        int(columns.min()),
        int(rows.min()),
        int(columns.max()) + 1,
        int(rows.max()) + 1,
    )


def _has_substance(name: str, rgb: NDArray[np.float32], inside: NDArray[np.bool_]) -> bool:
    """Clip art and icons must be more than lines: enough of them inked, clip art coloured."""
    value = rgb.max(-1)
    saturation = (value - rgb.min(-1)) / np.maximum(value, 1e-3)
    inked = (((saturation > 0.15) | (value < 0.9)) & inside).mean()
    if name == "clip":
        return bool(inked >= 0.1 and (saturation[inside] > 0.2).mean() >= 0.12)
    return bool(inked >= 0.06) if name in ("fci", "meteo") else True


def _item(candidate: Candidate, colour: Colour) -> Item:
    names = candidate.names
    return Item(
        picture_set=candidate.picture_set,
        names=names.names,
        aliases=names.aliases,
        keywords=names.keywords,
        group=int(names.group),
        may_flip=not HANDED.search(names.names[0]),
        colour=settled_name(colour, names.group == Group.SMILEYS),
        hue=colour.hue,
        saturation=round(colour.saturation, 3),
        value=round(colour.value, 3),
        single_hue=colour.single and names.group != Group.PEOPLE,
    )


def _is_unwanted(item: Item) -> bool:
    """Brands and diagrams among icons and clip art."""
    titled = item.picture_set in ("fci", "clip")
    return titled and bool(pattern("unwanted_titles", r"^{}\b").search(item.names[0]))
