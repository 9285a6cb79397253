"""A memory plan, the lower bounds it is measured against, and the check that it is valid.

Sizes are rounded up to the alignment everywhere, in plans, bounds and the unplanned sum alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.graph.liveness import Lifetime, PlanError
from engine.tensor.descriptor import round_up


@dataclass(frozen=True)
class Place:
    """Where a value lies: which memory object, and bytes from its start."""

    object: int
    offset: int


@dataclass(frozen=True)
class Plan:
    """Memory objects of ``sizes`` bytes and the place of every value in them.

    ``lower_bound`` is the least that any plan of its kind can take, ``unplanned`` what the values
    take when each has memory of its own; both in bytes.
    """

    strategy: str
    sizes: tuple[int, ...]
    places: Mapping[Hashable, Place]
    lower_bound: int
    unplanned: int

    @property
    def total(self) -> int:
        """Bytes of all objects."""
        return sum(self.sizes)

    def summary(self) -> str:
        """One line: bytes, objects, the bound and what planning saved."""
        over = self.total / self.lower_bound - 1 if self.lower_bound else 0.0
        return (
            f"{self.strategy}: {self.total:,} bytes in {len(self.sizes)} object(s), "
            f"{over:.1%} over the lower bound {self.lower_bound:,}, unplanned {self.unplanned:,}"
        )


def aligned(values: Sequence[Lifetime], alignment: int) -> list[int]:
    """Sizes rounded up to the alignment; PlanError for a bad alignment or a key met twice."""
    if alignment < 1:
        raise PlanError(f"The alignment of a plan must be at least 1 byte, not {alignment}.")
    seen: set[Hashable] = set()
    for value in values:
        if value.key in seen:
            raise PlanError(f"{value.label} has two lifetimes in one plan.")
        seen.add(value.key)
    return [round_up(value.nbytes, alignment) for value in values]


def profiles(values: Sequence[Lifetime]) -> list[list[int]]:
    """For each node at which anything is live, the indexes of the live values."""
    live: dict[int, list[int]] = {}
    for index, value in enumerate(values):
        for at in range(value.first, value.last + 1):
            live.setdefault(at, []).append(index)
    return [live[at] for at in sorted(live)]


def neighbours(values: Sequence[Lifetime]) -> list[list[int]]:
    """For each value, the indexes of the other values that are in memory together with it."""
    near: list[list[int]] = [[] for _ in values]
    active: list[int] = []
    for index in sorted(range(len(values)), key=lambda i: values[i].first):
        active = [other for other in active if values[other].last >= values[index].first]
        for other in active:
            near[other].append(index)
        near[index] += active
        active.append(index)
    return near


def by_size(values: Sequence[Lifetime], sizes: Sequence[int]) -> list[int]:
    """Indexes of the values, the largest first; equal ones in the order in which they appear."""
    return sorted(range(len(values)), key=lambda i: (-sizes[i], values[i].first))


def by_breadth(values: Sequence[Lifetime], sizes: Sequence[int]) -> list[int]:
    """Indexes, those live at the node with most live bytes first; at a node the largest first."""
    widest = sorted(profiles(values), key=lambda live: -sum(sizes[i] for i in live))
    ordered = (sorted(live, key=lambda i: (-sizes[i], values[i].first)) for live in widest)
    return list(dict.fromkeys(itertools.chain.from_iterable(ordered)))


def offset_bound(values: Sequence[Lifetime], sizes: Sequence[int]) -> int:
    """The most bytes live at one node: no plan of any kind takes less."""
    return max((sum(sizes[i] for i in live) for live in profiles(values)), default=0)


def shared_bound(values: Sequence[Lifetime], sizes: Sequence[int]) -> int:
    """Sum of the positional maxima: no plan that gives every value a whole object takes less."""
    return sum(positional_maxima(values, sizes))


def positional_maxima(values: Sequence[Lifetime], sizes: Sequence[int]) -> list[int]:
    """Over all nodes, the largest of the largest live values, of the second largest, and so on."""
    maxima: list[int] = []
    for live in profiles(values):
        for position, size in enumerate(sorted((sizes[i] for i in live), reverse=True)):
            if position == len(maxima):
                maxima.append(size)
            maxima[position] = max(maxima[position], size)
    return maxima


def check_plan(
    values: Sequence[Lifetime],
    plan: Plan,
    alignment: int = 1,
    conflicts: Iterable[tuple[Hashable, Hashable]] = (),
) -> None:
    """Raise PlanError unless every value has a place that no other value overwrites.

    Also checks alignment, the ends of the objects, and that conflicting pairs lie apart.
    """
    for value in values:
        place = plan.places.get(value.key)
        if place is None or not 0 <= place.object < len(plan.sizes):
            raise PlanError(f"{value.label} has no place in the plan.")
        if place.offset % alignment or place.offset < 0:
            raise PlanError(f"{value.label} lies at {place.offset}, off {alignment} bytes.")
        if place.offset + value.nbytes > plan.sizes[place.object]:
            raise PlanError(f"{value.label} ends after its object of {plan.sizes[place.object]}.")
    for index, near in enumerate(neighbours(values)):
        for other in near:
            if other > index and _collide(values[index], values[other], plan):
                raise PlanError(
                    f"{values[index].label} and {values[other].label} are in memory together "
                    "and share bytes."
                )
    for read, written in conflicts:
        if plan.places[read].object == plan.places[written].object:
            raise PlanError(f"A node reads {read} and writes {written} in one memory object.")


def _collide(a: Lifetime, b: Lifetime, plan: Plan) -> bool:
    at, to = plan.places[a.key], plan.places[b.key]
    if at.object != to.object:
        return False
    return at.offset < to.offset + b.nbytes and to.offset < at.offset + a.nbytes
