"""What this computer has and lacks: a screen, system libraries, a Vulkan driver, a newer Python.

Decisions are pure functions over what was found; only the functions at the end look and install.
Windows and macOS bring all that Driftwood needs; a Linux system may lack libraries that pip cannot
install.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)  # the Pythons that the lock files were made for


@dataclass(frozen=True)
class Library:
    """A file that must be there, and the package that brings it, by package manager."""

    file: str
    apt: str
    dnf: str
    pacman: str


LIBRARIES: Mapping[str, tuple[Library, ...]] = {
    "vulkan": (Library("libvulkan.so.1", "libvulkan1", "vulkan-loader", "vulkan-icd-loader"),),
    "qt": (  # what Qt's own libraries load, with or without a screen
        Library("libEGL.so.1", "libegl1", "libglvnd-egl", "libglvnd"),
        Library("libGL.so.1", "libgl1", "libglvnd-glx", "libglvnd"),
        Library("libfontconfig.so.1", "libfontconfig1", "fontconfig", "fontconfig"),
        Library("libfreetype.so.6", "libfreetype6", "freetype", "freetype2"),
        Library("libdbus-1.so.3", "libdbus-1-3", "dbus-libs", "dbus"),
        Library("libgssapi_krb5.so.2", "libgssapi-krb5-2", "krb5-libs", "krb5"),
        Library("libbrotlidec.so.1", "libbrotli1", "libbrotli", "brotli"),
        Library("libglib-2.0.so.0", "libglib2.0-0", "glib2", "glib2"),
        Library("libxkbcommon.so.0", "libxkbcommon0", "libxkbcommon", "libxkbcommon"),
    ),
    "x11": (  # what Qt's xcb plugin loads
        Library(
            "libxkbcommon-x11.so.0", "libxkbcommon-x11-0", "libxkbcommon-x11", "libxkbcommon-x11"
        ),
        Library("libX11-xcb.so.1", "libx11-xcb1", "libX11-xcb", "libx11"),
        Library("libxcb-cursor.so.0", "libxcb-cursor0", "xcb-util-cursor", "xcb-util-cursor"),
        Library("libxcb-icccm.so.4", "libxcb-icccm4", "xcb-util-wm", "xcb-util-wm"),
        Library("libxcb-image.so.0", "libxcb-image0", "xcb-util-image", "xcb-util-image"),
        Library("libxcb-keysyms.so.1", "libxcb-keysyms1", "xcb-util-keysyms", "xcb-util-keysyms"),
        Library("libxcb-randr.so.0", "libxcb-randr0", "libxcb", "libxcb"),
        Library(
            "libxcb-render-util.so.0",
            "libxcb-render-util0",
            "xcb-util-renderutil",
            "xcb-util-renderutil",
        ),
        Library("libxcb-shape.so.0", "libxcb-shape0", "libxcb", "libxcb"),
        Library("libxcb-shm.so.0", "libxcb-shm0", "libxcb", "libxcb"),
        Library("libxcb-sync.so.1", "libxcb-sync1", "libxcb", "libxcb"),
        Library("libxcb-xfixes.so.0", "libxcb-xfixes0", "libxcb", "libxcb"),
        Library("libxcb-xkb.so.1", "libxcb-xkb1", "libxcb", "libxcb"),
    ),
    "wayland": (
        Library("libwayland-client.so.0", "libwayland-client0", "libwayland-client", "wayland"),
        Library("libwayland-cursor.so.0", "libwayland-cursor0", "libwayland-cursor", "wayland"),
        Library("libwayland-egl.so.1", "libwayland-egl1", "libwayland-egl", "wayland"),
    ),
}
DRIVER = Library("a Vulkan driver", "mesa-vulkan-drivers", "mesa-vulkan-drivers", "vulkan-swrast")
INSTALL = {  # package manager -> how it is asked
    "apt": ("apt-get", "install", "-y", "--no-install-recommends"),
    "dnf": ("dnf", "install", "-y"),
    "pacman": ("pacman", "-S", "--needed"),
}
_PROGRAMS = {"apt": "apt-get", "dnf": "dnf", "pacman": "pacman"}
_DRIVER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
_NO_WINDOW = ("-h", "--help", "--version", "--worker")
_SCREENLESS = ("offscreen", "minimal", "vnc", "linuxfb", "eglfs")


def opens_window(arguments: Sequence[str]) -> bool:
    """Whether `driftwood ARGUMENTS` needs a screen: without a command it is the window."""
    first = arguments[0] if arguments else ""
    return not first or (first.startswith("-") and first not in _NO_WINDOW)


def has_screen(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a window can be shown here (Qt may be told to draw elsewhere than on a screen)."""
    if platform != "linux" or environment.get("QT_QPA_PLATFORM", "").startswith(_SCREENLESS):
        return True
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def groups_for(job: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Which groups of libraries a job needs: "command", "window", "test" or "bundle"."""
    if job == "command":
        return ("vulkan",)
    if job == "test":
        return ("vulkan", "qt")
    if job == "bundle":
        return ("vulkan", "qt", "x11", "wayland")
    plugin = environment.get("QT_QPA_PLATFORM", "").split(":")[0]
    wayland = bool(environment.get("WAYLAND_DISPLAY")) and plugin in ("", "wayland")
    x11 = plugin == "xcb" or (plugin == "" and not wayland)
    chosen = ("x11",) if x11 else ("wayland",) if wayland else ()
    return ("vulkan", "qt", *chosen)


def missing_libraries(
    groups: Iterable[str], has_library: Callable[[str], bool], has_driver: bool
) -> list[Library]:
    """What is to be installed for these groups, in order."""
    lacking = [one for group in groups for one in LIBRARIES[group] if not has_library(one.file)]
    return lacking if has_driver else [*lacking, DRIVER]


def install_command(manager: str, packages: Iterable[str], prefix: Sequence[str] = ()) -> list[str]:
    """The command that installs these packages, each named once."""
    return [*prefix, *INSTALL[manager], *dict.fromkeys(packages)]


def advice(lacking: Collection[Library], manager: str | None, is_root: bool) -> str:
    """What a person can do about it: a sentence with the exact command, if we know it."""
    if manager is None:
        files = ", ".join(one.file for one in lacking)
        return f"This computer lacks {files}. Install them with the system's package manager."
    packages = [getattr(one, manager) for one in lacking]
    command = install_command(manager, packages, () if is_root else ("sudo",))
    return f"This computer lacks {', '.join(dict.fromkeys(packages))}. Type:\n\n    " + " ".join(
        command
    )


def venv_package(version: tuple[int, int]) -> Library:
    """What Debian split off Python and a virtual environment needs."""
    name = f"python{version[0]}.{version[1]}-venv"
    return Library("ensurepip", name, "python3", "python")


def driver_folders(environment: Mapping[str, str]) -> list[Path]:
    """Where the Vulkan loader looks for drivers."""
    data = environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    home = environment.get("XDG_DATA_HOME") or f"{environment.get('HOME', '')}/.local/share"
    roots = ["/etc", "/usr/local/etc", *data.split(":"), home]
    return [Path(root, "vulkan", "icd.d") for root in roots if root]


def is_tested(version: tuple[int, int]) -> bool:
    """Whether the lock files were made for this Python."""
    return OLDEST <= version <= NEWEST


def venv_is_there() -> bool:
    """Whether this Python can make virtual environments with pip in them (Debian's may not)."""
    return all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip"))


def library_is_there(name: str) -> bool:
    """Whether the dynamic linker finds a library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def driver_is_there(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether any Vulkan driver is registered."""
    if any(environment.get(name) for name in _DRIVER_VARIABLES):
        return True
    return any(any(one.glob("*.json")) for one in driver_folders(environment) if one.is_dir())


def package_manager() -> str | None:
    """The manager of this system's packages, of those we know the packages of."""
    return next((name for name, program in _PROGRAMS.items() if shutil.which(program)), None)


def privilege() -> tuple[str, ...] | None:
    """What goes before a command that installs: nothing for root, None if we may not."""
    if is_root():
        return ()
    sudo = shutil.which("sudo")
    return (sudo, "-n") if sudo and _runs([sudo, "-n", "true"]) else None


def is_root() -> bool:
    """Whether this process may install packages as it is."""
    return sys.platform != "win32" and os.geteuid() == 0


def install(lacking: Sequence[Library]) -> bool:
    """Install with apt-get if we may; False, after a sentence on stderr, if it is left to do."""
    manager, prefix = package_manager(), privilege()
    if manager == "apt" and prefix is not None:
        packages = [one.apt for one in lacking]
        print(f"Installing {', '.join(packages)}", file=sys.stderr, flush=True)
        if _apt(packages, prefix):
            return True
    print(advice(lacking, manager, is_root()), file=sys.stderr)
    return False


def runtime_folder() -> str:
    """A private folder for XDG_RUNTIME_DIR where the session gave none; Mesa asks for one."""
    folder = Path(tempfile.gettempdir(), f"driftwood-runtime-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        usable = folder.stat().st_uid == os.getuid() and not folder.is_symlink()
    except OSError:
        usable = False
    return str(folder) if usable else tempfile.mkdtemp(prefix="driftwood-runtime-")


def _apt(packages: Iterable[str], prefix: Sequence[str]) -> bool:
    """Ask apt-get, with today's list of packages. Its own words go to stderr if it fails."""
    settings = ["env", "DEBIAN_FRONTEND=noninteractive"]
    update = [*prefix, *settings, "apt-get", "-qq", "update"]
    install = [*prefix, *settings, *install_command("apt", packages), "-qq"]
    for command in (update, install):
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        sys.stderr.write(done.stdout.decode(errors="replace"))
    return done.returncode == 0


def _runs(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError:
        return False
    return done.returncode == 0
