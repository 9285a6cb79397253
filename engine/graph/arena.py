"""Offset plans: every value at a fixed offset within one arena."""

from __future__ import annotations

from collections.abc import Sequence

from engine.graph.liveness import Lifetime
from engine.graph.plan import Place, Plan, aligned, by_breadth, by_size, neighbours, offset_bound


def lowest_gap(size: int, taken: Sequence[tuple[int, int]]) -> int:
    """The offset of the tightest gap of at least ``size`` bytes below or between taken ranges.

    ``taken`` are (start, end) ranges in any order; without a gap, the end of the last one.
    """
    best, best_room, end = -1, 0, 0
    for start, stop in sorted(taken):
        room = start - end
        if room >= size and (best < 0 or room < best_room):
            best, best_room = end, room
        end = max(end, stop)
    return best if best >= 0 else end


def offsets_in_order(
    order: Sequence[int], sizes: Sequence[int], near: Sequence[Sequence[int]]
) -> dict[int, int]:
    """Offsets of the values in ``order``, each in the tightest gap that those before it leave.

    ``near`` lists, for each value, those that are in memory together with it.
    """
    offsets: dict[int, int] = {}
    for index in order:
        taken = [(offsets[o], offsets[o] + sizes[o]) for o in near[index] if o in offsets]
        offsets[index] = lowest_gap(sizes[index], taken)
    return offsets


def extent(offsets: dict[int, int], sizes: Sequence[int]) -> int:
    """Bytes from the start of the arena to the end of the last value."""
    return max((offset + sizes[index] for index, offset in offsets.items()), default=0)


def arena_by_size(values: Sequence[Lifetime], alignment: int = 1) -> Plan:
    """Greedy by size: the largest values take their offsets first."""
    sizes = aligned(values, alignment)
    return _plan("arena by size", values, sizes, by_size(values, sizes))


def arena_by_breadth(values: Sequence[Lifetime], alignment: int = 1) -> Plan:
    """Greedy by breadth: the values of the node with most live bytes take their offsets first."""
    sizes = aligned(values, alignment)
    return _plan("arena by breadth", values, sizes, by_breadth(values, sizes))


def _plan(
    strategy: str, values: Sequence[Lifetime], sizes: Sequence[int], order: Sequence[int]
) -> Plan:
    offsets = offsets_in_order(order, sizes, neighbours(values))
    places = {values[index].key: Place(0, offset) for index, offset in offsets.items()}
    objects = (extent(offsets, sizes),) if values else ()
    return Plan(strategy, objects, places, offset_bound(values, sizes), sum(sizes))
