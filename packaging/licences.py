"""Collect the licences of what a bundle holds: Python, Python packages, libraries of the system."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

TEXTS = Path(__file__).resolve().parent / "texts"  # of licences that packages name and do not carry
LOCK = Path(__file__).resolve().parent / "requirements" / "base.txt"
_LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice|authors|credits)", re.IGNORECASE)
_DISTRIBUTIONS = re.compile(r"^([\w.-]+)==", re.MULTILINE)


def collect(folder: Path) -> int:
    """Write `folder`/licences: one folder a package and a list of all. How many packages."""
    target = folder / "licences"
    shutil.rmtree(target, ignore_errors=True)
    rows = [_python(target)]
    for name in locked_names(LOCK.read_text("utf-8")):
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # needed by other systems only
        rows.append(_package(found, target))
    if sys.platform == "linux":
        rows += _system_libraries(folder, target)
    text = "\n".join(f"{name}  {version}  {licence}" for name, version, licence in sorted(rows))
    (target / "LIST.txt").write_text(f"{text}\n", "utf-8")
    return len(rows)


def locked_names(lock: str) -> list[str]:
    """The names of the packages in a lock file."""
    return _DISTRIBUTIONS.findall(lock)


def licence_of(expression: str | None, text: str | None, classifiers: Iterable[str]) -> str:
    """How a package names its licence, in a few words."""
    if expression:
        return expression
    named = [one.split(" :: ")[-1] for one in classifiers if one.startswith("License ::")]
    if named:
        return ", ".join(named)
    first = (text or "").strip().splitlines()[:1]
    return first[0] if first and len(first[0]) < 80 else "see its files"


def _package(found: Distribution, target: Path) -> tuple[str, str, str]:
    about = found.metadata
    name = about["Name"]
    for file in found.files or ():
        inside_metadata = any(part.endswith((".dist-info", ".data")) for part in file.parts[:1])
        source = Path(str(file.locate()))
        if _LICENCE_FILE.match(file.name) and inside_metadata and source.is_file():
            _copy(source, target / name)
    if not (target / name).exists():
        _copy_texts(about.get_all("License-Expression") or [], target / name)
    expression, text = (about.get_all(key) or [None] for key in ("License-Expression", "License"))
    licence = licence_of(expression[0], text[0], about.get_all("Classifier") or ())
    return name, found.version, licence


def _copy_texts(expressions: Iterable[str], folder: Path) -> None:
    """The terms of a package without licence files: the LGPL builds upon the GPL, so both."""
    words = " ".join(expressions)
    for file in sorted(TEXTS.iterdir()):
        if file.stem in words:
            _copy(file, folder)


def _python(target: Path) -> tuple[str, str, str]:
    roots = [Path(sysconfig.get_path("stdlib")), Path(sys.base_prefix)]
    for root in roots:
        if (root / "LICENSE.txt").is_file():
            _copy(root / "LICENSE.txt", target / "Python")
    return "Python", sys.version.split()[0], "PSF-2.0"


def _system_libraries(folder: Path, target: Path) -> list[tuple[str, str, str]]:
    """On Debian each package says where its terms lie; elsewhere the list stays shorter."""
    query = shutil.which("dpkg-query")
    if query is None:
        return []
    names = sorted({file.name for file in folder.rglob("lib*.so.*") if "Qt6" not in file.name})
    rows: dict[str, tuple[str, str, str]] = {}
    for name in names:
        done = subprocess.run([query, "-S", f"*/{name}"], capture_output=True, text=True)
        for package in {line.partition(":")[0] for line in done.stdout.splitlines()}:
            terms = Path("/usr/share/doc", package, "copyright")
            if terms.is_file() and package not in rows:
                _copy(terms, target / package)
                rows[package] = (package, "as in Debian", "see its file")
    return list(rows.values())


def _copy(source: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, folder / source.name)
