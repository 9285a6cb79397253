"""Shared-object plans: every value has a whole object, which later values use again.

What textures need, since a texture cannot hold two tensors at offsets.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from engine.graph.liveness import Lifetime
from engine.graph.plan import (
    Place,
    Plan,
    aligned,
    by_breadth,
    by_size,
    positional_maxima,
    shared_bound,
)


class _Objects:
    """Objects while they are being filled: their sizes and the intervals in which each is used."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.places: dict[int, int] = {}  # index of the value -> object
        self._used: list[list[tuple[int, int]]] = []

    def gap(self, target: int, value: Lifetime) -> int | None:
        """Nodes between ``value`` and the nearest use of the object, None while it is in use."""
        used = self._used[target]
        at = bisect.bisect(used, (value.first, value.last))
        before = value.first - used[at - 1][1] if at > 0 else None
        after = used[at][0] - value.last if at < len(used) else None
        gaps = [gap for gap in (before, after) if gap is not None]
        return min(gaps) if gaps and min(gaps) > 0 else None

    def put(self, index: int, value: Lifetime, size: int, target: int | None) -> int:
        """Put a value into an object, which grows if need be, or into a new one (None)."""
        if target is None:
            target = len(self.sizes)
            self.sizes.append(0)
            self._used.append([])
        self.sizes[target] = max(self.sizes[target], size)
        bisect.insort(self._used[target], (value.first, value.last))
        self.places[index] = target
        return target

    def best_fit(self, value: Lifetime, size: int) -> int | None:
        """The smallest free object that is large enough, else the largest free one, else None."""
        free = [at for at in range(len(self.sizes)) if self.gap(at, value) is not None]
        fitting = [at for at in free if self.sizes[at] >= size]
        if fitting:
            return min(fitting, key=lambda at: self.sizes[at])
        return max(free, key=lambda at: self.sizes[at], default=None)


def objects_by_size(values: Sequence[Lifetime], alignment: int = 1) -> Plan:
    """Greedy by size: the largest values choose first, each the smallest object that fits."""
    sizes = aligned(values, alignment)
    return _fill("shared objects by size", values, sizes, by_size(values, sizes))


def objects_by_breadth(values: Sequence[Lifetime], alignment: int = 1) -> Plan:
    """Greedy by breadth: the values of the node with most live bytes choose first."""
    sizes = aligned(values, alignment)
    return _fill("shared objects by breadth", values, sizes, by_breadth(values, sizes))


def _fill(
    strategy: str, values: Sequence[Lifetime], sizes: Sequence[int], order: Sequence[int]
) -> Plan:
    objects = _Objects()
    for index in order:
        target = objects.best_fit(values[index], sizes[index])
        objects.put(index, values[index], sizes[index], target)
    return _plan(strategy, values, sizes, objects)


def objects_by_size_improved(values: Sequence[Lifetime], alignment: int = 1) -> Plan:
    """Greedy by size in stages that the positional maxima bound; within a stage the pair of value
    and object with the smallest idle time between them goes first.
    """
    sizes = aligned(values, alignment)
    maxima = positional_maxima(values, sizes)
    stages: dict[tuple[int, bool], list[int]] = {}
    for index in by_size(values, sizes):
        stage = (sum(size > sizes[index] for size in maxima), sizes[index] in maxima)
        stages.setdefault(stage, []).append(index)
    objects = _Objects()
    for _, stage in sorted(stages.items()):
        _fill_stage(values, sizes, stage, objects)
    return _plan("shared objects by size, improved", values, sizes, objects)


def _fill_stage(
    values: Sequence[Lifetime], sizes: Sequence[int], stage: Sequence[int], objects: _Objects
) -> None:
    """Place the values of one stage (largest first); none is larger than the objects it meets."""
    gaps = {
        index: {
            at: gap
            for at in range(len(objects.sizes))
            if (gap := objects.gap(at, values[index])) is not None
        }
        for index in stage
    }
    while gaps:
        pairs = [(gap, -sizes[i], i, at) for i, row in gaps.items() for at, gap in row.items()]
        _, _, index, chosen = min(pairs) if pairs else (0, 0, next(iter(gaps)), None)
        target = objects.put(index, values[index], sizes[index], chosen)
        del gaps[index]
        for other, row in gaps.items():
            row.pop(target, None)
            if (gap := objects.gap(target, values[other])) is not None:
                row[target] = gap


def _plan(
    strategy: str, values: Sequence[Lifetime], sizes: Sequence[int], objects: _Objects
) -> Plan:
    places = {values[index].key: Place(at, 0) for index, at in objects.places.items()}
    bound = shared_bound(values, sizes)
    return Plan(strategy, tuple(objects.sizes), places, bound, sum(sizes))
