"""One planned arena for the programs of all networks, which run one after the other.

Programs are registered as graphs, planned at once, and built (compiled and bound) at first use.
When a program needs more than the arena has, the arena is made anew and programs are bound again;
compiled pipelines stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import BufferRange
from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.graph.planner import Plan, shared_sizes
from engine.image.runner_costs import dispatch_costs
from engine.kernels.program import Arena, Lowered, Program, build, lower_graph
from engine.kernels.run import Store, allocate, compile_dispatches

#: An arena this many times larger than what is registered needs is made anew.
SLACK = 1.5

#: A lowered graph, and the operations of each of its dispatches.
Planned = tuple[Lowered, tuple[float, ...]]


@dataclass(frozen=True)
class Registered:
    """A planned program; ``costs`` are floating-point operations of each dispatch."""

    lowered: Lowered
    costs: tuple[float, ...]
    owned: tuple[Value, ...]


@dataclass
class Workspace:
    """Programs by name over one arena.

    Attributes:
        store: weights, and the inputs and outputs of all programs.
    """

    device: Device
    store: Store = field(default_factory=Store)
    _registered: dict[str, Registered] = field(default_factory=dict[str, Registered])
    _programs: dict[str, Program] = field(default_factory=dict[str, Program])
    _arena: Arena | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._registered

    def plan(self, graph: Graph) -> Planned:
        """Plan a graph without keeping it."""
        lowered = lower_graph(graph, self.device.caps)
        return lowered, dispatch_costs(graph, self.device.caps, lowered)

    def register(
        self,
        name: str,
        graph: Graph,
        planned: Planned | None = None,
        purpose: Purpose = Purpose.ACTIVATIONS,
    ) -> None:
        """Keep a graph as a program; its inputs and outputs that have no memory yet get it.

        Raises:
            OutOfMemoryError: an input or output did not fit.
        """
        lowered, costs = planned or self.plan(graph)
        outer = (Role.INPUT, Role.OUTPUT, Role.CACHE, Role.STATE)
        owned: list[Value] = []
        self._registered[name] = Registered(lowered, costs, ())
        for value in graph.values():
            if value.role in outer and value not in self.store.tensors:
                self.store.tensors[value] = allocate(self.device, value.tensor, purpose)
                owned.append(value)
                self._registered[name] = Registered(lowered, costs, tuple(owned))

    def forget(self, names: Iterable[str]) -> None:
        """Let programs go, with the inputs and outputs that were made for them."""
        for name in list(names):
            self._programs.pop(name, None)
            registered = self._registered.pop(name, None)
            for value in registered.owned if registered is not None else ():
                held = self.store.tensors.pop(value, None)
                if isinstance(held, BufferRange):
                    held.buffer.destroy()

    def names(self, prefix: str = "") -> list[str]:
        """The registered programs whose names start with ``prefix``."""
        return [name for name in self._registered if name.startswith(prefix)]

    def registered(self, name: str) -> Registered:
        """A registered program."""
        return self._registered[name]

    def compile(self, names: Iterable[str], cancelled: Callable[[], bool]) -> bool:
        """Compile programs' shaders side by side; False where ``cancelled()`` came first.

        A driver may take half a minute for a large model.

        Raises:
            DeviceLostError: the driver dropped the device.
        """
        absent = [self._registered[name].lowered for name in names if name not in self._programs]
        compile_dispatches(
            self.device, (each for lowered in absent for each in lowered.dispatches), cancelled
        )
        return not cancelled()

    def program(self, name: str) -> Program:
        """A built program; everything registered so far shares the arena.

        Raises:
            OutOfMemoryError: the arena did not fit.
            ShaderError: a shader does not compile here.
        """
        self._fit()
        found = self._programs.get(name)
        if found is None:
            assert self._arena is not None
            lowered = self._registered[name].lowered
            found = build(self.device, lowered, self._arena, self.store)
            self._programs[name] = found
        return found

    def _fit(self) -> None:
        """Make the arena anew when it is too small for what is registered, or far too large."""
        plans = [entry.lowered.plan for entry in self._registered.values()]
        wanted = shared_sizes(plans)
        if self._arena is not None and _covers(self._arena.sizes, wanted):
            return
        self.drop_arena()
        self._arena = Arena(self.device, plans)

    def drop_arena(self) -> None:
        """Give the arena's memory back; programs are bound again when they are next used."""
        self._programs.clear()
        if self._arena is not None:
            self._arena.destroy()
            self._arena = None

    def plans(self) -> dict[str, Plan]:
        """The plan of each registered program."""
        return {name: entry.lowered.plan for name, entry in self._registered.items()}

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena as it is now."""
        arena = self._arena
        return 0 if arena is None else sum(arena.sizes)


def _covers(have: Sequence[int], wanted: Sequence[int]) -> bool:
    enough = len(have) >= len(wanted) and all(
        size >= need for size, need in zip(have, wanted, strict=False)
    )
    return enough and sum(have) <= SLACK * max(sum(wanted), 1)
