"""A graph, compiled: fused, lowered to dispatches, planned, bound, ready to replay.

Several programs (prefill chunks of different sizes, decode) run one after the other over the same
weights and caches, so they share one arena: its lanes are as large as the largest of them needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.gpu.capabilities import Capabilities
from engine.gpu.commands import CommandList
from engine.gpu.device import Buffer, Device
from engine.gpu.errors import GpuError
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import BufferRange
from engine.graph.fuse import REWRITES, fuse
from engine.graph.graph import Graph
from engine.graph.liveness import Lifetime
from engine.graph.node import Role, Value
from engine.graph.planner import Plan, plan_lanes, shared_sizes, unplanned
from engine.kernels.base import Access, Dispatch
from engine.kernels.registry import lower
from engine.kernels.run import Store, prepare

#: Buffers of an arena. WebGPU tracks hazards per whole buffer: with fewer, neighbours serialise.
LANES = 4


@dataclass(frozen=True)
class Lowered:
    """A fused graph as dispatches, with a place for every value that lives inside one run."""

    name: str
    dispatches: tuple[Dispatch, ...]
    plan: Plan


@dataclass(frozen=True)
class Program:
    """A compiled graph: replay ``commands``."""

    name: str
    commands: CommandList
    dispatches: tuple[Dispatch, ...]


class Arena:
    """The buffers that hold the activations of all programs of a model, one program at a time."""

    def __init__(self, device: Device, plans: Sequence[Plan]) -> None:
        self.sizes = shared_sizes(plans)
        self._buffers: list[Buffer] = []
        try:
            for size in self.sizes:
                self._buffers.append(device.create_buffer(size, Purpose.ACTIVATIONS))
        except GpuError:
            self.destroy()
            raise

    def place(self, plan: Plan, value: Value) -> BufferRange:
        """The range of a planned value."""
        place = plan.places[value]
        return BufferRange(self._buffers[place.object], place.offset, _padded(value.nbytes))

    def destroy(self) -> None:
        """Give the memory back."""
        for buffer in self._buffers:
            buffer.destroy()


def lower_graph(graph: Graph, caps: Capabilities) -> Lowered:
    """Fuse, choose kernels, and plan the memory of one graph.

    The switches "fusion" and "planner" of ``caps.without`` are honoured here.
    """
    graph.check()
    fused = fuse(graph, without=REWRITES if "fusion" in caps.without else ())
    dispatches = [dispatch for node in fused.nodes for dispatch in lower(node, caps)]
    values = dispatch_lifetimes(dispatches)
    alignment = max(256, caps.limits.offset_alignment)
    if "planner" in caps.without:
        plan = unplanned(values, alignment)
    else:
        plan = plan_lanes(values, dispatch_conflicts(dispatches), LANES, alignment)
    return Lowered(graph.name, tuple(dispatches), plan)


def dispatch_lifetimes(dispatches: Sequence[Dispatch]) -> list[Lifetime]:
    """From the first to the last dispatch that binds each activation."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for index, dispatch in enumerate(dispatches):
        for bind in dispatch.binds:
            if bind.value.role is Role.ACTIVATION:
                first.setdefault(bind.value, index)
                last[bind.value] = index
    return [Lifetime(value, _padded(value.nbytes), at, last[value]) for value, at in first.items()]


def dispatch_conflicts(dispatches: Sequence[Dispatch]) -> list[tuple[Value, Value]]:
    """Pairs (read, written) that one dispatch binds, which must lie in different buffers."""
    pairs: dict[tuple[Value, Value], None] = {}
    for dispatch in dispatches:
        written = [b.value for b in dispatch.binds if b.access is not Access.READ]
        read = [b.value for b in dispatch.binds if b.access is Access.READ]
        for target in written:
            for source in read:
                if {source.role, target.role} == {Role.ACTIVATION} and source is not target:
                    pairs[source, target] = None
    return list(pairs)


def _padded(nbytes: int) -> int:
    return (nbytes + 15) & ~15


def build(device: Device, lowered: Lowered, arena: Arena, store: Store) -> Program:
    """Compile the shaders and bind everything.

    Args:
        store: weights, caches, state, inputs and outputs; activations are added to it here.

    Raises:
        ShaderError: a shader does not compile, or a binding does not fit.
    """
    tensors = dict(store.tensors)
    for value in lowered.plan.places:
        if isinstance(value, Value):
            tensors[value] = arena.place(lowered.plan, value)
    commands = prepare(device, lowered.dispatches, Store(tensors, store.weights))
    return Program(lowered.name, commands, lowered.dispatches)
