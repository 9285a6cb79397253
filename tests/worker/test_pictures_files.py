"""What files of pictures are called, what they replace, and what is left when writing fails."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.image import metadata
from engine.image.errors import PictureFileError
from engine.image.metadata import read_settings
from engine.image.settings import ImageSettings
from engine.worker.failures import RequestError
from engine.worker.image_files import PictureFiles, words_of

SETTINGS = ImageSettings("abc", seed=5, count=3, width=64, height=64)
BLACK = np.zeros((64, 64, 3), np.uint8)


def write(files: PictureFiles, index: int = 0, seed: int = 5) -> Path:
    return files.write(index, BLACK, SETTINGS, seed, "tiny")


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("A red apple, on a TABLE!", "a-red-apple-on-a-table"),
        ("(red:1.2) [sky]", "red-1-2-sky"),
        ("../../etc/passwd", "etc-passwd"),
        ("りんご 赤い", "りんご-赤い"),
        ("...", "picture"),
        ("", "picture"),
        ("x" * 60, "x" * 48),
        ("a " * 60, "-".join("a" * 24)),
    ],
)
def test_names_come_from_the_prompts_words(prompt: str, name: str) -> None:
    assert words_of(prompt) == name


def test_a_folder_is_made_and_nothing_in_it_is_replaced(tmp_path: Path) -> None:
    files = PictureFiles.of({"folder": str(tmp_path / "new" / "folder")}, "abc")
    names = [write(files, index, seed).name for index, seed in ((0, 5), (1, 6), (2, 5), (0, 5))]
    assert names == ["abc-5.png", "abc-6.png", "abc-5-2.png", "abc-5-3.png"]
    assert sorted(path.name for path in files.folder.iterdir()) == sorted(names)


def test_a_named_file_is_replaced_and_the_others_are_numbered(tmp_path: Path) -> None:
    out = tmp_path / "out.PNG"
    out.write_text("what was there")
    files = PictureFiles.of({"output": str(out)}, "abc")
    assert [write(files, index).name for index in range(3)] == ["out.PNG", "out-2.PNG", "out-3.PNG"]
    with Image.open(out) as image:
        assert image.size == (64, 64)


def test_a_picture_carries_its_own_seed_and_no_count(tmp_path: Path) -> None:
    files = PictureFiles.of({"folder": str(tmp_path)}, "abc")
    recalled = read_settings(write(files, 2, 7))
    assert (recalled.settings.seed, recalled.settings.count, recalled.model) == (7, 1, "tiny")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "out.jpg",
            "Pictures are written as PNG. Choose a name that ends in .png, such as out.png",
        ),
        ("nowhere/out.png", "There is no folder"),
        ("folder.png", "is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused_before_drawing(
    tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(RequestError, match=words):
        PictureFiles.of({"output": str(tmp_path / name)}, "abc")
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot be made"):
        PictureFiles.of({"folder": str(tmp_path / "file" / "below")}, "abc")


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, OSError), (errno.EACCES, PictureFileError)]
)
def test_a_write_that_fails_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def fails(path: Path, *_: object, **__: object) -> None:
        path.write_bytes(b"half")
        cause = OSError(number, "No more")
        raise PictureFileError(f"{path.name} cannot be written: No more.") from cause

    monkeypatch.setattr(metadata, "save_png", fails)
    files = PictureFiles.of({"folder": str(tmp_path)}, "abc")
    with pytest.raises(kind) as caught:
        write(files)
    assert list(tmp_path.iterdir()) == []
    if kind is PictureFileError:
        assert str(caught.value) == "abc-5.png cannot be written: No more."
    else:
        assert caught.value.errno == number  # pyright: ignore[reportAttributeAccessIssue]
