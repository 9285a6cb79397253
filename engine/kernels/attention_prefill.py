"""Attention of a chunk of tokens, in the flash manner: blocks of queries against tiles of keys."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from engine.gpu.capabilities import Capabilities, MatrixShape
from engine.graph.node import GraphError, Node
from engine.kernels.attention_decode import sizes_of
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold
from engine.kernels.state import STATE_WGSL
from engine.tensor.descriptor import DType


@dataclass(frozen=True)
class RowVariant:
    """One invocation a query row, no barriers: for software devices, and where nothing else fits.

    Attributes:
        size: query rows of a workgroup.
        tile: keys between two rescalings.
        burst: keys that are scored together.
    """

    size: int
    tile: int
    burst: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"rows{self.size}t{self.tile}b{self.burst}"

    def fits(self, node: Node, caps: Capabilities) -> bool:
        """True on every device."""
        return True

    def lower(self, node: Node, caps: Capabilities) -> list[Dispatch]:
        """One dispatch."""
        sizes = sizes_of(node)
        blocks = -(-node.named["q"].tensor.shape.w // self.size)
        grid = fold(blocks * sizes.heads, caps)
        params = _common(node) | {
            "blocks": blocks,
            "heads": sizes.heads,
            "size": self.size,
            "tile": self.tile,
            "burst": self.burst,
            "wide": next(count for count in (4, 3, 2, 1) if sizes.slices % count == 0),
            "grid_x": grid[0],
        }
        return [Dispatch("attention/prefill_rows.wgsl", params, binds_of(node), grid, "attention")]


@dataclass(frozen=True)
class LaneVariant:
    """A workgroup is one subgroup; a lane owns ``per`` query rows and broadcasts what it loads.

    For software devices, where a load costs a step a lane.
    """

    per: int
    tile: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"lanes{self.per}t{self.tile}"

    def fits(self, node: Node, caps: Capabilities) -> bool:
        """Whether the device has subgroups of one size; unrolled, wide heads make long shaders."""
        return caps.subgroup > 0 and sizes_of(node).slices * self.per <= 64

    def lower(self, node: Node, caps: Capabilities) -> list[Dispatch]:
        """One dispatch."""
        sizes = sizes_of(node)
        rows = node.named["q"].tensor.shape.w * (sizes.heads // sizes.kv_heads)
        blocks = -(-rows // (caps.subgroup * self.per))
        params = _common(node) | {
            "blocks": blocks,
            "lanes": caps.subgroup,
            "per": self.per,
            "tile": self.tile,
        }
        grid = (blocks, sizes.kv_heads, 1)
        return [Dispatch("attention/prefill_lanes.wgsl", params, binds_of(node), grid, "attention")]


@dataclass(frozen=True)
class TileVariant:
    """Blocks of query rows against tiles of keys in workgroup memory.

    Attributes:
        rows: query rows (a token and a query head) of a workgroup.
        keys: keys of a tile; a quarter as many invocations share a row.
        per: rows of an invocation.
        half: tiles are f16, and values are weighed in f16, eight keys at a time.
    """

    rows: int
    keys: int
    per: int
    half: bool

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"tiles{self.rows}x{self.keys}p{self.per}" + ("h" if self.half else "")

    @property
    def size(self) -> int:
        """Invocations of a workgroup."""
        return self.rows // self.per * (self.keys // 4)

    def fits(self, node: Node, caps: Capabilities) -> bool:
        """Whether the device has f16 where it is used, the workgroup memory and the invocations."""
        if self.half and not (caps.f16 and node.named["k_cache"].tensor.dtype is DType.F16):
            return False
        return self.size <= caps.limits.invocations and (
            self._bytes(sizes_of(node).slices) <= caps.limits.workgroup_bytes
        )

    def _bytes(self, slices: int) -> int:
        quads = self.keys // 4 + 1
        vectors = self.rows * (slices + 1) + 4 * slices * quads + self.keys * slices
        return (vectors + self.rows * quads) * (8 if self.half else 16) + 4 * self.rows * quads

    def lower(self, node: Node, caps: Capabilities) -> list[Dispatch]:
        """One dispatch."""
        sizes = sizes_of(node)
        tokens = node.named["q"].tensor.shape.w
        blocks = -(-tokens * (sizes.heads // sizes.kv_heads) // self.rows)
        params = _common(node) | {
            "blocks": blocks,
            "rows": self.rows,
            "keys": self.keys,
            "rm": self.per,
            "size": self.size,
            "pad": 1,  # neighbouring rows start in different banks
            "scalar": "f16" if self.half else "f32",
            "half_values": self.half and self.keys >= 8,
            "subgroup": caps.subgroup if caps.subgroup >= self.keys // 4 else 0,
        }
        grid = (blocks, sizes.kv_heads, 1)
        return [Dispatch("attention/prefill_tiles.wgsl", params, binds_of(node), grid, "attention")]


@dataclass(frozen=True)
class FlashVariant:
    """The same with every product in f16, and each score's exponential taken once.

    Attributes:
        rows: query rows (a token and a query head) of a workgroup.
        keys: keys of a tile.
        per_rows: rows of an invocation.
        per_keys: keys of an invocation, of whose rows it makes the scores.
        shared_tile: keys and values take turns in one tile.
        run: how many products, of channels or of keys, are added up in f16 before f32 takes over.
    """

    rows: int
    keys: int
    per_rows: int
    per_keys: int
    shared_tile: bool = False
    run: int = 32

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        tail = ("s" if self.shared_tile else "") + (f"r{self.run}" if self.run != 32 else "")
        return f"flash{self.rows}x{self.keys}-{self.per_rows}x{self.per_keys}{tail}"

    @property
    def _across(self) -> int:
        """Invocations that share a row."""
        return self.keys // self.per_keys

    @property
    def size(self) -> int:
        """Invocations of a workgroup."""
        return self.rows // self.per_rows * self._across

    def fits(self, node: Node, caps: Capabilities) -> bool:
        """Whether there is f16 in arithmetic and caches, workgroup memory and invocations."""
        if not caps.f16 or node.named["k_cache"].tensor.dtype is not DType.F16:
            return False
        return self.size <= caps.limits.invocations and (
            self._bytes(sizes_of(node).slices, caps) <= caps.limits.workgroup_bytes
        )

    def _shuffles(self, caps: Capabilities) -> bool:
        """Whether all invocations that share a row lie in one subgroup; lanes alternate rows."""
        return caps.subgroup >= 2 * self._across

    def _bytes(self, slices: int, caps: Capabilities) -> int:
        tiles = self.keys * (slices + 1) + (0 if self.shared_tile else self.keys * slices)
        vectors = self.rows // 2 * (2 * slices + 2) + tiles + self.rows * (self.keys // 4 + 1)
        return 8 * vectors + (0 if self._shuffles(caps) else 4 * self.rows * self._across)

    def lower(self, node: Node, caps: Capabilities) -> list[Dispatch]:
        """One dispatch."""
        sizes = sizes_of(node)
        tokens = node.named["q"].tensor.shape.w
        blocks = -(-tokens * (sizes.heads // sizes.kv_heads) // self.rows)
        params = _common(node) | {
            "blocks": blocks,
            "rows": self.rows,
            "keys": self.keys,
            "rm": self.per_rows,
            "rk": self.per_keys,
            "size": self.size,
            "shared_tile": self.shared_tile,
            "shuffle": self._shuffles(caps),
            "chunk": next(s for s in range(self.run // 4, 0, -1) if sizes.slices % s == 0),
            "flush": self.run,
            "log2e": math.log2(math.e),
        }
        grid = (blocks, sizes.kv_heads, 1)
        return [Dispatch("attention/prefill_flash.wgsl", params, binds_of(node), grid, "attention")]


@dataclass(frozen=True)
class MatrixVariant:
    """Products on matrix units: ``teams`` subgroups a workgroup, tiles of ``keys`` keys."""

    teams: int
    keys: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"matrix{self.teams}x{self.keys}"

    def fits(self, node: Node, caps: Capabilities) -> bool:
        """Whether units divide the heads and tiles, and the workgroup memory suffices."""
        shape = self.shape(node, caps)
        if shape is None or node.named["k_cache"].tensor.dtype is not DType.F16:
            return False
        if self.teams * caps.subgroup > caps.limits.invocations:
            return False
        rows, pitch = self.teams * shape.m, self._pitch(node)
        nbytes = 2 * self._tile_rows(shape) * pitch + rows * (4 * (self.keys + 4))
        nbytes += rows * 2 * (self.keys + 8) + 4 * self.teams * caps.subgroup
        return nbytes <= caps.limits.workgroup_bytes

    def shape(self, node: Node, caps: Capabilities) -> MatrixShape | None:
        """The largest unit of f16 inputs and f32 sums that divides everything, if there is one."""
        head_dim = 4 * sizes_of(node).slices

        def divides(shape: MatrixShape) -> bool:
            if (shape.input, shape.output) != ("f16", "f32") or shape.n % 4:
                return False
            if caps.subgroup % shape.m or self.keys % (caps.subgroup // shape.m):
                return False
            sides = (shape.n, shape.k)
            return not any(head_dim % side or self.keys % side for side in sides)

        if not (caps.f16 and caps.subgroup):
            return None
        return max(filter(divides, caps.matrix), key=lambda s: s.m * s.n * s.k, default=None)

    def _pitch(self, node: Node) -> int:
        """Elements between rows: whole 16-byte units, and neighbours in different banks."""
        return 4 * sizes_of(node).slices + 8

    def _tile_rows(self, shape: MatrixShape) -> int:
        return max(2 * self.keys, self.teams * shape.m)

    def lower(self, node: Node, caps: Capabilities) -> list[Dispatch]:
        """One dispatch.

        Raises:
            GraphError: the device has no units for this node.
        """
        shape = self.shape(node, caps)
        if shape is None:
            raise GraphError(f"The attention kernel {self.name} cannot run this node here.")
        sizes = sizes_of(node)
        rows = self.teams * shape.m
        blocks = -(-node.named["q"].tensor.shape.w * (sizes.heads // sizes.kv_heads) // rows)
        params = _common(node) | {
            "m": shape.m,
            "n": shape.n,
            "k": shape.k,
            "blocks": blocks,
            "rows": rows,
            "keys": self.keys,
            "lanes": caps.subgroup,
            "size": self.teams * caps.subgroup,
            "pitch": self._pitch(node),
            "tile_rows": self._tile_rows(shape),
        }
        grid = (blocks, sizes.kv_heads, 1)
        return [
            Dispatch("attention/prefill_matrix.wgsl", params, binds_of(node), grid, "attention")
        ]


def _common(node: Node) -> dict[str, Any]:
    sizes = sizes_of(node)
    softcap = node.attrs.get("softcap")
    return {
        "state_words": STATE_WGSL,
        "tokens": node.named["q"].tensor.shape.w,
        "group": sizes.heads // sizes.kv_heads,
        "slices": sizes.slices,
        "positions": sizes.positions,
        "window": node.attrs.get("window"),
        "scale": float(node.attrs["scale"]),
        "softcap": None if softcap is None else float(softcap),
    }


def binds_of(node: Node) -> tuple[Bind, ...]:
    """What every prefill kernel binds."""
    return (
        Bind("q", node.named["q"]),
        Bind("k_cache", node.named["k_cache"]),
        Bind("v_cache", node.named["v_cache"]),
        Bind("state", node.named["state"], raw="array<u32>"),
        Bind("o", node.output, Access.WRITE),
    )


PrefillVariant = RowVariant | LaneVariant | TileVariant | FlashVariant | MatrixVariant

#: Best first. Large blocks reuse a tile more, small ones keep more of a large GPU busy.
_TILES = (
    TileVariant(64, 32, 4, True),
    TileVariant(64, 32, 2, True),
    TileVariant(32, 32, 4, True),
    TileVariant(32, 32, 2, True),
    TileVariant(32, 32, 4, False),
    TileVariant(32, 16, 4, False),
    TileVariant(16, 16, 2, False),
    TileVariant(8, 8, 1, False),
)
#: In the order of a race on an H200: 512 queries on 1,024 keys of 24 heads of 128 take 206 us with
#: the first, 256 with the next three, 340 with tiles.
_FLASH = (
    FlashVariant(64, 64, 4, 4, shared_tile=True),
    FlashVariant(32, 64, 4, 4),
    FlashVariant(64, 64, 8, 4, shared_tile=True),
    FlashVariant(64, 64, 4, 8, shared_tile=True),
    FlashVariant(16, 64, 4, 4),
)
_MATRIX = (MatrixVariant(4, 64), MatrixVariant(4, 32), MatrixVariant(2, 32), MatrixVariant(4, 16))
_LANES = (LaneVariant(2, 32), LaneVariant(1, 32))
_ROWS = RowVariant(8, 32, 4)


def choices(node: Node, caps: Capabilities) -> list[PrefillVariant]:
    """The variants allowed for a node on this device, best first."""
    if caps.software:
        return [*[variant for variant in _LANES if variant.fits(node, caps)][:1], _ROWS]
    matrix = [variant for variant in _MATRIX if variant.fits(node, caps)]
    tiles = [variant for variant in _TILES if variant.fits(node, caps)]
    sizes = sizes_of(node)
    rows = node.named["q"].tensor.shape.w * sizes.heads
    if caps.kind == "discrete" and rows < 64 * 256:
        # Too few blocks of 64 rows for every core: halve the rows of an invocation first.
        tiles.sort(key=lambda variant: variant.half is False or variant.per != 2)
    flash = [variant for variant in _FLASH if variant.fits(node, caps)]
    return [*flash, *matrix, *tiles, _ROWS]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, best first."""
    return {v.name: v.lower(node, caps) for v in choices(node, caps)}
