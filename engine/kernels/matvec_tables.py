"""How a matrix-vector kernel may share out its work, and which way suits which device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.gpu.capabilities import Capabilities
from engine.tensor.weights import WeightDesc


@dataclass(frozen=True)
class Variant:
    """One way to share out rows and columns.

    Attributes:
        style: "lanes" (lanes share the columns of a row) or "software" (a row is one lane's).
        reduce: how lanes add up: "subgroup", "memory" (no subgroups needed) or "" (not at all).
        rows: output rows that the same lanes make at once; they share each activation they load.
        split: subgroups that share the columns of the same rows.
        sets: such sets of subgroups in one workgroup.
        words: code words of a group of 32 that a lane takes at once: 4 (16-byte loads), 2 or 1.
        unroll: steps of a lane that are written out in the loop.
        lanes: invocations of a team where that is not the subgroup size (0: it is).
        shared: lanes of a subgroup of eight load activations for each other ("software" only).
        wide: codes become floats without a conversion instruction (NVIDIA is slow at those).
        staged: activations are first copied into workgroup memory, times the gain of the norm.
    """

    style: str
    reduce: str
    rows: int
    split: int = 1
    sets: int = 1
    words: int = 4
    unroll: int = 1
    lanes: int = 0
    staged: bool = False
    shared: bool = False
    wide: bool = False

    @property
    def name(self) -> str:
        """A stable short name for tuning files and tables."""
        if self.style == "software":
            return f"software-r{self.rows}-l{self.lanes}{'-s' if self.shared else ''}"
        head = "sub" if self.reduce == "subgroup" else f"mem{self.lanes}"
        tail = ("-x" if self.staged else "") + ("-i" if self.wide else "")
        return f"{head}-r{self.rows}k{self.split}n{self.sets}-w{self.words}u{self.unroll}{tail}"

    def team(self, caps: Capabilities) -> int:
        """Invocations of one team; 0 where subgroups are needed and there are none."""
        return self.lanes or caps.subgroup

    def invocations(self, caps: Capabilities) -> int:
        """Invocations of a workgroup; 0 where it cannot run."""
        return self.team(caps) * self.split * self.sets

    def rows_per_invocation_group(self, caps: Capabilities) -> int:
        """How many times ``rows`` output rows one workgroup makes."""
        return self.lanes if self.style == "software" else self.sets

    def params(self, caps: Capabilities) -> dict[str, Any]:
        """The template's parameters."""
        return {
            "rows": self.rows,
            "split": self.split,
            "sets": self.sets,
            "words": self.words,
            "unroll": self.unroll,
            "lanes": self.team(caps),
            "reduce": self.reduce,
            "staged": self.staged,
            "shared": self.shared,
            "wide": self.wide,
        }


def _subgroup(
    rows: int,
    split: int,
    sets: int,
    words: int = 4,
    *,
    unroll: int = 2,
    staged: bool = False,
    wide: bool = False,
) -> Variant:
    return Variant("lanes", "subgroup", rows, split, sets, words, unroll, staged=staged, wide=wide)


def _wide(
    rows: int, split: int, sets: int, words: int = 4, unroll: int = 2, *, staged: bool = False
) -> Variant:
    return _subgroup(rows, split, sets, words, unroll=unroll, staged=staged, wide=True)


def _memory(rows: int, lanes: int, words: int = 4, sets: int = 1) -> Variant:
    return Variant("lanes", "memory", rows, sets=sets, words=words, unroll=2, lanes=lanes)


def _software(rows: int, lanes: int, *, shared: bool = False) -> Variant:
    return Variant("software", "", rows, lanes=lanes, shared=shared)


_WIDE = (
    *(_wide(rows, split, 1) for rows in (1, 2, 4) for split in (2, 4)),
    *(_wide(rows, 1, sets) for rows in (2, 4, 8) for sets in (2, 4)),
    *(_wide(rows, split, 1, 2) for rows in (2, 4) for split in (2, 4)),
    *(_wide(rows, split, 1, 1, 4) for rows in (2, 4, 8) for split in (2, 4, 8)),
    *(_wide(rows, 1, sets, 1, 4) for rows in (4, 8) for sets in (2, 4)),
    *(
        _wide(rows, split, sets, staged=True)
        for rows in (2, 4, 8)
        for split, sets in ((1, 8), (1, 16), (2, 4), (4, 2))
    ),
)
_SUBGROUP = (
    *(_subgroup(rows, 4, 1) for rows in (1, 2, 4)),
    *(_subgroup(rows, 1, 2) for rows in (1, 2, 4)),
    _subgroup(4, 1, 4),
    _subgroup(4, 2, 1, 2),
    _subgroup(4, 4, 1, 1),
    _subgroup(2, 1, 4, 1),
    _subgroup(4, 1, 8, staged=True),
)
_MEMORY = (
    *(_memory(rows, lanes) for rows in (1, 4) for lanes in (64, 128)),
    _memory(2, 64, 1),
    _memory(4, 64, 1),
    _memory(4, 32, sets=2),
)
_SOFTWARE = (
    *(_software(rows, 8, shared=True) for rows in (1, 2, 4, 8)),
    _software(4, 32, shared=True),
    *(_software(rows, 8) for rows in (1, 4)),
)

#: Every variant, in the order in which a device without a table of its own tries them.
VARIANTS: tuple[Variant, ...] = (*_SUBGROUP, *_WIDE, *_MEMORY, *_SOFTWARE)


_BY_NAME = {variant.name: variant for variant in VARIANTS}
_SHORT = 2048  # columns below which 16-byte loads leave lanes of a subgroup idle


def variant_named(name: str) -> Variant | None:
    """The variant of a name, or None: a tuning file may be older than the list."""
    return _BY_NAME.get(name)


def preferred(desc: WeightDesc, outputs: int, tokens: int, caps: Capabilities) -> Iterator[Variant]:
    """Variants for a weight that makes ``outputs`` channels, best first, some maybe not allowed."""
    if caps.software:
        yield from (_software(4, 8, shared=True), _software(4, 8), _software(1, 8, shared=True))
        yield _software(1, 8)
    elif caps.subgroup and tokens > 1:
        # The activations of all tokens lie in registers: few code words, hence few of them.
        yield _subgroup(4, 4, 1, 1)
        yield _subgroup(2, 1, 4, 1)
        yield _subgroup(1, 4, 1)
    elif caps.subgroup:
        table = _for_nvidia if caps.vendor == "nvidia" else _for_subgroups
        yield from table(desc, outputs)
    if tokens > 1:
        yield from (_memory(4, 64, 1), _memory(2, 64, 1))
    yield from (_memory(4, 64), _memory(1, 64))


def _for_nvidia(desc: WeightDesc, outputs: int) -> Iterator[Variant]:
    """Winners on an H200, by the time of a whole decode and not only of the kernel alone.

    Alone, kernels that stage the activations in workgroup memory win on wide rows (16384x3072 in
    15.7 us, against 19.4), but next to others that use none the chip repartitions its caches each
    time: a token of Llama 3.2 3B takes 2.81 ms with them and 2.15 ms without.
    """
    if desc.rows >= 32768:
        yield _wide(8, 1, 8, staged=True) if desc.cols < _SHORT else _subgroup(4, 1, 8, staged=True)
    elif desc.cols < _SHORT:
        yield from (_wide(2, 4, 1, 1, 4), _wide(2, 2, 1, 1, 4))
    elif desc.rows >= 8192:
        yield _wide(4, 2, 1, 2)
    elif desc.cols > 4096:
        yield _wide(4, 4, 1, 2)
    elif desc.rows > 4096:
        yield _subgroup(4, 4, 1, 1)
    yield from (_subgroup(4, 2, 1, 2), _wide(2, 2, 1, 2), _wide(4, 1, 4), _subgroup(4, 1, 4))
    yield _subgroup(1, 4, 1)


def _for_subgroups(desc: WeightDesc, outputs: int) -> Iterator[Variant]:
    """Other GPUs convert bytes to floats at full rate or nearly so."""
    if desc.cols < _SHORT:
        yield from (_subgroup(2, 1, 4, 1), _subgroup(4, 1, 2))
    elif outputs <= 4096:
        yield from (_subgroup(4, 4, 1), _subgroup(2, 4, 1))
    yield from (_subgroup(4, 1, 2), _subgroup(2, 1, 2))
