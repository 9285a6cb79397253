"""Where pictures are written: beside their name first, renamed when whole."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.models.paths import home_paths
from engine.models.whole import PART
from engine.worker.failures import RequestError
from engine.worker.version import engine_version

if TYPE_CHECKING:
    from engine.image.settings import ImageSettings

SUFFIX: Final = ".png"
LONGEST: Final = 48  # characters of the prompt's words in a file's name
_WORDS: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class PictureFiles:
    """How the files of one order are called.

    With ``output`` it is that file, and -2, -3, ... before the suffix for the others; files that
    are there are replaced, as the person named them. In a ``folder`` the names come from the
    prompt's words and the seed, and nothing is ever replaced.
    """

    folder: Path
    words: str
    output: Path | None = None

    @staticmethod
    def of(asked: Mapping[str, Any], prompt: str) -> PictureFiles:
        """Read a request; makes the folder. Raises RequestError for what cannot be written."""
        if "output" in asked:
            output = Path(asked["output"]).expanduser().absolute()
            if output.suffix.lower() != SUFFIX:
                raise RequestError(
                    f"Pictures are written as PNG. Choose a name that ends in {SUFFIX}, such as "
                    f"{output.stem or 'picture'}{SUFFIX}."
                )
            if not output.parent.is_dir():
                raise RequestError(f"There is no folder {output.parent} for the picture.")
            if output.is_dir():
                raise RequestError(f"{output} is a folder. Choose a name for the picture.")
            return PictureFiles(output.parent, words_of(prompt), output)
        folder = Path(asked["folder"]) if "folder" in asked else home_paths().data / "pictures"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise RequestError(
                f"The folder {folder} for the pictures cannot be made: {reason}."
            ) from error
        return PictureFiles(folder.absolute(), words_of(prompt))

    def path(self, index: int, seed: int) -> Path:
        """Where picture ``index`` goes."""
        if self.output is None:
            return _free(self.folder, f"{self.words}-{seed}")
        if index == 0:
            return self.output
        return self.output.with_name(f"{self.output.stem}-{index + 1}{self.output.suffix}")

    def write(
        self, index: int, pixels: Any, settings: ImageSettings, seed: int, model: str
    ) -> Path:
        """Write a picture with its own settings inside; returns where it is.

        Raises PictureFileError, or OSError where the disk is full.
        """
        from engine.image.errors import PictureFileError
        from engine.image.metadata import save_png

        own = replace(settings, seed=seed, count=1)
        path = self.path(index, seed)
        part = path.with_name(f".{path.name}{PART}")
        try:
            save_png(part, pixels, own, model=model, version=f"Driftwood {engine_version()}")
            part.replace(path)
        except PictureFileError as error:
            part.unlink(missing_ok=True)
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
                raise cause from None
            raise PictureFileError(str(error).replace(part.name, path.name)) from error
        except OSError as error:
            part.unlink(missing_ok=True)
            reason = error.strerror or str(error)
            raise PictureFileError(f"{path.name} cannot be written: {reason}.") from error
        return path


def words_of(prompt: str) -> str:
    """The first words of a prompt, as part of a file's name on every system."""
    name = "picture"
    for length, word in enumerate(_WORDS.findall(prompt.lower())):
        longer = word[:LONGEST] if length == 0 else f"{name}-{word}"
        if len(longer) > LONGEST:
            break
        name = longer
    return name


def _free(folder: Path, name: str) -> Path:
    """A name in the folder that nothing has yet."""
    path, number = folder / f"{name}{SUFFIX}", 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}{SUFFIX}"
    return path
