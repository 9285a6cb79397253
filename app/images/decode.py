"""Picture files as Qt images, made with Pillow, which lets the GUI thread run meanwhile."""

from __future__ import annotations

import base64
import binascii
import warnings
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError
from PySide6.QtGui import QImage

from app.storage.files import StorageError, write_atomically
from app.storage.pictures import Picture

THUMBNAIL = 416  # pixels of a thumbnail's longer side: a tile at 200 % scale


class PictureError(Exception):
    """A file that cannot be shown as a picture; the sentence says why."""


def load_picture(path: Path, most: int = 0) -> QImage:
    """A picture of any common kind, its longer side at most ``most`` pixels (0: as it is).

    Raises PictureError with a sentence.
    """
    return _to_qimage(_open(path, most))


def load_thumbnail(picture: Picture) -> QImage:
    """The small version from the disk; made and kept there if it is missing."""
    kept = picture.thumbnail
    if kept.is_file():
        try:
            return load_picture(kept)
        except PictureError:
            kept.unlink(missing_ok=True)  # cut short by a crash; it is made again
    small = _open(picture.path, THUMBNAIL)
    buffer = BytesIO()
    small.save(buffer, "PNG", compress_level=1)
    try:
        write_atomically(kept, buffer.getvalue())
    except StorageError:
        return _to_qimage(small)  # a full or read-only disk: it is made again next time
    return _to_qimage(small)


def preview_from(text: str) -> QImage:
    """The image of a base64 PNG, null where it is none."""
    try:
        return QImage.fromData(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return QImage()


def _open(path: Path, most: int) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as file:
                if most and file.format == "JPEG":
                    file.draft("RGB", (most, most))
                image = ImageOps.exif_transpose(file)
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    except FileNotFoundError as error:
        raise PictureError(f"{path.name} is no longer there.") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureError(
            f"{path.name} has more than 89 million pixels, which is too large to open here."
        ) from error
    except UnidentifiedImageError as error:
        raise PictureError(
            f"{path.name} is not a picture that can be read. Use a PNG, JPEG or WebP file."
        ) from error
    except (OSError, SyntaxError, ValueError) as error:
        raise PictureError(f"{path.name} is damaged and cannot be shown ({error}).") from error
    if most and max(image.size) > most:
        image.thumbnail((most, most), Image.Resampling.LANCZOS)
    return image


def _to_qimage(image: Image.Image) -> QImage:
    has_alpha = image.mode == "RGBA"
    kind = QImage.Format.Format_RGBA8888 if has_alpha else QImage.Format.Format_RGB888
    data = image.tobytes()
    width, height = image.size
    made = QImage(data, width, height, width * len(image.getbands()), kind)
    return made.convertToFormat(
        QImage.Format.Format_ARGB32_Premultiplied if has_alpha else QImage.Format.Format_RGB32
    )
