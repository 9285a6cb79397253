"""Where the pictures that come with the program lie: beside the sources, or inside a bundle."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path


class AssetError(Exception):
    """A file that belongs to the program is not there; the sentence says which."""


@cache
def assets_folder() -> Path:
    """The folder with icons/ and app/; raises AssetError where the installation lacks it."""
    bundle = getattr(sys, "_MEIPASS", None)
    roots = [Path(bundle)] if bundle else []
    here = Path(__file__).resolve()
    roots += [here.parents[2], here.parents[1]]
    for root in roots:
        if (root / "assets" / "icons").is_dir():
            return root / "assets"
    places = ", ".join(str(root / "assets") for root in roots)
    raise AssetError(
        f"The folder with the program's icons is missing (looked at {places}). "
        "Install the program again."
    )


def asset(*parts: str) -> Path:
    """The path of one file below assets/; raises AssetError when there is none."""
    path = assets_folder().joinpath(*parts)
    if not path.is_file():
        raise AssetError(
            f"The program's file {'/'.join(parts)} is missing. Install the program again."
        )
    return path
