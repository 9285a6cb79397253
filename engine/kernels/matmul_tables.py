"""How a matrix-matrix kernel may share out its work, and which way suits which device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.tensor.weights import WeightDesc

GROUP = 32  # columns of one group of weights


@dataclass(frozen=True)
class Variant:
    """One way to share out tokens and rows.

    Attributes:
        style: "f32" or "f16" (tiles of numbers in workgroup memory), "dp4a" (tiles of signed
            bytes), "matrix" (f16 tiles on matrix units) or "software" (no workgroup memory).
        tokens: tokens of a tile.
        rows: rows of the weight in a tile, gate and up rows both counted (software: whatever the
            lanes of a subgroup make).
        lane_tokens: tokens of one invocation (matrix: of one subgroup).
        lane_rows: rows of the weight of one invocation (matrix: of one subgroup).
        step: groups of 32 columns that one step of the loop takes.
        prefetch: the next step is read while this one is computed.
        unroll: whether the slices of a group are written out.
        by_bits: codes become f16 by their bits, and weights are made in f16 (Tint only).
    """

    style: str
    tokens: int
    rows: int
    lane_tokens: int
    lane_rows: int
    step: int = 1
    prefetch: bool = False
    unroll: bool = True
    by_bits: bool = False

    @property
    def name(self) -> str:
        """A stable short name for tuning files and tables."""
        if self.style == "software":
            return f"software-{self.tokens}x{self.lane_rows}"
        tile = f"{self.tokens}x{self.rows}x{GROUP * self.step}"
        tail = ("p" if self.prefetch else "") + ("b" if self.by_bits else "")
        dash = "-" if tail else ""
        return f"{self.style}-{tile}-{self.lane_tokens}x{self.lane_rows}{dash}{tail}"

    @property
    def teams(self) -> tuple[int, int]:
        """How many invocations (matrix: subgroups) share the tokens, and how many the rows."""
        return (self.tokens // self.lane_tokens, self.rows // self.lane_rows)

    def invocations(self, caps: Capabilities) -> int:
        """Invocations of a workgroup; 0 where it cannot run."""
        if self.style == "software":
            return caps.subgroup
        lines, columns = self.teams
        return lines * columns * (caps.subgroup if self.style == "matrix" else 1)

    def workgroup_bytes(self, shape: MatrixShape | None = None) -> int:
        """Workgroup memory of the kernel, gated or not (matrix: with units of this shape)."""
        if self.style == "matrix":
            lines, columns = self.teams
            corner = 2 * 4 * shape.m * shape.n if shape is not None else 0
            pitch = GROUP * self.step + 8
            return (self.tokens + self.rows) * pitch * 2 + lines * columns * corner
        return self._tile_bytes(*self.pads)

    @property
    def pads(self) -> tuple[int, int]:
        """Positions added to the pitch of both tiles, so that a loader's lanes hit other banks."""
        if self.style == "dp4a":
            return (0, 4 // self.step)
        bare = self._tile_bytes(0, 0)
        return (0, 0) if bare <= 16 << 10 < self._tile_bytes(2, 1) else (2, 1)

    def _tile_bytes(self, pad_w: int, pad_x: int) -> int:
        positions = self.rows + pad_w + self.tokens + pad_x
        if self.style == "dp4a":
            return (positions * 2 * 16 + (self.rows + self.tokens) * 8) * self.step
        return positions * self.step * 8 * (8 if self.style == "f16" else 16)


def _software(tokens: int, lane_rows: int) -> Variant:
    return Variant("software", tokens, 0, tokens, lane_rows)


def _dp4a(
    tokens: int, rows: int, lane_tokens: int, lane_rows: int, step: int, *, prefetch: bool = True
) -> Variant:
    return Variant("dp4a", tokens, rows, lane_tokens, lane_rows, step, prefetch)


def _matrix(
    tokens: int,
    rows: int,
    lane_tokens: int,
    lane_rows: int,
    step: int = 1,
    *,
    prefetch: bool = False,
    by_bits: bool = False,
) -> Variant:
    return Variant(
        "matrix",
        tokens,
        rows,
        lane_tokens,
        lane_rows,
        step,
        prefetch,
        by_bits=by_bits,
    )


_F32 = (
    Variant("f32", 64, 64, 4, 8, unroll=False),  # the one that fits every device
    Variant("f32", 32, 32, 2, 8, unroll=False),
    Variant("f32", 32, 32, 4, 4, unroll=False),
    Variant("f32", 64, 64, 8, 8),
    Variant("f32", 128, 64, 8, 8),
    Variant("f32", 128, 128, 8, 8),
    Variant("f32", 128, 128, 8, 8, prefetch=True),
)
_F16 = (
    Variant("f16", 64, 64, 4, 8),
    Variant("f16", 128, 64, 8, 8),
    Variant("f16", 128, 128, 8, 8),
    Variant("f16", 128, 128, 8, 8, prefetch=True),
)
_DP4A = (
    _dp4a(32, 32, 4, 8, 1, prefetch=False),
    _dp4a(64, 64, 4, 8, 1),
    _dp4a(64, 64, 4, 8, 2),
    _dp4a(64, 64, 8, 8, 2),
    _dp4a(128, 64, 8, 8, 1),
    _dp4a(128, 64, 8, 8, 2),
    _dp4a(128, 64, 8, 4, 2),
    _dp4a(128, 128, 8, 8, 1, prefetch=False),
    _dp4a(128, 128, 8, 8, 1),
    _dp4a(128, 128, 8, 8, 2),
    _dp4a(128, 128, 16, 8, 1),
)
_MATRIX = tuple(
    _matrix(tokens, rows, lane_tokens, lane_rows, step, prefetch=prefetch, by_bits=by_bits)
    for by_bits in (True, False)
    for tokens, rows, lane_tokens, lane_rows, step, prefetch in (
        (128, 128, 64, 64, 1, False),
        (128, 128, 64, 64, 1, True),
        (128, 128, 64, 32, 1, True),
        (128, 128, 64, 64, 2, False),
        (128, 64, 64, 32, 1, True),
        (64, 64, 32, 32, 1, True),
        (64, 64, 32, 32, 2, True),
        (32, 64, 32, 32, 1, True),
    )
)
_SOFTWARE = tuple(_software(tokens, rows) for tokens in (4, 8, 16) for rows in (1, 2, 4, 8))

#: Every variant, in the order in which a device without a table of its own tries them.
VARIANTS: tuple[Variant, ...] = (*_F32, *_F16, *_DP4A, *_MATRIX, *_SOFTWARE)


def preferred(desc: WeightDesc, tokens: int, caps: Capabilities) -> Iterator[Variant]:
    """Variants for a weight and a number of tokens, best first, some maybe not allowed."""
    if caps.software:
        if tokens <= 4:
            yield _software(4, 4)
        yield from (_software(8, 4), _software(8, 8))
        return
    if caps.matrix:
        yield from _preferred_matrix(desc.rows, tokens)
    # Signed bytes are faster yet, but round activations so coarsely that a greedy answer changes:
    # no device takes them of itself.
    if caps.f16:
        yield _F16[0]
    if tokens > 64 and _tiles(desc.rows, tokens, 128, 128) >= 64:
        yield Variant("f32", 128, 128, 8, 8)


def _tiles(rows: int, tokens: int, tile_tokens: int, tile_rows: int) -> int:
    """Workgroups that a tiling makes: too few leave part of a large GPU without work."""
    return -(-tokens // tile_tokens) * -(-rows // tile_rows)


def _preferred_matrix(rows: int, tokens: int) -> Iterator[Variant]:
    if tokens > 64 and _tiles(rows, tokens, 128, 128) >= 128:
        yield _matrix(128, 128, 64, 64, prefetch=True, by_bits=True)
        yield _matrix(128, 128, 64, 64, prefetch=True)
    if tokens > 64 and _tiles(rows, tokens, 128, 64) >= 128:
        yield _matrix(128, 64, 64, 32, prefetch=True, by_bits=True)
        yield _matrix(128, 64, 64, 32, prefetch=True)
    if tokens > 32:
        yield _matrix(64, 64, 32, 32, prefetch=True, by_bits=True)
        yield _matrix(64, 64, 32, 32, prefetch=True)
    yield _matrix(32, 64, 32, 32, prefetch=True, by_bits=True)
    yield _matrix(32, 64, 32, 32, prefetch=True)
