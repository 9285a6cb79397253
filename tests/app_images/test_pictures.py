"""The folder of pictures: reading it, its settings text, deleting with a way back, thumbnails."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from app.images.decode import PictureError, load_picture, load_thumbnail
from app.images.facts import facts_of, ingredients_of
from app.storage.files import StorageError
from app.storage.pictures import (
    BIN,
    bring_back,
    copy_to,
    empty_bin,
    matching,
    read_picture,
    scan,
    set_aside,
)
from app.storage.pictures_text import SIGNATURE, prompt_of, read_png_text

TEXT = 'a "red" apple,\nläuft, 林檎\nNegative prompt: blurry\nSteps: 20, Sampler: Euler, Seed: 5'
SIZE = "16 \N{MULTIPLICATION SIGN} 8"


def make(path: Path, text: str = "", *, age: int = 0, size: tuple[int, int] = (16, 8)) -> Path:
    info = PngImagePlugin.PngInfo()
    if text:
        info.add_itxt("parameters", text)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "red").save(path, pnginfo=info)
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return path


def test_pictures_are_listed_newest_first_with_their_settings(tmp_path: Path) -> None:
    make(tmp_path / "old.png", age=10)
    make(tmp_path / "new.png", TEXT)
    (tmp_path / "note.txt").write_text("x")
    make(tmp_path / ".thumbnails" / "t.png")
    found = scan(tmp_path)
    assert [one.path.name for one in found] == ["new.png", "old.png"]
    assert found[0].prompt == 'a "red" apple,\nläuft, 林檎'
    assert (found[0].width, found[0].height) == (16, 8)
    assert facts_of(found[0]) == f"{SIZE} · seed 5 · 20 steps · Euler"
    assert facts_of(found[1]) == SIZE


def test_what_a_picture_was_made_with_is_told(tmp_path: Path) -> None:
    line = "Steps: 20, Sampler: Euler, CFG scale: 4.5, Seed: 5, Model: base, Clip skip: 2, "
    line += 'VAE: soft.safetensors, Lora: "ink.safetensors:0.8, b:c.safetensors:1"'
    made = read_picture(make(tmp_path / "a.png", f"a cat\nNegative prompt: blur, text\n{line}"))
    assert made is not None
    assert facts_of(made) == f"{SIZE} · seed 5 · 20 steps · Euler · guidance 4.5"
    told = "base · LoRA ink 0.8 · LoRA b:c 1 · VAE soft · CLIP skip 2 · without blur, text"
    assert ingredients_of(made) == told


def test_a_missing_folder_holds_nothing(tmp_path: Path) -> None:
    assert scan(tmp_path / "none") == []


def test_what_is_known_is_not_read_again(tmp_path: Path) -> None:
    path = make(tmp_path / "a.png", TEXT)
    known = {path: scan(tmp_path)[0]}
    assert scan(tmp_path, known)[0] is known[path]


def test_search_finds_every_word_anywhere_in_the_settings(tmp_path: Path) -> None:
    make(tmp_path / "a.png", TEXT)
    make(tmp_path / "b.png")
    found = scan(tmp_path)
    assert [one.path.name for one in matching(found, "APPLE euler")] == ["a.png"]
    assert matching(found, "pear") == []
    assert matching(found, "  ") == found


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body), kind) + body + b"\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", None),
        (b"GIF89a", None),
        (SIGNATURE, ""),
        (SIGNATURE + b"\xff\xff\xff\xfftEXt", ""),
        (SIGNATURE + chunk(b"IHDR", b"\0"), None),
        (SIGNATURE + chunk(b"tEXt", b"parameters\0a caf\xe9"), "a café"),
        (SIGNATURE + chunk(b"iTXt", b"parameters\0"), ""),
        (SIGNATURE + chunk(b"zTXt", b"parameters\0\0broken"), ""),
        (SIGNATURE + chunk(b"zTXt", b"parameters\0\0" + zlib.compress(b"x" * 9)), "x" * 9),
    ],
)
def test_broken_files_are_read_as_far_as_they_go(
    tmp_path: Path, data: bytes, text: str | None
) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(data)
    found = read_png_text(path)
    assert (found.parameters if found else None) == text


def test_a_small_chunk_does_not_become_gigabytes(tmp_path: Path) -> None:
    bomb = zlib.compress(b"x" * 50_000_000)
    (tmp_path / "x.png").write_bytes(SIGNATURE + chunk(b"zTXt", b"parameters\0\0" + bomb))
    found = read_png_text(tmp_path / "x.png")
    assert found is not None
    assert len(found.parameters) == 2**20


def test_a_text_without_a_settings_line_is_all_prompt() -> None:
    assert prompt_of("a cat\nby the sea") == "a cat\nby the sea"
    assert prompt_of("Steps: 20, Seed: 1") == ""


def test_a_deleted_picture_comes_back_and_keeps_out_of_the_way(tmp_path: Path) -> None:
    path = make(tmp_path / "a.png", TEXT)
    waiting = set_aside(path)
    assert scan(tmp_path) == []
    make(path)  # another one took the name meanwhile
    assert bring_back(waiting, path) == tmp_path / "a-2.png"
    assert {one.path.name for one in scan(tmp_path)} == {"a.png", "a-2.png"}


def test_what_was_deleted_goes_for_good_with_its_thumbnail(tmp_path: Path) -> None:
    kept, gone = make(tmp_path / "kept.png"), make(tmp_path / "gone.png")
    for path in (kept, gone):
        picture = read_picture(path)
        assert picture is not None
        load_thumbnail(picture)
    set_aside(gone)
    assert empty_bin(tmp_path) == 2
    assert list((tmp_path / BIN).iterdir()) == []
    assert [path.name[:8] for path in (tmp_path / ".thumbnails").iterdir()] == ["kept.png"]


def test_errors_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"a\.png could not be deleted"):
        set_aside(tmp_path / "a.png")
    with pytest.raises(StorageError, match="could not be brought back"):
        bring_back(tmp_path / "b.png", tmp_path / "a.png")
    with pytest.raises(StorageError, match="no longer there"):
        copy_to(tmp_path / "a.png", tmp_path / "c.png")


def test_a_thumbnail_is_small_and_kept_beside_the_pictures(tmp_path: Path) -> None:
    picture = read_picture(make(tmp_path / "a.png", size=(1000, 500)))
    assert picture is not None
    image = load_thumbnail(picture)
    assert (image.width(), image.height()) == (416, 208)
    assert picture.thumbnail.is_file()
    picture.thumbnail.write_bytes(b"cut short")
    assert load_thumbnail(picture).width() == 416


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.png", None, "no longer there"),
        ("a.png", b"hello", "not a picture that can be read"),
        ("a.png", SIGNATURE + b"\0\0\0\rIHDR", "damaged|not a picture"),
    ],
)
def test_a_file_that_is_no_picture_is_told_in_words(
    tmp_path: Path, name: str, data: bytes | None, words: str
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(PictureError, match=words):
        load_picture(tmp_path / name)
