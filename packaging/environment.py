"""The virtual environment in .venv: made from the lock files, and not looked at twice.

A stamp file in it says from which locks, by which Python and for which folder it was made. As long
as that holds nothing is done; where it does not, or the making was interrupted, it is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

FORMAT = 1  # raise it when environments made by older versions of this file must go


@dataclass(frozen=True)
class Stamp:
    """What an environment was made from. `locks`: name of the lock file -> its SHA-256."""

    format: int
    python: str
    root: str
    locks: Mapping[str, str]


@dataclass(frozen=True)
class Folder:
    """The checkout, and where things lie in it."""

    root: Path

    @property
    def venv(self) -> Path:
        """The virtual environment."""
        return self.root / ".venv"

    @property
    def stamp(self) -> Path:
        """What the environment was made from."""
        return self.venv / "driftwood-stamp.json"

    @property
    def python(self) -> Path:
        """The environment's Python."""
        inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
        return self.venv.joinpath(*inside)

    def lock(self, name: str) -> Path:
        """A lock file: "base", "dawn" or "dev"."""
        return self.root / "packaging" / "requirements" / f"{name}.txt"


class InstallError(Exception):
    """The environment could not be made; the sentence says what to try."""


def wanted_stamp(folder: Folder, locks: Iterable[str]) -> Stamp:
    """What the stamp of an environment with these locks says."""
    hashes = {name: hashlib.sha256(folder.lock(name).read_bytes()).hexdigest() for name in locks}
    version = ".".join(map(str, sys.version_info[:3]))
    return Stamp(FORMAT, version, str(folder.root), hashes)


def read_stamp(path: Path) -> Stamp | None:
    """The stamp of an environment that was finished; None where there is none to trust."""
    try:
        return Stamp(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def locks_to_install(found: Stamp | None, wanted: Stamp) -> tuple[bool, list[str]]:
    """What to do: (whether to start from nothing, which locks to install).

    An environment keeps what it has: one made for tests runs the program too.
    """
    if found is None or _origin(found) != _origin(wanted) or _differs(found, wanted):
        return True, list(wanted.locks)
    return False, [name for name in wanted.locks if name not in found.locks]


def prepare(folder: Folder, locks: Iterable[str]) -> bool:
    """Bring .venv to what these locks say; whether anything was done. Raises InstallError."""
    wanted = wanted_stamp(folder, locks)
    found = read_stamp(folder.stamp) if folder.python.exists() else None
    remake, missing = locks_to_install(found, wanted)
    if not missing:
        return False
    folder.stamp.unlink(missing_ok=True)
    if remake:
        _make(folder)
    _install(folder, missing)
    _link_sources(folder)
    known = {} if remake or found is None else dict(found.locks)
    _write_stamp(folder.stamp, Stamp(**{**asdict(wanted), "locks": {**known, **wanted.locks}}))
    return True


def _origin(stamp: Stamp) -> tuple[int, str, str]:
    return stamp.format, stamp.python, stamp.root


def _differs(found: Stamp, wanted: Stamp) -> bool:
    return any(found.locks.get(name, value) != value for name, value in wanted.locks.items())


def _make(folder: Folder) -> None:
    print("Making the virtual environment .venv", file=sys.stderr, flush=True)
    if folder.venv.is_symlink() or folder.venv.is_file():
        folder.venv.unlink()
    elif folder.venv.exists():
        shutil.rmtree(folder.venv)
    _run([sys.executable, "-m", "venv", str(folder.venv)], "The virtual environment")


def _install(folder: Folder, locks: Iterable[str]) -> None:
    """Let pip install exactly what the locks list; the index is that of pip's configuration."""
    files = [folder.lock(name) for name in locks]
    pins = [line for file in files for line in file.read_text("utf-8").splitlines()]
    count = sum(line[:1].isalnum() for line in pins)
    print(f"Installing packages, {count} at most (minutes)", file=sys.stderr, flush=True)
    command = [str(folder.python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command += ["--no-input", "--no-deps", "--require-hashes"]
    for file in files:
        command += ["-r", str(file)]
    _run(command, "The packages")


def _link_sources(folder: Folder) -> None:
    """Make app and engine importable from any working folder, without building anything."""
    command = [str(folder.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    Path(answer, "driftwood.pth").write_text(f"{folder.root}\n", "utf-8")


def _write_stamp(path: Path, stamp: Stamp) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(stamp), indent=1), "utf-8")
    part.replace(path)


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if done.returncode != 0:
        raise InstallError(
            f"{what} could not be set up; the reason stands above. If it is the network, look "
            "at pip's configuration (pip config list) and run the same command again."
        )
