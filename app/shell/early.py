"""What must be there before Qt is imported, checked in words. This file imports no Qt.

Qt ends the process without a word when a library of the system is missing; a person who clicked an
icon would see nothing at all.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping

PACKAGES = {  # what is imported -> what it is installed as
    "PySide6": "pyside6",
    "numpy": "numpy",
    "wgpu": "wgpu",
    "tokenizers": "tokenizers",
    "jinja2": "jinja2",
    "appdirs": "appdirs",
    "markdown_it": "markdown-it-py",
    "pygments": "pygments",
    "PIL": "pillow",
}
LIBRARIES = {  # what Qt loads on Linux -> the usual name of its package
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libxkbcommon.so.0": "libxkbcommon0",
}
X11_LIBRARIES = {
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
}
OLDEST_PYTHON = (3, 11)


def find_problem(
    platform: str = sys.platform,
    environment: Mapping[str, str] = os.environ,
    has_package: Callable[[str], bool] | None = None,
    has_library: Callable[[str], bool] | None = None,
) -> str | None:
    """Why the window cannot open, as sentences for a person; None if nothing is wrong."""
    has_package = has_package or _has_package
    has_library = has_library or _has_library
    if sys.version_info < OLDEST_PYTHON:
        return "Driftwood needs Python 3.11 or newer."
    missing = [name for module, name in PACKAGES.items() if not has_package(module)]
    if missing:
        return (
            f"Driftwood needs {_list(missing)}, which {_is_are(missing)} not installed for this "
            f"Python. Install with: {sys.executable} -m pip install {' '.join(missing)}"
        )
    if platform != "linux":
        return None
    return _linux_problem(environment, has_library)


def tell(problem: str) -> None:
    """Say it on stderr and, where the system has a program for it, in a small dialog."""
    print(problem, file=sys.stderr)
    for command in (
        ["zenity", "--error", "--title=Driftwood", f"--text={problem}"],
        ["kdialog", "--title", "Driftwood", "--error", problem],
        ["xmessage", "-center", problem],
    ):
        has_screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if sys.platform == "linux" and has_screen and shutil.which(command[0]):
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return


def _linux_problem(
    environment: Mapping[str, str], has_library: Callable[[str], bool]
) -> str | None:
    plugin = environment.get("QT_QPA_PLATFORM", "").split(":")[0]
    wayland, x11 = environment.get("WAYLAND_DISPLAY"), environment.get("DISPLAY")
    if plugin in ("", "xcb", "wayland") and not wayland and not x11:
        return (
            "There is no screen to open a window on (neither DISPLAY nor WAYLAND_DISPLAY is set). "
            "Start Driftwood from a desktop, or use the command line: driftwood chat --help"
        )
    needed = dict(LIBRARIES)
    if plugin == "xcb" or (plugin == "" and not wayland):
        needed |= X11_LIBRARIES
    missing = [package for library, package in needed.items() if not has_library(library)]
    if not missing:
        return None
    return (
        f"Driftwood's window needs {_list(missing)}, which {_is_are(missing)} missing on this "
        f"computer. Install with: sudo apt install {' '.join(missing)} (other systems name "
        "the packages a little differently)."
    )


def _has_package(module: str) -> bool:
    return module in sys.modules or importlib.util.find_spec(module) is not None


def _has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _list(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _is_are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
