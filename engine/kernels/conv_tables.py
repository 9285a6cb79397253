"""How a convolution kernel may share out its work, and which way suits which device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities, MatrixShape

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

    def workgroup_bytes(self, shape: MatrixShape | None = None) -> int:
        """Workgroup memory of the kernel ("matrix": with units of this shape)."""
        if self.style == "software":
            return 0
        if self.style == "matrix":
            teams = (self.pixels // self.lane_pixels) * (self.rows // self.lane_rows)
            corner = 4 * shape.m * shape.n if shape is not None else 0
            pitch = GROUP * self.step + 8
            return (self.pixels + self.rows) * pitch * 2 + teams * corner
        size = 16 if self.style == "f32" else 8
        return (self.rows + 2 + self.pixels + 1) * self.step * 8 * size


def _matrix(
    pixels: int, rows: int, lane_pixels: int, lane_rows: int, step: int = 1, *, splits: int = 1
) -> Variant:
    return Variant("matrix", pixels, rows, lane_pixels, lane_rows, step, True, splits=splits)


def _software(pixels: int, lane_rows: int) -> Variant:
    return Variant("software", pixels, 0, pixels, lane_rows)


_F32 = (
    Variant("f32", 64, 64, 4, 8, unroll=False),  # the one that fits every device
    Variant("f32", 32, 32, 4, 4, unroll=False),
    Variant("f32", 64, 64, 8, 8),
    Variant("f32", 128, 64, 8, 8),
    Variant("f32", 128, 128, 8, 8),
    Variant("f32", 128, 128, 8, 8, prefetch=True),
    Variant("f32", 64, 64, 4, 8, unroll=False, splits=4),
)
_F16 = (
    Variant("f16", 32, 32, 4, 4, unroll=False),
    Variant("f16", 64, 64, 4, 8),
    Variant("f16", 128, 64, 8, 8),
    Variant("f16", 128, 128, 8, 8),
    Variant("f16", 64, 64, 4, 8, splits=4),
)
_MATRIX = (
    _matrix(128, 128, 64, 32, 2),
    _matrix(128, 160, 32, 80),
    _matrix(128, 160, 32, 80, splits=4),
    _matrix(128, 160, 32, 80, splits=16),
    _matrix(64, 160, 32, 80),
    _matrix(128, 64, 64, 32),
    _matrix(64, 64, 32, 32),
    _matrix(64, 64, 32, 32, 2),
    _matrix(64, 64, 32, 32, splits=4),
    _matrix(64, 16, 16, 16),
)
_SOFTWARE = tuple(_software(pixels, rows) for pixels in (4, 8, 16) for rows in (4, 8))

#: Every variant, in the order in which a device without a table of its own tries them.
VARIANTS: tuple[Variant, ...] = (*_F32, *_F16, *_MATRIX, *_SOFTWARE)

BUSY = 128  # workgroups that leave no part of a large GPU without work
MOST_SPLITS = 16
LEAST_GROUPS = 16  # groups of a split below which adding up the parts costs more than it gains


def preferred(
    pixels: int, rows: int, groups: int, caps: Capabilities, *, half: bool
) -> Iterator[Variant]:
    """Variants for ``pixels`` by ``rows`` of ``groups`` groups of columns, best first.

    Those in f16 only where x is in f16 too: whoever keeps activations in f32 does so because f16
    would overflow, or be too coarse. The orders were raced on an H200, with all variants compiled
    and the clocks warm.
    """
    if caps.software:
        yield from (_software(8, 4), _software(4, 4))
        return
    if half and caps.matrix:
        yield from _preferred_matrix(pixels, rows, groups)
    if half and caps.f16:
        yield from _preferred_f16(pixels, rows)
    yield from _preferred_f32(pixels, rows)


def _tiles(pixels: int, rows: int, tile_pixels: int, tile_rows: int) -> int:
    """Workgroups that a tiling makes."""
    return -(-pixels // tile_pixels) * -(-rows // tile_rows)


def _splits(tiles: int, groups: int) -> int:
    """Parts to add up apart, so that few tiles become as many workgroups as a GPU has cores."""
    splits = 1
    while splits < MOST_SPLITS and tiles * splits * 4 < BUSY * 3:
        splits *= 2
    return splits if groups >= splits * LEAST_GROUPS else 1


def _preferred_matrix(pixels: int, rows: int, groups: int) -> Iterator[Variant]:
    if rows <= 16:
        yield _matrix(64, 16, 16, 16)
    if rows % 160 == 0:  # denoisers: 128 channels would leave a ragged tile; 165 TFLOP/s, not 96
        tiles = _tiles(pixels, rows, 128, 160)
        splits = _splits(tiles, groups)
        if tiles * splits * 4 >= BUSY * 3:
            yield _matrix(128, 160, 32, 80, splits=splits)
        if _tiles(pixels, rows, 64, 160) * 4 >= BUSY * 3:
            yield _matrix(64, 160, 32, 80)
    elif not 0 < rows % 128 <= 64 and _tiles(pixels, rows, 128, 128) >= BUSY:
        yield _matrix(128, 128, 64, 32, 2)  # autoencoders: 222 TFLOP/s
    if _tiles(pixels, rows, 128, 64) >= BUSY:
        yield _matrix(128, 64, 64, 32)
    splits = _splits(_tiles(pixels, rows, 64, 64), groups)
    yield _matrix(64, 64, 32, 32, splits=splits) if splits > 1 else _matrix(64, 64, 32, 32, 2)
    yield _matrix(64, 64, 32, 32)


def _preferred_f16(pixels: int, rows: int) -> Iterator[Variant]:
    if rows % 128 == 0 and _tiles(pixels, rows, 128, 128) >= BUSY:
        yield Variant("f16", 128, 128, 8, 8)
    if _tiles(pixels, rows, 64, 64) < 2 * BUSY:
        yield Variant("f16", 64, 64, 4, 8, splits=4)
    if min(pixels, rows) <= 16:
        yield Variant("f16", 32, 32, 4, 4, unroll=False)
    yield Variant("f16", 64, 64, 4, 8)


def _preferred_f32(pixels: int, rows: int) -> Iterator[Variant]:
    if _tiles(pixels, rows, 128, 128) >= BUSY:
        yield Variant("f32", 128, 128, 8, 8)
    if _tiles(pixels, rows, 128, 64) >= BUSY:
        yield Variant("f32", 128, 64, 8, 8)
    if _tiles(pixels, rows, 64, 64) < BUSY:
        yield Variant("f32", 64, 64, 4, 8, unroll=False, splits=4)
    if min(pixels, rows) <= 32:
        yield Variant("f32", 32, 32, 4, 4, unroll=False)
    yield Variant("f32", 64, 64, 4, 8, unroll=False)
