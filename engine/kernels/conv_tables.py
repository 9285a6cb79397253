"""How a convolution kernel may share out its work, and which way suits which device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities

GROUP = 32  # columns of one group of weights


@dataclass(frozen=True)
class Variant:
    """One way to share out output pixels and channels.

    Attributes:
        style: "f32" or "f16" (tiles in workgroup memory), "matrix" (subgroup matrices) or
            "software" (no workgroup memory).
        pixels: output pixels of a tile.
        rows: output channels of a tile.
        lane_pixels: pixels of one invocation ("matrix": of one subgroup).
        lane_rows: channels of one invocation ("matrix": of one subgroup).
        step: groups of 32 columns that one step of the loop takes.
        prefetch: the next step is read while this one is computed.
        unroll: whether the slices of a group are written out.
        splits: parts of the columns that are added up apart.
        apart: a group norm before is applied by a kernel of its own, once, instead of for every tap
            and every tile of channels.
    """

    style: str
    pixels: int
    rows: int
    lane_pixels: int
    lane_rows: int
    step: int = 1
    prefetch: bool = False
    unroll: bool = True
    splits: int = 1
    apart: bool = False

    @property
    def name(self) -> str:
        """A stable short name for tuning files and tables."""
        tail = "-p" if self.prefetch else ""
        tail += f"-s{self.splits}" if self.splits > 1 else ""
        tail += "-apart" if self.apart else ""
        if self.style == "software":
            return f"software-{self.lane_pixels}x{self.lane_rows}{tail}"
        tile = f"{self.pixels}x{self.rows}x{GROUP * self.step}"
        return f"{self.style}-{tile}-{self.lane_pixels}x{self.lane_rows}{tail}"

    def invocations(self, caps: Capabilities) -> int:
        """Invocations of a workgroup; 0 where it cannot run."""
        if self.style == "software":
            return caps.subgroup
        lanes = (self.pixels // self.lane_pixels) * (self.rows // self.lane_rows)
        return lanes * caps.subgroup if self.style == "matrix" else lanes

    @property
    def workgroup_bytes(self) -> int:
        """Workgroup memory of the tiles."""
        if self.style == "software":
            return 0
        size = 16 if self.style == "f32" else 8
        return (self.rows + 2 + self.pixels + 1) * self.step * 8 * size


VARIANTS: tuple[Variant, ...] = (
    Variant("f32", 32, 32, 4, 4, unroll=False),
    Variant("f32", 64, 64, 4, 8, unroll=False),
    Variant("f32", 64, 64, 8, 4),
    Variant("f32", 128, 64, 8, 4),
    Variant("f32", 128, 128, 8, 8),
    Variant("f32", 64, 64, 4, 8, unroll=False, splits=4),
    Variant("f16", 32, 32, 4, 4, unroll=False),
    Variant("f16", 64, 64, 4, 8),
    Variant("f16", 128, 128, 8, 8),
    Variant("f16", 128, 128, 8, 8, prefetch=True),
    Variant("f16", 64, 64, 4, 8, splits=4),
    *(Variant("software", n, 0, n, rows) for n in (4, 8, 16) for rows in (4, 8)),
)


def preferred(pixels: int, rows: int, cols: int, caps: Capabilities) -> Iterator[Variant]:
    """Variants for a product of ``pixels`` by ``rows`` over ``cols``, best first."""
    if caps.software:
        yield Variant("software", 8, 0, 8, 4)
    yield VARIANTS[1] if min(pixels, rows) > 32 else VARIANTS[0]
