"""Make the lock files: ``python3 packaging/dev.py lock`` runs this beside pip-tools.

One file an extra, in packaging/requirements/: base.txt is what the program needs, dawn.txt and
dev.txt what their extra adds. Every package has one version for all systems, the hashes of all of
its files, and a marker where only some systems need it. pip-tools chooses versions for the system
it runs on; what only others need (say, colorama on Windows) is found in the packages' metadata and
given to it as well. pip's own configuration says which index is asked; the files don't.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from markers import Cell, marker_for, reach
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "packaging" / "requirements"
EXTRAS = ("dawn", "dev")
HEADER = "# Made by `python3 packaging/dev.py lock` from pyproject.toml. Do not edit.\n"
_ROUNDS = 6  # of finding what other systems need; in practice two


@dataclass(frozen=True)
class Pin:
    """One version of a package and the SHA-256 of each of its files."""

    name: str
    version: str
    hashes: tuple[str, ...]


def wanted(project: Mapping[str, object]) -> dict[str, list[Requirement]]:
    """The requirements of pyproject.toml by extra; "base" are the program's own."""
    table = project["project"]
    assert isinstance(table, dict)
    lists = {"base": table["dependencies"], **table["optional-dependencies"]}
    return {extra: [Requirement(one) for one in words] for extra, words in lists.items()}


def parse_pins(text: str) -> dict[str, Pin]:
    """Read what pip-compile wrote: ``name==version`` lines, each with its hashes."""
    pins: dict[str, Pin] = {}
    for entry in text.replace("\\\n", " ").splitlines():
        match = re.match(r"([\w.-]+)(?:\[[^]]*\])?==([^\s;]+)", entry)
        if match:
            name = str(canonicalize_name(match[1]))
            pins[name] = Pin(name, match[2], tuple(sorted(re.findall(r"sha256:\w{64}", entry))))
    return pins


def render(pins: Iterable[tuple[Pin, str | None]]) -> str:
    """The text of a lock file: pins with their markers, by name."""
    parts = [HEADER]
    for pin, marker in sorted(pins, key=lambda pair: pair[0].name):
        condition = f" ; {marker}" if marker else ""
        lines = [f"{pin.name}=={pin.version}{condition}", *(f"    --hash={h}" for h in pin.hashes)]
        parts.append(" \\\n".join(lines) + "\n")
    return "".join(parts)


def split(
    places: Mapping[str, Mapping[str, set[Cell]]], pins: Mapping[str, Pin]
) -> dict[str, list[tuple[Pin, str | None]]]:
    """What belongs in each file: an extra's lists only what the base does not bring there."""
    base = places["base"]
    files: dict[str, list[tuple[Pin, str | None]]] = {}
    for extra, needs in places.items():
        rows: list[tuple[Pin, str | None]] = []
        for name, cells in needs.items():
            if extra == "base" or not cells <= base.get(name, set()):
                rows.append((pins[name], marker_for(cells)))
        files[extra] = rows
    return files


def main() -> int:
    """Choose versions anew and write the files; the exit status."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    by_extra = wanted(project)
    pins, metadata = _resolve([one for words in by_extra.values() for one in words])
    places = {extra: reach(by_extra[extra], metadata) for extra in ("base", *EXTRAS)}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for extra, rows in split(places, pins).items():
        (FOLDER / f"{extra}.txt").write_text(render(rows), "utf-8", newline="\n")
        print(f"{extra}.txt: {len(rows)} packages")
    return 0


def _resolve(roots: list[Requirement]) -> tuple[dict[str, Pin], dict[str, list[Requirement]]]:
    """Pins and requirements of every package that any system needs."""
    asked = [_without_marker(one) for one in roots]
    foreign: list[str] = []
    for _ in range(_ROUNDS):
        pins = parse_pins(_pip_compile(asked))
        metadata = _metadata(pins)
        foreign = _missing(roots, metadata, pins)
        if not foreign:
            exact = [f"{one.name}=={one.version}" for one in pins.values()]
            return parse_pins(_pip_compile(exact, "--generate-hashes")), metadata
        print(f"for other systems: {', '.join(foreign)}", file=sys.stderr)
        asked += foreign
    raise SystemExit(f"The requirements of other systems do not come to an end: {foreign}")


def _missing(
    roots: list[Requirement], metadata: Mapping[str, list[Requirement]], pins: Mapping[str, Pin]
) -> list[str]:
    """Requirements that hold in some environment of the grid and have no pin, without markers."""
    absent = set(reach(roots, metadata)) - set(pins)
    demands = [*roots, *(one for words in metadata.values() for one in words)]
    found = {_without_marker(one) for one in demands if canonicalize_name(one.name) in absent}
    return sorted(found)


def _without_marker(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def _pip_compile(requirements: list[str], *options: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "asked.in"), Path(folder, "pins.txt")
        source.write_text("\n".join(requirements) + "\n", "utf-8")
        command = [sys.executable, "-m", "piptools", "compile", "--quiet", *options]
        command += ["--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host"]
        command += ["--no-header", "--no-annotate", "--strip-extras", "--allow-unsafe"]
        subprocess.run([*command, str(source), "-o", str(target)], check=True)
        return target.read_text("utf-8")


def _metadata(pins: Mapping[str, Pin]) -> dict[str, list[Requirement]]:
    """What each pinned package requires, by its own metadata."""
    names = [f"{pin.name}=={pin.version}" for pin in pins.values()]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--report", "-", *names]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    metadata: dict[str, list[Requirement]] = {}
    for item in report["install"]:
        about = item["metadata"]
        requirements = [Requirement(one) for one in about.get("requires_dist", [])]
        metadata[str(canonicalize_name(about["name"]))] = requirements
    return metadata


if __name__ == "__main__":
    sys.exit(main())
