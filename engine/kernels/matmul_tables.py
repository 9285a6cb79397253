"""How a matrix-matrix kernel may share out its work, and which way suits which device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities
from engine.tensor.weights import WeightDesc

GROUP = 32  # columns of one group of weights


@dataclass(frozen=True)
class Variant:
    """One way to share out tokens and rows.

    Attributes:
        style: "f32" or "f16" (tiles of numbers in workgroup memory), "dp4a" (tiles of signed bytes)
            or "software" (no workgroup memory).
        tokens: tokens of a tile.
        rows: rows of the weight in a tile, gate and up rows both counted.
        lane_tokens: tokens of one invocation.
        lane_rows: rows of the weight of one invocation.
        step: groups of 32 columns that one step of the loop takes.
        prefetch: the next step is read while this one is computed.
        unroll: whether the slices of a group are written out.
    """

    style: str
    tokens: int
    rows: int
    lane_tokens: int
    lane_rows: int
    step: int = 1
    prefetch: bool = False
    unroll: bool = True

    @property
    def name(self) -> str:
        """A stable short name for tuning files and tables."""
        tile = f"{self.tokens}x{self.rows}x{GROUP * self.step}"
        tail = "-p" if self.prefetch else ""
        return f"{self.style}-{tile}-{self.lane_tokens}x{self.lane_rows}{tail}"

    def invocations(self, caps: Capabilities) -> int:
        """Invocations of a workgroup; 0 where it cannot run."""
        if self.style == "software":
            return caps.subgroup
        return (self.tokens // self.lane_tokens) * (self.rows // self.lane_rows)


def _software(tokens: int, lane_rows: int) -> Variant:
    return Variant("software", tokens, 0, tokens, lane_rows)


VARIANTS: tuple[Variant, ...] = (
    Variant("f32", 64, 64, 4, 8, unroll=False),
    Variant("f32", 32, 32, 4, 4, unroll=False),
    Variant("f32", 32, 32, 2, 8, unroll=False),
    Variant("f32", 128, 128, 8, 8),
    Variant("f32", 128, 64, 8, 4),
    Variant("f16", 64, 64, 4, 8),
    Variant("f16", 128, 128, 8, 8),
    Variant("dp4a", 32, 32, 4, 8),
    Variant("dp4a", 128, 128, 8, 8),
    Variant("dp4a", 128, 128, 8, 8, prefetch=True),
    Variant("dp4a", 128, 128, 8, 8, 2, prefetch=True),
    Variant("dp4a", 128, 64, 8, 4, 2, prefetch=True),
    Variant("dp4a", 128, 64, 8, 8, 2, prefetch=True),
    Variant("dp4a", 64, 64, 4, 8, 2, prefetch=True),
    *(_software(tokens, rows) for tokens in (4, 8, 16) for rows in (1, 2, 4, 8)),
)


def preferred(
    desc: WeightDesc, tokens: int, caps: Capabilities, *, gated: bool
) -> Iterator[Variant]:
    """Variants for a weight and a number of tokens, best first, some maybe not allowed."""
    if caps.software:
        yield _software(8, 4)
    yield VARIANTS[0]
