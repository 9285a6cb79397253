"""The settings file: kept, checked, and never a reason not to start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.storage.files import StorageError, explain, move_aside, write_atomically
from app.storage.settings import DEFAULTS, Settings


def test_defaults_without_a_file(qt: QApplication, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "config" / "settings.json")
    assert settings.get("theme") == "system"
    assert settings.get("nothing", 7) == 7
    assert not settings.path.exists()


def test_a_value_is_kept_and_told(qt: QApplication, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "settings.json")
    told: list[tuple[str, object]] = []
    settings.changed.connect(lambda key, value: told.append((key, value)))
    settings.set("theme", "dark")
    settings.set("theme", "dark")
    assert told == [("theme", "dark")]
    assert Settings(settings.path).get("theme") == "dark"


def test_unknown_keys_of_a_newer_version_stay(qt: QApplication, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"from.the.future": [1, 2]}')
    Settings(path).set("theme", "dark")
    assert json.loads(path.read_text()) == {"from.the.future": [1, 2], "theme": "dark"}


@pytest.mark.parametrize("text", ["{half", "[1, 2]", "", "\x00\x01", '"words"'])
def test_a_damaged_file_is_moved_aside(qt: QApplication, tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    settings = Settings(path)
    assert "damaged" in settings.problem
    assert settings.get("theme") == "system"
    assert (tmp_path / "settings.broken-1.json").read_text() == text


@pytest.mark.parametrize(("key", "bad"), [("theme", 3), ("context", "big"), ("without", {})])
def test_a_value_of_the_wrong_kind_counts_as_unset(
    qt: QApplication, tmp_path: Path, key: str, bad: object
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({key: bad}))
    assert Settings(path).get(key) == DEFAULTS[key]


def test_reset_tells_every_change(qt: QApplication, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "settings.json")
    settings.set("theme", "dark")
    told: list[tuple[str, object]] = []
    settings.changed.connect(lambda key, value: told.append((key, value)))
    settings.reset()
    assert told == [("theme", "system")]


def test_a_folder_in_the_way_is_told(qt: QApplication, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file where the folder should be")
    settings = Settings(tmp_path / "config" / "settings.json")
    failures: list[str] = []
    settings.failed.connect(failures.append)
    settings.set("theme", "dark")
    assert settings.get("theme") == "dark"
    assert "settings.json" in failures[0]


@pytest.mark.parametrize(
    ("number", "words"), [(28, "disk is full"), (13, "permissions"), (30, "permissions")]
)
def test_errors_of_the_disk_become_sentences(number: int, words: str) -> None:
    assert words in explain(OSError(number, "x"), Path("a.json"))


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    with pytest.raises(StorageError):
        write_atomically(path / "below", b"three")


def test_moving_aside_never_overwrites(tmp_path: Path) -> None:
    for text in ("one", "two"):
        (tmp_path / "a.json").write_text(text)
        move_aside(tmp_path / "a.json")
    assert (tmp_path / "a.broken-2.json").read_text() == "two"
