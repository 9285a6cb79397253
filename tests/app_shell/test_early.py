"""The check before Qt: what is missing is told in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.shell.early import find_problem

SCREEN = {"DISPLAY": ":0"}


def problem(missing: str = "", environment: dict[str, str] | None = None, **more: str) -> str:
    """What is said when a package or library of this name is missing."""
    found = find_problem(
        more.get("platform", "linux"),
        SCREEN if environment is None else environment,
        has_package=lambda name: name != missing,
        has_library=lambda name: name != missing,
    )
    return found or ""


def test_nothing_is_wrong() -> None:
    assert problem() == ""
    assert problem(environment={}, platform="win32") == ""
    assert problem(environment={"QT_QPA_PLATFORM": "offscreen"}) == ""


@pytest.mark.parametrize(
    ("missing", "package"),
    [
        ("PySide6", "pyside6"),
        ("markdown_it", "markdown-it-py"),
        ("libEGL.so.1", "libegl1"),
        ("libxcb-cursor.so.0", "libxcb-cursor0"),
        ("libxkbcommon-x11.so.0", "libxkbcommon-x11-0"),
    ],
)
def test_what_is_missing_is_named(missing: str, package: str) -> None:
    words = problem(missing)
    assert package in words
    assert "nstall" in words


def test_wayland_needs_no_x11_libraries() -> None:
    assert problem("libxcb-cursor.so.0", {"WAYLAND_DISPLAY": "wayland-0"}) == ""


@pytest.mark.parametrize("plugin", ["", "xcb"])
def test_no_screen(plugin: str) -> None:
    assert "no screen" in problem(environment={"QT_QPA_PLATFORM": plugin})


def test_it_imports_no_qt() -> None:
    code = "import sys, app.shell.early; print('PySide6' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True)
    assert out.stdout.strip() == b"False"
