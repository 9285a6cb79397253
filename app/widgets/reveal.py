"""Showing a file or a folder in the system's file manager."""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QProcess, QUrl
from PySide6.QtGui import QDesktopServices


def reveal(path: Path) -> bool:
    """Open the file manager at ``path``, selected where the system can; False if it cannot.

    A path that is gone opens the nearest folder that is still there.
    """
    if path.is_file():
        program, arguments = _selecting(path)
        if program and _started(program, arguments):
            return True
    folder = path if path.is_dir() else path.parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


def _selecting(path: Path) -> tuple[str, list[str]]:
    """The program that shows one file selected; empty where only folders can be opened."""
    if sys.platform == "win32":
        return "explorer.exe", [f"/select,{path}"]
    if sys.platform == "darwin":
        return "open", ["-R", str(path)]
    return "", []


def _started(program: str, arguments: list[str]) -> bool:
    started = QProcess.startDetached(program, arguments)
    return bool(started[0] if isinstance(started, tuple) else started)
