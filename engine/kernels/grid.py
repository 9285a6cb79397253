"""Workgroup counts: WebGPU allows 65,535 a dimension, so long runs are folded into two."""

from __future__ import annotations

from engine.gpu.capabilities import Capabilities


def fold(workgroups: int, caps: Capabilities) -> tuple[int, int, int]:
    """A grid of at least ``workgroups`` groups; the flat index is ``id.x + id.y * grid[0]``.

    Groups past the end exist where the fold is not exact: a kernel checks its index.
    """
    limit = caps.limits.workgroups
    if workgroups <= limit:
        return (max(workgroups, 1), 1, 1)
    rows = -(-workgroups // limit)
    return (-(-workgroups // rows), rows, 1)


def power_of_two(value: int) -> int:
    """The largest power of two that is at most ``value`` (at least 1)."""
    return 1 << (max(value, 1).bit_length() - 1)
