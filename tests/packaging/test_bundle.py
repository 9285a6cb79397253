"""What goes into a bundle, and when one counts as good."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bundle import ANSWER_FIELDS, answer_problem, clean_environment, windows_version
from contents import DATA, EXCLUDED_MODULES, Entry, is_kept, keep, prune, unresolved
from licences import LOCK, TEXTS, licence_of, locked_names

ROOT = Path(__file__).resolve().parents[2]
QT = "PySide6/Qt"


@pytest.mark.parametrize(
    "name",
    [
        "libxcb-cursor.so.0",
        "libpython3.11.so.1.0",
        "wgpu/resources/libwgpu_native-release.so",
        "assets/icons/chat.svg",
        "wgsl/matmul/tile.wgsl",
        f"{QT}/lib/libQt6Gui.so.6",
        f"{QT}/lib/libQt6OpenGL.so.6",
        f"{QT}/lib/libQt6Network.so.6",
        f"{QT}/plugins/platforms/libqxcb.so",
        f"{QT}/plugins/platforms/libqoffscreen.so",
        f"{QT}/plugins/iconengines/libqsvgicon.so",
        "pillow.libs/libfreetype-57f805ba.so.6.20.6",  # Pillow's own, under a name of its own
    ],
)
def test_what_the_program_needs_is_kept(name: str) -> None:
    assert is_kept(name, "linux")


@pytest.mark.parametrize(
    "name",
    [
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libvulkan.so.1",
        "libz.so.1",
        "libxcb.so.1",
        "libwayland-client.so.0",
        f"{QT}/lib/libQt6Qml.so.6",
        f"{QT}/lib/libQt6QuickControls2.so.6",
        f"{QT}/translations/qtbase_de.qm",
        f"{QT}/qml/QtQuick/libqtquick2plugin.so",
        f"{QT}/plugins/platformthemes/libqgtk3.so",
        f"{QT}/plugins/platforms/libqeglfs.so",
        f"{QT}/plugins/sqldrivers/libqsqlite.so",
        "PySide6/QtSql.abi3.so",
    ],
)
def test_what_belongs_to_the_machine_or_to_nobody_is_left_out(name: str) -> None:
    assert not is_kept(name, "linux")


def test_no_part_of_qt_that_the_program_imports_is_left_out() -> None:
    source = "".join(file.read_text("utf-8") for file in (ROOT / "app").rglob("*.py"))
    modules = set(re.findall(r"PySide6\.(Qt\w+)", source))
    assert {"QtCore", "QtWidgets"} <= modules
    assert [one for one in modules if not is_kept(f"PySide6/{one}.abi3.so", "linux")] == []
    assert not {f"PySide6.{one}" for one in modules} & set(EXCLUDED_MODULES)


def test_windows_names_are_understood() -> None:
    assert is_kept(r"PySide6\plugins\platforms\qwindows.dll", "win32")
    assert not is_kept(r"PySide6\Qt6Quick.dll", "win32")
    assert is_kept(r"PySide6\Qt6Core.dll", "win32")


def test_entries_keep_their_order() -> None:
    rows: list[Entry] = [
        ("b.so", "/b", "BINARY"),
        ("libz.so.1", "/z", "BINARY"),
        ("a", "/a", "DATA"),
    ]
    assert keep(rows, "linux") == [rows[0], rows[2]]


def test_libraries_that_nothing_loads_any_more_are_pruned() -> None:
    rows: list[Entry] = [
        ("module.so", "/module.so", "EXTENSION"),
        ("libused.so.1", "/libused.so.1", "BINARY"),
        ("libdeep.so.1", "/libdeep.so.1", "BINARY"),
        ("libgtk.so.3", "/libgtk.so.3", "BINARY"),
        (f"{QT}/lib/libQt6Gone.so.6", "/gone", "BINARY"),
        ("libQt6Gone.so.6", f"{QT}/lib/libQt6Gone.so.6", "SYMLINK"),
        ("libpython3.11.so.1.0", "/python", "BINARY"),
        ("assets/a.svg", "/a.svg", "DATA"),
    ]
    loads = {"/module.so": {"libused.so.1"}, "/libused.so.1": {"libdeep.so.1", "libc.so.6"}}
    kept = [one[0] for one in prune(rows, lambda source: loads.get(source, set()))]
    assert kept == [
        "module.so",
        "libused.so.1",
        "libdeep.so.1",
        "libpython3.11.so.1.0",
        rows[-1][0],
    ]


def test_links_to_what_is_kept_are_kept() -> None:
    rows: list[Entry] = [
        ("pillow.libs/libtiff-1.so", "/tiff", "BINARY"),
        ("libtiff-1.so", "pillow.libs/libtiff-1.so", "SYMLINK"),
    ]
    assert prune(rows, lambda _: ()) == rows


def warning(library: str, user: str) -> str:
    """As PyInstaller says it."""
    return f"1 WARNING: Library not found: could not resolve '{library}', dependency of '{user}'.\n"


def test_a_missing_library_of_a_kept_plugin_is_an_error() -> None:
    log = warning("libxcb-cursor.so.0", f"/v/site-packages/{QT}/plugins/platforms/libqxcb.so")
    assert unresolved(log, "linux") == ["libxcb-cursor.so.0"]


def test_a_missing_library_of_a_plugin_left_out_is_none() -> None:
    log = warning("libgtk-3.so.0", f"/v/site-packages/{QT}/plugins/platformthemes/libqgtk3.so")
    log += warning("libGL.so.1", f"/v/site-packages/{QT}/lib/libQt6Gui.so.6")
    assert unresolved(log + "2 WARNING: Library ntdll required via ctypes not found", "linux") == []


GOOD = dict.fromkeys(ANSWER_FIELDS, "x") | {"text": "Paris", "token_ids": [1, 2]}


def test_a_good_answer_passes() -> None:
    assert answer_problem(0, json.dumps(GOOD)) is None


@pytest.mark.parametrize(
    ("status", "output", "problem"),
    [
        (1, json.dumps({"error": "no GPU"}), "exit status 1"),
        (0, "Paris", "is not JSON"),
        (0, json.dumps({**GOOD, "text": "  "}), "is empty"),
        (0, json.dumps({**GOOD, "token_ids": []}), "is empty"),
        (0, json.dumps({"text": "Paris"}), "lacks token_ids"),
    ],
)
def test_a_bad_answer_is_told(status: int, output: str, problem: str) -> None:
    assert problem in (answer_problem(status, output) or "")


def test_the_trial_sees_nothing_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/checkout")
    monkeypatch.setenv("DRIFTWOOD_WORKER_COMMAND", "other")
    environment = clean_environment("/home")
    assert "PYTHONPATH" not in environment
    assert {name for name in environment if name.startswith("DRIFTWOOD_")} == {"DRIFTWOOD_HOME"}


def test_a_bundle_and_a_wheel_carry_the_same_data() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert wheel == {place: place for place in DATA}
    assert all((ROOT / place).is_dir() for place in DATA)


def test_every_folder_of_assets_is_shipped_or_known_not_to_be() -> None:
    shipped = {place.partition("/")[2] for place in DATA} - {""}
    found = {folder.name for folder in (ROOT / "assets").iterdir() if folder.is_dir()}
    assert found - shipped <= {"docs", "linux", "screenshots"}


def test_windows_gets_four_numbers() -> None:
    assert "filevers=(1, 2, 3, 0)" in windows_version("1.2.3")


@pytest.mark.parametrize(
    ("expression", "text", "classifiers", "licence"),
    [
        ("MIT", "long text", [], "MIT"),
        (None, "text", ["License :: OSI Approved :: BSD License"], "BSD License"),
        (None, "BSD-3-Clause", [], "BSD-3-Clause"),
        (None, None, [], "see its files"),
    ],
)
def test_a_licence_is_named(
    expression: str | None, text: str | None, classifiers: list[str], licence: str
) -> None:
    assert licence_of(expression, text, classifiers) == licence


def test_the_licence_of_every_locked_package_is_collected() -> None:
    names = locked_names(LOCK.read_text("utf-8"))
    assert {"numpy", "wgpu", "pyside6-essentials"} <= set(names)


def test_the_texts_that_qt_names_are_there() -> None:
    texts = {file.stem: file.read_text("utf-8") for file in TEXTS.iterdir()}
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in texts["LGPL-3.0-only"]
    assert "GNU GENERAL PUBLIC LICENSE" in texts["GPL-3.0-only"]


def test_the_desktop_entry_and_the_description_agree() -> None:
    entry = (ROOT / "assets" / "linux" / "driftwood.desktop").read_text("utf-8")
    about = ElementTree.parse(ROOT / "assets" / "linux" / "driftwood.metainfo.xml").getroot()
    assert about.findtext("launchable") == "driftwood.desktop"
    assert re.search(r"^Icon=driftwood$", entry, re.M)
    assert about.findtext("project_license") == "Apache-2.0"
