"""Pictures, masks and latents that a run starts from: read, brought to size, checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from engine.image.errors import PictureFileError, SettingError
from engine.image.settings import ImageSettings

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]
MAX_PIXELS = 1 << 26  # of a picture to start from: larger files are mistakes or attacks


def read_picture(path: str, width: int, height: int) -> Floats:
    """A picture brought to [height, width, 3] in -1..1: scaled to cover, cut around the middle.

    Raises:
        PictureFileError: it cannot be read.
    """
    with _opened(path) as image:
        upright = ImageOps.exif_transpose(image)
        flat = Image.new("RGB", upright.size, "white")
        rgba = upright.convert("RGBA")
        flat.paste(rgba, mask=rgba.getchannel("A"))
        fitted = ImageOps.fit(flat, (width, height), Image.Resampling.LANCZOS)
    return np.asarray(fitted).astype(np.float32) / np.float32(127.5) - np.float32(1)


def read_mask(path: str, width: int, height: int) -> Floats:
    """A mask brought to [height, width] in 0..1; 1 (white) is made anew.

    Raises:
        PictureFileError: it cannot be read.
        SettingError: it is all black.
    """
    with _opened(path) as image:
        upright = ImageOps.exif_transpose(image)
        if "A" in upright.getbands():
            black = Image.new("RGBA", upright.size, "black")
            upright = Image.alpha_composite(black, upright.convert("RGBA"))
        fitted = ImageOps.fit(upright.convert("L"), (width, height), Image.Resampling.BILINEAR)
    mask = (np.asarray(fitted) / 255).astype(np.float32)
    if not np.any(mask >= 0.5):
        raise SettingError("The mask is all black, so nothing would change. Paint a part white.")
    return mask


def _opened(path: str) -> Image.Image:
    try:
        image = Image.open(path)
        if image.width * image.height > MAX_PIXELS:
            raise PictureFileError(
                f"{Path(path).name} has {image.width:,} x {image.height:,} pixels, which is more "
                "than a picture to start from may have."
            )
        image.load()
    except UnidentifiedImageError as error:
        raise PictureFileError(f"{Path(path).name} is no picture that can be read.") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise PictureFileError(f"{Path(path).name} cannot be read: {error}.") from error
    return image


def latent_mask(mask: Floats, factor: int) -> Floats:
    """A mask of pixels [h, w] as one of latents [h / f, w / f]: 1 where any pixel is made anew."""
    height, width = mask.shape
    blocks = (mask >= 0.5).reshape(height // factor, factor, width // factor, factor)
    return np.asarray(blocks.any(axis=(1, 3)), np.float32)


def fitted_to_latents(settings: ImageSettings, factor: int, has_count: bool) -> ImageSettings:
    """Settings of the size that their file of noise is for, and of as many pictures.

    Args:
        factor: pixels that a latent stands for, along a side.
        has_count: whether the person asked for a number of pictures.

    Raises:
        SettingError: it is no such file, or a size or number was asked for that it is not for.
    """
    assert settings.latents is not None
    name, shape = Path(settings.latents).name, _loaded(settings.latents).shape
    if len(shape) != 4:
        raise SettingError(
            f"{name} holds {list(shape)}; noise to start from is float32 [pictures, channels, "
            "height / 8, width / 8]."
        )
    count, _, high, wide = (int(side) for side in shape)
    width, height = wide * factor, high * factor
    for side, own, asked in (
        ("width", width, settings.width),
        ("height", height, settings.height),
    ):
        if asked not in (None, own):
            raise SettingError(
                f"{name} holds noise for {width} x {height} pixels, and a {side} of {asked} is "
                "asked for. Leave width and height out, or choose another file."
            )
    if has_count and settings.count != count:
        pictures = "1 picture" if count == 1 else f"{count} pictures"
        raise SettingError(
            f"{name} holds noise for {pictures}, and {settings.count} are asked for. Leave the "
            "number out, or choose another file."
        )
    return replace(settings, width=width, height=height, count=count)


def read_latents(path: str, shape: tuple[int, int, int, int]) -> Floats:
    """Noise to start from, float32 [count, channels, h, w] in the file, as [count, h, w, channels].

    Raises:
        SettingError: it is no such file, or of another shape.
    """
    array = _loaded(path)
    count, height, width, channels = shape
    want = (count, channels, height, width)
    if array.shape != want or array.dtype.kind != "f":
        raise SettingError(
            f"The latents must be float32 {list(want)}; the file holds {array.dtype} "
            f"{list(array.shape)}."
        )
    if not np.isfinite(array).all():
        raise SettingError("The latents hold numbers that are not finite.")
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1), np.float32)


def _loaded(path: str) -> NDArray[Any]:
    """The array of a .npy file. Raises SettingError."""
    try:
        array: Any = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise SettingError(f"There is no file {path} with noise.") from error
    except (OSError, ValueError, EOFError) as error:
        raise SettingError(
            f"{Path(path).name} is no file of numbers that can be read. Noise to start from is a "
            ".npy file, as numpy.save writes it."
        ) from error
    if not isinstance(array, np.ndarray):
        raise SettingError(f"{Path(path).name} holds several arrays. Save one as a .npy file.")
    return cast("NDArray[Any]", array)


def to_pixels(picture: Floats) -> Pixels:
    """A picture in -1..1 as bytes."""
    return np.asarray(np.rint(np.clip(picture * 127.5 + 127.5, 0, 255)), np.uint8)


def dead(pixels: Pixels) -> bool:
    """Whether a picture is one plain colour, as it is when a network gave nothing."""
    return bool((pixels == pixels[0, 0]).all())
