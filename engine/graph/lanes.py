"""Lane plans: a few buffers, so that no node reads and writes the same one.

WebGPU tracks hazards per whole buffer and refuses one that is bound for reading and for writing in
one dispatch. So values are coloured with lanes such that conflicting ones differ, and each lane is
an arena planned greedily by size. The colouring minimises the bytes of all lanes: several orders of
assignment are tried, then pairs of lanes exchange connected values while that saves memory.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from engine.graph.arena import extent, lowest_gap, offsets_in_order
from engine.graph.liveness import Lifetime, PlanError
from engine.graph.plan import Place, Plan, aligned, by_breadth, by_size, neighbours, offset_bound

SHAKEN = 4  # orders tried besides those with a reason
IMPROVED = 4  # assignments that exchanges are tried on
EXCHANGES = 400  # most exchanges tried; a bound on time, reached by large graphs only


@dataclass(frozen=True)
class _Problem:
    """Values by index: sizes, indexes largest first, those live together, those to keep apart."""

    sizes: Sequence[int]
    largest: Sequence[int]
    near: Sequence[Sequence[int]]
    apart: Sequence[set[int]]

    def offsets(self, lane: int, lane_of: Sequence[int]) -> dict[int, int]:
        """Offsets of the values of a lane, greedily by size."""
        members = [index for index in self.largest if lane_of[index] == lane]
        return offsets_in_order(members, self.sizes, self.near)

    def bytes_of(self, lane: int, lane_of: Sequence[int]) -> int:
        """Bytes of a lane."""
        return extent(self.offsets(lane, lane_of), self.sizes)


def plan_lanes(
    values: Sequence[Lifetime],
    conflicts: Iterable[tuple[Hashable, Hashable]],
    lanes: int = 4,
    alignment: int = 256,
) -> Plan:
    """The smallest plan found over at most ``lanes`` buffers that keeps conflicting pairs apart.

    The objects of the plan are the lanes, the largest first. Pairs with a key that is not among
    ``values`` are ignored (it has a buffer of its own). Raises PlanError when no assignment to so
    few lanes was found.
    """
    if lanes < 1:
        raise PlanError(f"A lane plan needs at least 1 lane, not {lanes}.")
    sizes = aligned(values, alignment)
    apart = _apart(values, conflicts)
    problem = _Problem(sizes, by_size(values, sizes), neighbours(values), apart)
    bound = offset_bound(values, sizes)
    orders = [problem.largest, by_breadth(values, sizes), range(len(values)), *_shaken(sizes)]
    coloured = _coloured(problem, orders, lanes, bound)
    if not coloured:
        raise PlanError(f"{len(values)} values with these conflicts do not fit in {lanes} lanes.")
    best = coloured[0]
    for lane_of in coloured:  # the smallest may be stuck where one a little larger is not
        better = _improve(problem, lane_of, lanes, bound)
        best = min(best, better, key=lambda each: _total(problem, each, lanes))
        if _total(problem, best, lanes) == bound:
            break
    return _plan(values, problem, best, bound)


def _shaken(sizes: Sequence[int]) -> list[list[int]]:
    """Orders by size where what is nearly as large may come first; the same at every call."""
    chance = random.Random(0)
    weights = [[size * chance.uniform(0.5, 1) for size in sizes] for _ in range(SHAKEN)]
    return [sorted(range(len(sizes)), key=lambda at: -weight[at]) for weight in weights]


def _total(problem: _Problem, lane_of: Sequence[int], lanes: int) -> int:
    return sum(problem.bytes_of(lane, lane_of) for lane in range(lanes))


def _coloured(
    problem: _Problem, orders: Sequence[Sequence[int]], lanes: int, bound: int
) -> list[list[int]]:
    """The best assignments of several orders and numbers of lanes, best first."""
    found: dict[tuple[int, ...], int] = {}
    for count, order, saturated in itertools.product(range(1, lanes + 1), orders, (False, True)):
        lane_of = _assign(problem, order, count, saturated)
        if lane_of is None:
            continue
        found[tuple(lane_of)] = _total(problem, lane_of, lanes)
        if found[tuple(lane_of)] == bound:
            break
    return [list(lane_of) for lane_of in sorted(found, key=found.__getitem__)[:IMPROVED]]


def _apart(
    values: Sequence[Lifetime], conflicts: Iterable[tuple[Hashable, Hashable]]
) -> list[set[int]]:
    index = {value.key: at for at, value in enumerate(values)}
    apart: list[set[int]] = [set() for _ in values]
    for a, b in conflicts:
        if a in index and b in index:
            if a == b:
                raise PlanError(f"{values[index[a]].label} cannot conflict with itself.")
            apart[index[a]].add(index[b])
            apart[index[b]].add(index[a])
    return apart


def _assign(
    problem: _Problem, order: Sequence[int], lanes: int, saturated: bool
) -> list[int] | None:
    """Give each value, in order, the allowed lane that grows least; None at a dead end.

    ``saturated``: a value with the fewest lanes left to it goes before the others.
    """
    sizes, lane_of, offsets = problem.sizes, [-1] * len(order), [0] * len(order)
    extents = [0] * lanes
    barred: list[set[int]] = [set() for _ in order]
    left = dict.fromkeys(order)
    while left:
        index = max(left, key=lambda i: len(barred[i])) if saturated else next(iter(left))
        del left[index]
        best: tuple[int, int, int] | None = None
        for lane in range(lanes):
            if lane in barred[index]:
                continue
            together = (other for other in problem.near[index] if lane_of[other] == lane)
            taken = [(offsets[other], offsets[other] + sizes[other]) for other in together]
            offset = lowest_gap(sizes[index], taken)
            growth = max(offset + sizes[index] - extents[lane], 0)
            best = min(best or (growth, lane, offset), (growth, lane, offset))
        if best is None:
            return None
        _, lane, offset = best
        lane_of[index], offsets[index] = lane, offset
        extents[lane] = max(extents[lane], offset + sizes[index])
        for other in problem.apart[index]:
            barred[other].add(lane)
    return lane_of


def _improve(problem: _Problem, lane_of: list[int], lanes: int, bound: int) -> list[int]:
    """Exchange connected values between two lanes while that lowers the total."""
    extents = [problem.bytes_of(lane, lane_of) for lane in range(lanes)]
    tries, improved = 0, True
    while improved and sum(extents) > bound:
        improved = False
        for index, to in _moves(problem, lane_of, extents):
            if tries >= EXCHANGES:
                return lane_of
            tries += 1
            source = lane_of[index]
            trial = _exchanged(problem, lane_of, index, to)
            after = (problem.bytes_of(source, trial), problem.bytes_of(to, trial))
            if sum(after) < extents[source] + extents[to]:
                lane_of, improved = trial, True
                extents[source], extents[to] = after
                break
    return lane_of


def _moves(
    problem: _Problem, lane_of: Sequence[int], extents: Sequence[int]
) -> list[tuple[int, int]]:
    """Values that reach the end of their lane, each with every lane that it could go to."""
    moves: list[tuple[int, int]] = []
    for lane, end in enumerate(extents):
        offsets = problem.offsets(lane, lane_of)
        edge = [index for index, at in offsets.items() if at + problem.sizes[index] == end]
        moves += [(index, to) for index in edge for to in range(len(extents)) if to != lane]
    return sorted(moves, key=lambda move: -problem.sizes[move[0]])


def _exchanged(problem: _Problem, lane_of: Sequence[int], index: int, to: int) -> list[int]:
    """The assignment after a value and all that it drags along changed between two lanes."""
    pair = {lane_of[index], to}
    moved, queue = {index}, [index]
    while queue:
        for other in problem.apart[queue.pop()]:
            if other not in moved and lane_of[other] in pair:
                moved.add(other)
                queue.append(other)
    swap = sum(pair)
    return [swap - lane if at in moved else lane for at, lane in enumerate(lane_of)]


def _plan(
    values: Sequence[Lifetime], problem: _Problem, lane_of: Sequence[int], bound: int
) -> Plan:
    used = sorted(set(lane_of), key=lambda lane: -problem.bytes_of(lane, lane_of))
    places: dict[Hashable, Place] = {}
    for number, lane in enumerate(used):
        for index, offset in problem.offsets(lane, lane_of).items():
            places[values[index].key] = Place(number, offset)
    sizes = tuple(problem.bytes_of(lane, lane_of) for lane in used)
    return Plan(f"{len(used)} lanes", sizes, places, bound, sum(problem.sizes))
