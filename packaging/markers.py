"""Which packages which computers need: pure functions over the metadata of packages.

A lock made on one system must serve the others too. So the markers of all requirements are tried in
a small grid of environments, system by Python version, and what each package is needed for is
written back as the shortest marker that says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PLATFORMS = ("linux", "darwin", "win32")
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_SYSTEMS = {  # sys_platform -> os_name, platform_system, the machines it runs on
    "linux": ("posix", "Linux", ("x86_64", "aarch64")),
    "darwin": ("posix", "Darwin", ("arm64", "x86_64")),
    "win32": ("nt", "Windows", ("AMD64", "ARM64")),
}

Cell = tuple[str, str]  # (platform, version)
GRID: frozenset[Cell] = frozenset((one, version) for one in PLATFORMS for version in VERSIONS)


def environments(cell: Cell) -> list[dict[str, str]]:
    """What markers see on one system with one Python: one dictionary a kind of machine."""
    platform, version = cell
    os_name, system, machines = _SYSTEMS[platform]
    return [
        {
            "implementation_name": "cpython",
            "implementation_version": f"{version}.0",
            "os_name": os_name,
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": system,
            "platform_version": "",
            "python_full_version": f"{version}.0",
            "python_version": version,
            "sys_platform": platform,
        }
        for machine in machines
    ]


def applies(requirement: Requirement, cell: Cell, extras: Iterable[str]) -> bool:
    """Whether a requirement counts on one system, its owner being installed with `extras`."""
    if requirement.marker is None:
        return True
    wanted = ("", *extras)
    return any(
        requirement.marker.evaluate({**one, "extra": extra})
        for one in environments(cell)
        for extra in wanted
    )


def reach(
    roots: Iterable[Requirement], metadata: Mapping[str, list[Requirement]]
) -> dict[str, set[Cell]]:
    """Where each package is needed, following requirements from the roots.

    A package without metadata is listed and not followed: the caller finds it missing.
    """
    found: dict[str, set[Cell]] = {}
    for cell in GRID:
        waiting = [one for one in roots if applies(one, cell, ())]
        done: set[tuple[str, frozenset[str]]] = set()
        while waiting:
            requirement = waiting.pop()
            name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
            if (name, extras) in done:
                continue
            done.add((name, extras))
            found.setdefault(name, set()).add(cell)
            waiting += [one for one in metadata.get(name, []) if applies(one, cell, extras)]
    return found


def marker_for(cells: Iterable[Cell]) -> str | None:
    """The marker that is true exactly in these cells of the grid; None if in all of them."""
    needed = set(cells)
    if needed == GRID:
        return None
    platforms_of: dict[tuple[str, ...], list[str]] = {}
    for platform in PLATFORMS:
        versions = tuple(one for one in VERSIONS if (platform, one) in needed)
        if versions:
            platforms_of.setdefault(versions, []).append(platform)
    terms = [
        " and ".join(part for part in (_platforms(platforms), _versions(versions)) if part)
        for versions, platforms in platforms_of.items()
    ]
    if len(terms) > 1:
        terms = [f"({one})" if " and " in one or " or " in one else one for one in terms]
    return " or ".join(terms)


def _platforms(names: list[str]) -> str:
    if len(names) == len(PLATFORMS):
        return ""
    if len(names) == len(PLATFORMS) - 1:
        (other,) = set(PLATFORMS) - set(names)
        return f'sys_platform != "{other}"'
    return f'sys_platform == "{names[0]}"'


def _versions(versions: tuple[str, ...]) -> str:
    """A range of Python versions; raises ValueError where they have a gap."""
    first, last = VERSIONS.index(versions[0]), VERSIONS.index(versions[-1])
    if last - first + 1 != len(versions):
        raise ValueError(f"no range covers Python {', '.join(versions)} and nothing between")
    bounds: list[str] = []
    if first > 0:
        bounds.append(f'python_version >= "{versions[0]}"')
    if last < len(VERSIONS) - 1:
        bounds.append(f'python_version < "{VERSIONS[last + 1]}"')
    return " and ".join(bounds)
