"""The op ``sample``: the next token from the logits, wholly on the GPU, in three dispatches.

The arithmetic is that of ``engine.text.sampling.sample_reference``. Settings, seed and counters lie
in buffers (:mod:`engine.kernels.state`), so nothing is compiled when they change, and the list is
the same for greedy and random choice: for greedy the second kernel has nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.gpu.capabilities import Capabilities
from engine.graph.node import GraphError, Node, Role, Value
from engine.kernels import state as run_state
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import power_of_two
from engine.tensor.descriptor import DType, Shape, TensorDesc, round_up


@dataclass(frozen=True)
class Variant:
    """Segments of the vocabulary, and invocations of the kernels' workgroups."""

    segments: int
    size: int
    pick_size: int

    @property
    def name(self) -> str:
        """Names it in tuning results."""
        return f"segments{self.segments}x{self.size}p{self.pick_size}"


def choices(node: Node, caps: Capabilities) -> list[Variant]:
    """The variants allowed for a node on this device, best first."""
    vocabulary = node.named["logits"].tensor.shape.c
    most = max(1, -(-vocabulary // 64))
    if caps.software:
        return [Variant(min(64, most), 8, 8), Variant(min(256, most), 64, 256)]
    size = max(32, min(128, power_of_two(vocabulary // 4 // min(256, most))))
    found = [Variant(min(256, most), size, 256), Variant(min(128, most), 128, 256)]
    return list(dict.fromkeys(found))


def lower(node: Node, caps: Capabilities, variant: Variant | None = None) -> list[Dispatch]:
    """Three dispatches and two scratch values with the role activation.

    Inputs of the node: logits, history, params, state, and optionally stops and ring (u32 buffers
    of any length). A history of ``state.history_words(V)`` words forgets tokens that are older than
    the window; one of V words never forgets. The attribute ``sequence_max`` (optional) is the
    context size, at which the STOP word is set.

    Raises:
        GraphError: a history of another size.
    """
    chosen = variant or choices(node, caps)[0]
    logits = node.named["logits"].tensor.shape
    length = round_up(-(-logits.c // chosen.segments), 4)
    common = {
        "param_words": run_state.PARAM_WGSL,
        "vocabulary": logits.c,
        "slices": logits.slices,
        "segments": chosen.segments,
        "length": length,
        "size": chosen.size,
    }
    name = node.named["logits"].name
    maxima = _scratch(f"{name}.maxima", 4 * chosen.segments)
    candidates = _scratch(f"{name}.candidates", 2 * chosen.segments * (1 + length))
    read = {part: Bind(part, node.named[part], raw="array<u32>") for part in ("history", "params")}
    entry = (Bind("logits", node.named["logits"]), read["history"], read["params"])
    grid = (chosen.segments, 1, 1)
    wide, pair = "array<vec4<u32>>", "array<vec2<u32>>"
    first = Dispatch(
        "sample/maxima.wgsl",
        common,
        (*entry, Bind("maxima", maxima, Access.WRITE, wide)),
        grid,
        "sample_maxima",
    )
    second = Dispatch(
        "sample/candidates.wgsl",
        common,
        (
            *entry,
            Bind("maxima", maxima, raw=wide),
            Bind("candidates", candidates, Access.WRITE, pair),
        ),
        grid,
        "sample_candidates",
    )
    binds = (
        Bind("maxima", maxima, raw=wide),
        Bind("candidates", candidates, raw=pair),
        read["params"],
        *_changed(node),
    )
    params = common | _pick_params(node) | {"size": chosen.pick_size}
    return [first, second, Dispatch("sample/pick.wgsl", params, binds, (1, 1, 1), "sample_pick")]


def _scratch(name: str, words: int) -> Value:
    return Value(name, TensorDesc(Shape(c=words), DType.U32), Role.ACTIVATION)


def _changed(node: Node) -> list[Bind]:
    named = node.named
    binds = [
        Bind(part, named[part], Access.READ_WRITE, "array<u32>") for part in ("history", "state")
    ]
    if "stops" in named:
        binds.append(Bind("stops", named["stops"], raw="array<u32>"))
    if "ring" in named:
        binds.append(Bind("ring", named["ring"], Access.WRITE, "array<u32>"))
    return binds


def _pick_params(node: Node) -> dict[str, Any]:
    named = node.named
    vocabulary = named["logits"].tensor.shape.c
    window = named["history"].tensor.shape.elements - vocabulary
    if window not in (0, run_state.HISTORY_WINDOW):
        whole = run_state.history_words(vocabulary)
        raise GraphError(
            f"The sampler's history needs {vocabulary} words, or {whole} to forget old tokens, "
            f"not {vocabulary + window}."
        )
    sizes = {part: named[part].tensor.shape.elements for part in ("stops", "ring") if part in named}
    return {
        "state_words": run_state.STATE_WGSL,
        "window": window,
        "stops": sizes.get("stops", 0),
        "ring": sizes.get("ring", 0),
        "positions": node.attrs.get("sequence_max"),
    }


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every allowed variant by name, for tests, the self-test and the tuner."""
    return {v.name: lower(node, caps, v) for v in choices(node, caps)}
