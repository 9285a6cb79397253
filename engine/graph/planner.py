"""Memory planning in one place: the strategies by name, and the best of them.

Pure functions from lifetimes to places; what allocates is elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence

from engine.graph.arena import arena_by_breadth, arena_by_size
from engine.graph.lanes import plan_lanes
from engine.graph.liveness import Lifetime, PlanError
from engine.graph.plan import Place, Plan, aligned, check_plan, offset_bound
from engine.graph.shared_objects import (
    objects_by_breadth,
    objects_by_size,
    objects_by_size_improved,
)

__all__ = [
    "STRATEGIES",
    "Place",
    "Plan",
    "PlanError",
    "best_plan",
    "check_plan",
    "plan_lanes",
    "shared_sizes",
    "unplanned",
]

Strategy = Callable[[Sequence[Lifetime], int], Plan]

STRATEGIES: dict[str, Strategy] = {
    "arena_by_size": arena_by_size,
    "arena_by_breadth": arena_by_breadth,
    "objects_by_size": objects_by_size,
    "objects_by_breadth": objects_by_breadth,
    "objects_by_size_improved": objects_by_size_improved,
}


def best_plan(
    values: Sequence[Lifetime],
    alignment: int = 256,
    strategies: Collection[str] = tuple(STRATEGIES),
) -> Plan:
    """The plan with fewest bytes of the named strategies (the first of equals).

    Raises PlanError for an unknown name.
    """
    unknown = sorted(set(strategies) - STRATEGIES.keys())
    if unknown or not strategies:
        asked = f'"{unknown[0]}"' if unknown else "nothing"
        raise PlanError(f"There is no strategy {asked}; known: {', '.join(STRATEGIES)}.")
    plans = [STRATEGIES[name](values, alignment) for name in STRATEGIES if name in strategies]
    return min(plans, key=lambda plan: plan.total)


def unplanned(values: Sequence[Lifetime], alignment: int = 256) -> Plan:
    """Every value in an object of its own: what runs when planning is switched off."""
    sizes = tuple(aligned(values, alignment))
    places = {value.key: Place(index, 0) for index, value in enumerate(values)}
    return Plan("unplanned", sizes, places, offset_bound(values, sizes), sum(sizes))


def shared_sizes(plans: Iterable[Plan]) -> tuple[int, ...]:
    """Object sizes that hold any one of the plans at a time, for models that run in turn.

    Object i of every plan lies in object i of these.
    """
    columns = itertools.zip_longest(*(plan.sizes for plan in plans), fillvalue=0)
    return tuple(max(column) for column in columns)
