"""Memory plans: valid for any lifetimes, never below their bound, optimal where it is known."""

import random
from collections.abc import Sequence

import pytest

from engine.graph.fuse import fuse
from engine.graph.liveness import Lifetime, PlanError, lifetimes
from engine.graph.plan import Place, Plan, aligned, offset_bound, shared_bound
from engine.graph.planner import STRATEGIES, best_plan, check_plan, shared_sizes, unplanned

ARENA = ["arena_by_size", "arena_by_breadth"]
OBJECTS = ["objects_by_size", "objects_by_breadth", "objects_by_size_improved"]


def lives(*spans: tuple[int, int, int]) -> list[Lifetime]:
    """Lifetimes a, b, c, ... from (bytes, first, last)."""
    return [Lifetime(chr(97 + i), *span) for i, span in enumerate(spans)]


def random_lives(seed: int) -> list[Lifetime]:
    rng = random.Random(seed)
    values: list[Lifetime] = []
    for index in range(rng.randint(1, 60)):
        first = rng.randint(0, 40)
        last = first + (rng.randint(0, 3) if rng.random() < 0.8 else rng.randint(0, 30))
        size = rng.choice([rng.randint(1, 5000), 1024, 4096])
        values.append(Lifetime(index, size, first, last))
    return values


def brute_check(values: Sequence[Lifetime], plan: Plan) -> None:
    """No two values that are live together share a byte (its own arithmetic, not check_plan's)."""
    for i, a in enumerate(values):
        for b in values[:i]:
            pa, pb = plan.places[a.key], plan.places[b.key]
            if pa.object == pb.object and a.first <= b.last and b.first <= a.last:
                assert pa.offset + a.nbytes <= pb.offset or pb.offset + b.nbytes <= pa.offset


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("alignment", [1, 32, 256])
def test_plans_of_random_lifetimes_are_valid_and_within_their_bounds(name: str, alignment: int):
    for seed in range(40):
        values = random_lives(seed)
        plan = STRATEGIES[name](values, alignment)
        brute_check(values, plan)
        check_plan(values, plan, alignment)
        assert plan.lower_bound <= plan.total <= plan.unplanned


@pytest.mark.parametrize("name", STRATEGIES)
def test_plans_of_random_graphs_are_valid(name: str, random_graph):
    for seed in range(20):
        values = lifetimes(random_graph(seed, rows=seed + 1, length=60))
        plan = STRATEGIES[name](values, 256)
        brute_check(values, plan)
        assert plan.lower_bound <= plan.total <= plan.unplanned


def test_bounds_by_hand():
    # live bytes: node 0: a; 1: a, b; 2: b, c; 3: c, d
    values = lives((10, 0, 1), (30, 1, 2), (20, 2, 3), (25, 3, 3))
    sizes = aligned(values, 1)
    assert offset_bound(values, sizes) == 30 + 20
    assert shared_bound(values, sizes) == 30 + 20  # largest: 30; second largest: 10, 20, 20
    assert offset_bound(values, aligned(values, 32)) == 64


def test_shared_objects_need_more_than_offsets_when_sizes_differ():
    # two of 50 together, then one of 100 alone: 100 bytes at offsets, 150 in whole objects
    values = lives((50, 0, 0), (50, 0, 0), (100, 1, 1))
    assert shared_bound(values, aligned(values, 1)) == 150
    assert {STRATEGIES[name](values, 1).total for name in ARENA} == {100}
    assert {STRATEGIES[name](values, 1).total for name in OBJECTS} == {150}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_chain_alternates_between_two_places(name: str):
    values = lives(*((64, at, at + 1) for at in range(9)))
    assert STRATEGIES[name](values, 32).total == 128


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_residual_around_a_chain_takes_three_places(name: str):
    values = lives((64, 0, 4), (64, 1, 2), (64, 2, 3), (64, 3, 4))
    assert STRATEGIES[name](values, 32).total == 192


@pytest.mark.parametrize("name", STRATEGIES)
def test_values_all_live_together_save_nothing(name: str):
    plan = STRATEGIES[name](lives((10, 0, 5), (20, 0, 5), (30, 0, 5)), 1)
    assert plan.total == plan.unplanned == plan.lower_bound == 60


@pytest.mark.parametrize("name", STRATEGIES)
def test_nothing_to_plan(name: str):
    plan = STRATEGIES[name]([], 256)
    assert (plan.total, plan.sizes, plan.lower_bound) == (0, (), 0)


def test_a_freed_gap_is_taken_by_the_value_that_fits_it_best():
    # a and c leave gaps of 40 and 20 below b and d; e (20) must choose the tighter one
    values = lives((100, 0, 9), (40, 0, 2), (90, 0, 9), (20, 0, 2), (80, 0, 9), (20, 5, 6))
    plan = STRATEGIES["arena_by_size"](values, 1)
    check_plan(values, plan)
    assert plan.total == plan.lower_bound == 330


def test_by_size_takes_the_smallest_object_that_fits():
    plan = STRATEGIES["objects_by_size"](lives((100, 0, 0), (50, 0, 0), (40, 2, 2)), 1)
    assert plan.places["c"] == Place(1, 0)


def test_by_breadth_enlarges_an_object_rather_than_adding_one():
    # node 0 is broadest (60 + 60); the lone 100 comes later and grows one of its objects
    plan = STRATEGIES["objects_by_breadth"](lives((60, 0, 0), (60, 0, 0), (100, 2, 2)), 1)
    assert sorted(plan.sizes) == [60, 100]


def test_improved_by_size_prefers_the_smallest_idle_time():
    # b then d, and a then c, follow each other at once; the plain order would pair a with b's slot
    values = lives((64, 0, 1), (64, 0, 5), (64, 6, 7), (64, 2, 7))
    plan = STRATEGIES["objects_by_size_improved"](values, 1)
    assert plan.places["a"].object == plan.places["d"].object
    assert plan.places["b"].object == plan.places["c"].object
    assert plan.total == plan.lower_bound == 128


def test_the_best_plan_is_no_larger_than_any_strategy(random_graph):
    for seed in range(10):
        values = lifetimes(random_graph(seed, rows=4, length=50))
        best = best_plan(values, 32)
        assert best.total == min(plan(values, 32).total for plan in STRATEGIES.values())


def test_the_best_plan_of_some_strategies():
    values = lives((50, 0, 0), (50, 0, 0), (100, 1, 1))
    assert best_plan(values, 1).total == 100
    assert best_plan(values, 1, OBJECTS).total == 150


@pytest.mark.parametrize("layers", [4, 30])
@pytest.mark.parametrize("tokens", [1, 512])
@pytest.mark.parametrize("fused", [False, True])
def test_llama_graphs_reach_the_lower_bound(layers: int, tokens: int, fused: bool, llama):
    graph = llama(tokens, layers=layers)
    values = lifetimes(fuse(graph) if fused else graph)
    plan = best_plan(values, 256)
    check_plan(values, plan, 256)
    assert plan.total == plan.lower_bound
    assert plan.total * layers < plan.unplanned * 2


def test_llama_prefill_by_hand(llama):
    # fused, the broadest node is gate and up: residual, norm and the gated product of 512 tokens
    values = lifetimes(fuse(llama(512, layers=30)))
    assert best_plan(values).total == 512 * 4 * (576 + 576 + 1536)


def test_unplanned_gives_every_value_its_own_object():
    values = lives((10, 0, 0), (20, 3, 3))
    plan = unplanned(values, 32)
    check_plan(values, plan, 32)
    assert (plan.sizes, plan.unplanned, plan.lower_bound) == ((32, 32), 64, 32)


def test_models_that_run_in_turn_share_the_largest_of_each_object():
    plans = [Plan("p", sizes, {}, 0, 0) for sizes in [(8, 4), (6, 5, 1), ()]]
    assert shared_sizes(plans) == (8, 5, 1)
    assert shared_sizes([]) == ()


def test_a_summary_says_bytes_bound_and_saving():
    text = best_plan(lives((1000, 0, 1), (1000, 1, 2), (1000, 2, 3)), 1).summary()
    assert text == (
        "arena by size: 2,000 bytes in 1 object(s), 0.0% over the lower bound 2,000, "
        "unplanned 3,000"
    )


def refused(sentence: str):
    return pytest.raises(PlanError, match=sentence)


def test_bad_requests_are_refused():
    with refused("at least 1 byte, not 0"):
        best_plan(lives((8, 0, 0)), 0)
    with refused("a has two lifetimes"):
        best_plan(lives((8, 0, 0)) * 2)
    with refused('no strategy "fastest"; known: arena_by_size'):
        best_plan([], strategies=["fastest"])
    with refused("no strategy nothing"):
        best_plan([], strategies=[])


@pytest.mark.parametrize(
    ("places", "sentence"),
    [
        ({"a": Place(0, 0)}, "b has no place"),
        ({"a": Place(0, 0), "b": Place(1, 0)}, "b has no place"),
        ({"a": Place(0, 0), "b": Place(0, 4)}, "b lies at 4, off 8 bytes"),
        ({"a": Place(0, 0), "b": Place(0, 16)}, "b ends after its object of 16"),
        ({"a": Place(0, 0), "b": Place(0, 0)}, "a and b are in memory together and share bytes"),
    ],
)
def test_a_broken_plan_is_found(places: dict[str, Place], sentence: str):
    with refused(sentence):
        check_plan(lives((8, 0, 1), (8, 1, 2)), Plan("p", (16,), places, 0, 0), 8)
