"""How a matrix-matrix kernel may share out its work, and which way suits which device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.kernels.quantise_blocks import FLOAT_KINDS
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
        unroll: slices of four columns that are written out, a divisor of the eight of a group.
        by_bits: codes become f16 by their bits, and weights are made in f16.
        paired: an f16 sum holds two tokens, not two columns (f16).
        quads: lanes are laid out so that pairs of them read the same (f16).
        flush: groups of 32 columns that are added up in f16 (f16), a divisor of step.
    """

    style: str
    tokens: int
    rows: int
    lane_tokens: int
    lane_rows: int
    step: int = 1
    prefetch: bool = False
    unroll: int = 8
    by_bits: bool = False
    paired: bool = False
    quads: bool = False
    flush: int = 1

    @property
    def name(self) -> str:
        """A stable short name for tuning files and tables."""
        if self.style == "software":
            return f"software-{self.tokens}x{self.lane_rows}"
        tile = f"{self.tokens}x{self.rows}x{GROUP * self.step}"
        marks = {"p": self.prefetch, "b": self.by_bits, "t": self.paired, "q": self.quads}
        tail = "".join(mark for mark, there in marks.items() if there)
        tail += f"f{self.flush}" if self.flush > 1 else ""
        tail += f"u{self.unroll}" if self.style == "f16" and self.unroll != 8 else ""
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
    def double(self) -> bool:
        """Whether there are two pairs of tiles, one being filled while the other is read."""
        return self.prefetch and self.style == "f16"

    @property
    def pads(self) -> tuple[int, int]:
        """Positions added to the pitch of both tiles, so that a loader's lanes hit other banks."""
        if self.style == "dp4a":
            return (0, 4 // self.step)
        if self.style == "f16":  # vectors of 8 bytes: 16 to a row of banks
            return (4, 1 if self.paired or self.step > 1 else 2)
        bare = self._tile_bytes(0, 0)
        return (0, 0) if bare <= 16 << 10 < self._tile_bytes(2, 1) else (2, 1)

    def _tile_bytes(self, pad_w: int, pad_x: int) -> int:
        positions = self.rows + pad_w + self.tokens + pad_x * (2 if self.paired else 1)
        if self.style == "dp4a":
            return (positions * 2 * 16 + (self.rows + self.tokens) * 8) * self.step
        tiles = 2 if self.double else 1
        return positions * self.step * 8 * (8 if self.style == "f16" else 16) * tiles


def _software(tokens: int, lane_rows: int) -> Variant:
    return Variant("software", tokens, 0, tokens, lane_rows)


def _half(
    tokens: int,
    rows: int,
    lane_tokens: int,
    lane_rows: int,
    step: int = 1,
    *,
    prefetch: bool = False,
    by_bits: bool = True,
    paired: bool = True,
    quads: bool = True,
    flush: int = 1,
    unroll: int = 8,
) -> Variant:
    return Variant(
        "f16",
        tokens,
        rows,
        lane_tokens,
        lane_rows,
        step,
        prefetch,
        unroll,
        by_bits,
        paired,
        quads,
        flush,
    )


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
    Variant("f32", 64, 64, 4, 8, unroll=1),  # the one that fits every device
    Variant("f32", 32, 32, 2, 8, unroll=1),
    Variant("f32", 32, 32, 4, 4, unroll=1),
    Variant("f32", 64, 64, 8, 8),
    Variant("f32", 128, 64, 8, 8),
    Variant("f32", 128, 128, 8, 8),
    Variant("f32", 128, 128, 8, 8, prefetch=True),
)
_F16 = (
    _half(64, 64, 4, 8, by_bits=False, paired=False, quads=False),
    _half(64, 64, 4, 8, by_bits=False, paired=False),
    _half(64, 64, 4, 8, paired=False),
    _half(64, 64, 4, 8),
    _half(64, 64, 4, 8, 2),
    _half(64, 64, 4, 8, 2, flush=2),
    _half(64, 64, 4, 8, prefetch=True),
    _half(64, 64, 8, 8, 2),
    _half(64, 128, 8, 8),
    _half(128, 64, 8, 8, unroll=4),
    _half(128, 64, 8, 8, prefetch=True),
    _half(128, 128, 8, 8),
    _half(32, 64, 4, 4, 2, prefetch=True),
    _half(32, 32, 4, 4, 2, prefetch=True),
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
    if caps.matrix and desc.kind in FLOAT_KINDS:
        yield from _preferred_matrix_floats(desc.rows, tokens)
    if caps.matrix:
        yield from _preferred_matrix(desc.rows, tokens)
    # Signed bytes are faster yet, but round activations so coarsely that a greedy answer changes:
    # no device takes them of itself.
    if caps.f16:
        yield from (_F16[1], _F16[0])  # of 14 on an H200 the best in a whole prefill of 3B
    if tokens > 64 and _tiles(desc.rows, tokens, 128, 128) >= 64:
        yield Variant("f32", 128, 128, 8, 8)


def _tiles(rows: int, tokens: int, tile_tokens: int, tile_rows: int) -> int:
    """Workgroups that a tiling makes: too few leave part of a large GPU without work."""
    return -(-tokens // tile_tokens) * -(-rows // tile_rows)


def _preferred_matrix_floats(rows: int, tokens: int) -> Iterator[Variant]:
    """Weights that need no decoding: the largest tile is faster without prefetching (H200)."""
    if tokens > 64 and _tiles(rows, tokens, 128, 128) >= 128:
        yield _matrix(128, 128, 64, 64)
    if tokens > 32:
        yield _matrix(64, 64, 32, 32, 2, prefetch=True)


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
