"""When .venv is made, added to, or left alone."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from environment import Folder, Stamp, locks_to_install, prepare, read_stamp, wanted_stamp

BASE = Stamp(1, "3.11.7", "/here", {"base": "b1"})
BOTH = replace(BASE, locks={"base": "b1", "dev": "d1"})


@pytest.mark.parametrize(
    ("found", "wanted", "remake", "locks"),
    [
        (None, BASE, True, ["base"]),  # nothing there, or half made
        (BASE, BASE, False, []),
        (BASE, BOTH, False, ["dev"]),  # made for running, now for tests
        (BOTH, BASE, False, []),  # what is there already stays
        (replace(BASE, locks={"base": "old"}), BOTH, True, ["base", "dev"]),
        (replace(BOTH, locks={"base": "b1", "dev": "old"}), BOTH, True, ["base", "dev"]),
        (replace(BASE, python="3.12.1"), BASE, True, ["base"]),
        (replace(BASE, root="/moved"), BASE, True, ["base"]),
        (replace(BASE, format=0), BASE, True, ["base"]),
    ],
)
def test_what_is_to_be_installed(
    found: Stamp | None, wanted: Stamp, remake: bool, locks: list[str]
) -> None:
    assert locks_to_install(found, wanted) == (remake, locks)


def checkout(root: Path, lock: str = "package==1\n") -> Folder:
    """A folder with one lock file."""
    folder = Folder(root)
    folder.lock("base").parent.mkdir(parents=True, exist_ok=True)
    folder.lock("base").write_text(lock)
    return folder


def test_a_stamp_follows_the_lock(tmp_path: Path) -> None:
    before = wanted_stamp(checkout(tmp_path), ["base"])
    assert wanted_stamp(checkout(tmp_path), ["base"]) == before
    assert wanted_stamp(checkout(tmp_path, "package==2\n"), ["base"]) != before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', "null"])
def test_a_stamp_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "stamp").write_text(text)
    assert read_stamp(tmp_path / "stamp") is None


def test_a_finished_environment_is_not_touched(tmp_path: Path) -> None:
    import json

    folder = checkout(tmp_path)
    folder.python.parent.mkdir(parents=True)
    folder.python.touch()
    folder.stamp.write_text(json.dumps(asdict(wanted_stamp(folder, ["base"]))))
    assert prepare(folder, ["base"]) is False
