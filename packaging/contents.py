"""What goes into a bundle and what stays out: pure functions over the names of files.

Three reasons to leave a file out: nobody uses it (most of Qt), it belongs to the machine and not to
the program (a bundled libstdc++ or zlib breaks the machine's own graphics driver, which is loaded
into our process), or it must be the machine's (the Vulkan loader, which finds the driver).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from posixpath import normpath

Entry = tuple[str, str, str]  # PyInstaller's: place in the bundle, source, kind

# Libraries of the system on Linux. Every desktop with a graphics driver has them.
SYSTEM_LIBRARIES = re.compile(
    r"lib(stdc\+\+|gcc_s|vulkan|z|zstd|expat|drm\w*|gbm|glapi|xshmfence|elf|LLVM[\w.-]*"
    r"|EGL|GL|GLX|GLdispatch|OpenGL|GLESv2|fontconfig|freetype|X11|X11-xcb|Xau|Xdmcp|xcb"
    r"|xcb-(dri2|dri3|glx|present|randr|shm|sync|xfixes)|wayland-(client|server|egl)"
    r"|glib-2\.0|gthread-2\.0|dbus-1|systemd)\.so(\.|$)"
)
_DATA = ("app", "clip-tokenizer", "icons", "starter-image")  # of assets/, read while it runs
DATA = ("wgsl", *(f"assets/{folder}" for folder in _DATA))
QT_PARTS = (
    "3D", "Bluetooth", "Charts", "Designer", "Help", "LabsX", "Location", "Multimedia",
    "OpenGLWidgets", "Pdf", "Positioning", "PrintSupport", "Qml", "Quick", "Sensors", "Serial",
    "Sql", "Test", "UiTools", "VirtualKeyboard", "Web", "Xml",
)  # fmt: skip
QT_PLUGINS = {  # folder of plugins -> those that are kept; a folder not named here stays out
    "iconengines": ("qsvgicon",),
    "imageformats": ("qjpeg", "qsvg", "qwebp", "qico"),
    "platforminputcontexts": ("compose", "ibus"),
    "platforms": ("qxcb", "qwayland", "qoffscreen", "qwindows", "qcocoa"),
    "platformthemes": ("qxdgdesktopportal",),
    "styles": ("qwindows", "qmac", "qmodernwindows"),
    "wayland-decoration-client": ("bradient", "adwaita"),
    "wayland-graphics-integration-client": ("qt-plugin-wayland-egl",),
    "wayland-shell-integration": ("xdg-shell",),
    "xcbglintegrations": ("qxcb-egl", "qxcb-glx"),
}
EXCLUDED_MODULES = (
    "IPython", "PyInstaller", "gguf", "lib2to3", "matplotlib", "mypy", "pip", "pydoc_data",
    "pytest", "scipy", "setuptools", "tkinter", "torch", "wgpudawn",
    *(f"PySide6.Qt{part}" for part in QT_PARTS if part not in ("3D", "LabsX", "Serial", "Web")),
)  # fmt: skip
HIDDEN_MODULES = (  # what the program imports by name, and PyInstaller cannot see
    "psutil",
    "pynvml",
    "readline",
    "wgpu",
    "wgpu.backends.wgpu_native",
    "wgpu.backends.wgpu_native._api",
    "wgpu.backends.wgpu_native._ffi",
    "wgpu.backends.wgpu_native.extras",
)
_NOT_FOUND = re.compile(r"could not resolve '([^']+)', dependency of '([^']+)'")
_SHARED_FOLDERS = ("", "PySide6/Qt/lib")  # of libraries that are there for others' sake
_QT_LIBRARY = re.compile(r"(?:lib)?Qt6?(\w+?)(?:(?:\.abi3)?\.so[.\d]*|\.dll|\.pyd|\.framework)?$")


def is_kept(name: str, platform: str) -> bool:
    """Whether a file of this name (its place in the bundle) belongs in it."""
    path = PurePosixPath(name.replace("\\", "/"))
    if platform == "linux" and SYSTEM_LIBRARIES.match(path.name):
        return False
    parts = path.parts
    if "PySide6" not in parts:
        return True
    if "translations" in parts or "qml" in parts:
        return False
    if "plugins" in parts:
        folder = parts[parts.index("plugins") + 1 : -1]
        wanted = QT_PLUGINS.get(folder[0], ()) if folder else ()
        return _plugin_name(path.name).startswith(wanted) if wanted else False
    library = _QT_LIBRARY.match(path.name)
    return not (library and library[1].startswith(QT_PARTS))


def unresolved(log: str, platform: str) -> list[str]:
    """Libraries that PyInstaller could not find and a file in the bundle needs."""
    lacking: set[str] = set()
    for library, user in _NOT_FOUND.findall(log):
        place = user[user.index("PySide6") :] if "PySide6" in user else PurePosixPath(user).name
        if is_kept(place, platform) and is_kept(library, platform):
            lacking.add(library)
    return sorted(lacking)


def keep(entries: Iterable[Entry], platform: str) -> list[Entry]:
    """Of PyInstaller's entries those that belong in the bundle."""
    return [one for one in entries if is_kept(one[0], platform)]


def prune(entries: Sequence[Entry], imports_of: Callable[[str], Iterable[str]]) -> list[Entry]:
    """Leave out shared libraries that nothing in the bundle loads any more, and links to nothing.

    PyInstaller follows the needs of Qt's GTK plugin, for one, before we leave the plugin out.
    `imports_of(source)` names the libraries that a file loads.
    """
    files = [one for one in entries if one[2] != "SYMLINK"]
    optional = {PurePosixPath(one[0]).name: one for one in files if _is_shared(one[0])}
    needed: set[str] = set()
    waiting = [one[1] for one in files if one[2] != "DATA" and not _is_shared(one[0])]
    while waiting:
        for name in imports_of(waiting.pop()):
            if name in optional and name not in needed:
                needed.add(name)
                waiting.append(optional[name][1])
    kept = [one for one in files if not _is_shared(one[0]) or PurePosixPath(one[0]).name in needed]
    places = {one[0] for one in kept}
    links = [one for one in entries if one[2] == "SYMLINK" and _target(one) in places]
    return [*kept, *links]


def _is_shared(name: str) -> bool:
    path = PurePosixPath(name)
    folder = "" if str(path.parent) == "." else str(path.parent)
    loaded_by_us = path.name.startswith("libpython")
    return folder in _SHARED_FOLDERS and path.name.startswith("lib") and not loaded_by_us


def _target(link: Entry) -> str:
    """Where a link points, as a place in the bundle."""
    return normpath(str(PurePosixPath(link[0]).parent / link[1]))


def _plugin_name(name: str) -> str:
    return name.removeprefix("lib")
