"""The listing of a graph."""

from engine.graph.describe import describe
from engine.graph.fuse import fuse
from engine.graph.liveness import conflicts, lifetimes
from engine.graph.planner import plan_lanes


def test_a_listing_has_a_line_a_node_and_the_bytes_by_role(llama):
    graph = llama(1, layers=1)
    lines = describe(graph).splitlines()
    assert lines[0] == "decode: 15 nodes"
    assert lines[1] == (
        "   0  embedding.0 [1, 576] f32 = embedding(tokens=tokens, "
        "weight=token_embd.weight [49152, 576] q4_0)"
    )
    assert "k_cache=&k.0" in lines[4]  # & marks what a node changes in place
    assert lines[-1] == "state: 2 values, 8,256 bytes"


def test_fused_attributes_and_expressions_are_shown(random_graph):
    text = "".join(describe(fuse(random_graph(seed))) for seed in range(20))
    assert "norm_eps=1e-05" in text
    assert "gated=silu" in text
    assert "{e0 = " in text


def test_with_a_plan_the_places_are_shown(llama):
    graph = fuse(llama(1, layers=1))
    text = describe(graph, plan_lanes(lifetimes(graph), conflicts(graph)))
    assert "embedding.0 [1, 576] f32 @" in text
    assert "plan: 3 lanes: 12,288 bytes" in text
