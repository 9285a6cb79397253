"""The lock files, and how they are made for systems other than the one that makes them."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from lockfiles import EXTRAS, HEADER, Pin, parse_pins, render, split, wanted
from markers import GRID, Cell, environments, marker_for, reach
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FILES = ("base", *EXTRAS)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WINDOWS = {cell for cell in GRID if cell[0] == "win32"}


def lock(name: str) -> str:
    """The text of a lock file."""
    return (ROOT / "packaging" / "requirements" / f"{name}.txt").read_text("utf-8")


def all_pins() -> dict[str, Pin]:
    """Every pin of every file."""
    return {name: pin for file in FILES for name, pin in parse_pins(lock(file)).items()}


def lines_of(text: str) -> list[str]:
    """Pins without their hashes."""
    joined = text.replace("\\\n", " ")
    return [re.sub(r"\s+--hash=\S+", "", line) for line in joined.splitlines() if "==" in line]


@pytest.mark.parametrize("name", FILES)
def test_every_package_has_hashes(name: str) -> None:
    pins = parse_pins(lock(name))
    assert pins
    assert len(pins) == len(lines_of(lock(name)))
    assert [pin.name for pin in pins.values() if not pin.hashes] == []


@pytest.mark.parametrize("name", FILES)
def test_a_lock_names_no_address(name: str) -> None:
    assert lock(name).startswith(HEADER)
    assert not re.search(r"://|^-|--(?!hash=)", lock(name), re.M)


@pytest.mark.parametrize("extra", FILES)
def test_what_the_project_asks_for_is_locked(extra: str) -> None:
    pins = all_pins()
    for requirement in wanted(PROJECT)[extra]:
        pin = pins[str(canonicalize_name(requirement.name))]
        assert requirement.specifier.contains(pin.version, prereleases=True), requirement


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        ("colorama", "win32"),
        ("pywin32-ctypes", "win32"),
        ("rubicon-objc", "darwin"),
        ("secretstorage", "linux"),
        ("jeepney", "linux"),
        ("macholib", "darwin"),
        ("pefile", "win32"),
    ],
)
def test_what_one_system_needs_is_locked_for_it_alone(name: str, platform: str) -> None:
    (line,) = {one for file in FILES for one in lines_of(lock(file)) if one.startswith(f"{name}=")}
    assert line.split(" ; ")[1].strip() == f'sys_platform == "{platform}"'


def test_packages_of_old_pythons_have_a_marker() -> None:
    (line,) = (one for one in lines_of(lock("base")) if one.startswith("importlib-metadata="))
    assert 'python_version < "3.12"' in line


def test_binary_packages_are_locked_for_all_systems() -> None:
    """numpy has dozens of wheels; a lock of one system's would hold one hash."""
    pins = all_pins()
    assert min(len(pins[name].hashes) for name in ("numpy", "pillow", "cffi")) > 20
    assert len(pins["pyside6-essentials"].hashes) >= 5


def imported_by(*folders: str) -> set[str]:
    """Top-level modules that the files of these folders import, ours and Python's left out."""
    names: set[str] = set()
    for folder in folders:
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    names |= {one.name.partition(".")[0] for one in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"app", "engine"}


def test_what_the_program_imports_it_asks_for() -> None:
    """A package that only comes along with another one can go away with its next version."""
    asked = {str(canonicalize_name(one.name)) for one in wanted(PROJECT)["base"]}
    asked.add("shiboken6")  # one project with PySide6, of the same version always
    owners = packages_distributions()
    for module in imported_by("app", "engine") & set(owners):
        brought_by = {str(canonicalize_name(name)) for name in owners[module]}
        assert brought_by & asked, f"{module} comes from {brought_by}"


def cells(*platforms: str, versions: Iterable[str] = ("3.11", "3.12", "3.13", "3.14")) -> set[Cell]:
    """Cells of the grid."""
    return {(platform, version) for platform in platforms for version in versions}


@pytest.mark.parametrize(
    ("where", "marker"),
    [
        (cells("linux", "darwin", "win32"), None),
        (cells("win32"), 'sys_platform == "win32"'),
        (cells("linux", "win32"), 'sys_platform != "darwin"'),
        (cells("linux", "darwin", "win32", versions=["3.11"]), 'python_version < "3.12"'),
        (
            cells("linux", versions=["3.12", "3.13"]),
            'sys_platform == "linux" and python_version >= "3.12" and python_version < "3.14"',
        ),
        (
            cells("win32") | cells("linux", versions=["3.11"]),
            '(sys_platform == "linux" and python_version < "3.12") or sys_platform == "win32"',
        ),
    ],
)
def test_a_marker_says_where_a_package_is_needed(where: set[Cell], marker: str | None) -> None:
    assert marker_for(where) == marker
    if marker is not None:
        true = {cell for cell in GRID if Marker(marker).evaluate(environments(cell)[0])}
        assert true == where


def test_versions_with_a_gap_are_refused() -> None:
    with pytest.raises(ValueError, match="no range covers Python"):
        marker_for(cells("linux", versions=["3.11", "3.13"]))


def requirements(*words: str) -> list[Requirement]:
    """Parsed requirements."""
    return [Requirement(one) for one in words]


def test_requirements_are_followed_through_markers_and_extras() -> None:
    metadata = {
        "a": requirements("b; sys_platform == 'win32'", "c; extra == 'more'"),
        "b": requirements("d"),
        "c": [],
        "d": [],
    }
    found = reach(requirements("a"), metadata)
    assert found == {"a": set(GRID), "b": WINDOWS, "d": WINDOWS}
    assert "c" in reach(requirements("a[more]"), metadata)


def test_a_package_that_is_nowhere_pinned_shows_up() -> None:
    assert set(reach(requirements("a"), {"a": requirements("Un_known")})) == {"a", "un-known"}


def test_an_extras_file_lists_what_the_base_does_not_bring() -> None:
    pins = {name: Pin(name, "1", ("sha256:0",)) for name in ("a", "b", "c")}
    places = {
        "base": {"a": set(GRID), "b": WINDOWS},
        "dev": {"a": set(GRID), "b": set(GRID), "c": WINDOWS},
    }
    files = split(places, pins)
    assert files["base"] == [(pins["a"], None), (pins["b"], 'sys_platform == "win32"')]
    assert files["dev"] == [(pins["b"], None), (pins["c"], 'sys_platform == "win32"')]


def test_what_is_written_is_read_back() -> None:
    digests = ("sha256:" + "a" * 64, "sha256:" + "b" * 64)
    pins = [Pin("some-name", "1.2", digests), Pin("other", "3", digests[:1])]
    text = render([(pins[0], 'sys_platform == "win32"'), (pins[1], None)])
    assert list(parse_pins(text).values()) == [pins[1], pins[0]]
    assert 'some-name==1.2 ; sys_platform == "win32" \\\n    --hash=sha256:aaa' in text
