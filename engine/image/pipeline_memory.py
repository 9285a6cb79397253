"""How much memory there is for pictures, and what to say when it is too little."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.gpu.device import Device
from engine.gpu.memory import device_memory
from engine.graph.node import Value
from engine.graph.planner import shared_sizes
from engine.image.errors import ImageError
from engine.image.runner_workspace import Workspace
from engine.image.settings import MIN_SIZE, SIZE_STEP
from engine.kernels.program import Lowered

#: Left to the driver and the desktop.
HEADROOM = 0.05


class TooLargeError(ImageError):
    """A picture of this size does not fit.

    Attributes:
        fits: (width, height) that would, or None where none does.
    """

    def __init__(self, message: str, fits: tuple[int, int] | None) -> None:
        super().__init__(message)
        self.fits = fits


def available(device: Device, limit: int | None = None) -> int | None:
    """Bytes that Driftwood may hold in all, or None where the platform does not tell.

    ``limit`` is a wish of the person or of a test; the smaller of both counts.
    """
    memory = device_memory(device.caps)
    if memory.total is None:
        return limit
    others = max(0, (memory.used or 0) - device.ledger.totals().total)
    room = int((memory.total - others) * (1 - HEADROOM))
    return room if limit is None else min(limit, room)


def gib(nbytes: float) -> str:
    """Bytes as a person reads them."""
    return f"{nbytes / 2**30:.2f} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:.0f} MiB"


def refuse(
    width: int, height: int, need: int, room: int, needed: Callable[[int, int], int]
) -> TooLargeError:
    """The refusal of a size, with the largest of the same shape that fits.

    ``needed`` estimates the bytes of a (width, height).
    """
    fits = _largest(width, height, room, needed)
    advice = (
        f"{fits[0]} x {fits[1]} fits."
        if fits is not None
        else "Even small pictures do not fit: close other programs that use the GPU, or choose a "
        "smaller model."
    )
    problem = (
        f"{width} x {height} needs {gib(need)} and {gib(room)} are free."
        if need > room
        else f"{width} x {height} is more than this GPU takes in one piece."
    )
    return TooLargeError(f"{problem} {advice}", fits)


def _largest(
    width: int, height: int, room: int, needed: Callable[[int, int], int]
) -> tuple[int, int] | None:
    """The largest size of the same shape, in steps of 8, whose need is met."""
    longest = max(width, height)
    low, high = MIN_SIZE // SIZE_STEP, longest // SIZE_STEP
    best: tuple[int, int] | None = None
    while low <= high:
        middle = (low + high) // 2
        scale = middle * SIZE_STEP / longest
        size = (_step(width * scale), _step(height * scale))
        if needed(*size) <= room:
            best, low = size, middle + 1
        else:
            high = middle - 1
    return best


def _step(size: float) -> int:
    return max(MIN_SIZE, int(size) // SIZE_STEP * SIZE_STEP)


def fits(
    device: Device,
    workspace: Workspace,
    plans: Sequence[Lowered],
    extra: int,
    limit: int | None,
) -> bool:
    """Whether programs fit beside what is held, and within what the device binds and allocates.

    ``extra`` are bytes of inputs and outputs that they need besides.
    """
    if not within_limits(device, plans):
        return False
    room = available(device, limit)
    return room is None or held_with(device, workspace, plans, extra) <= room


def within_limits(device: Device, plans: Sequence[Lowered]) -> bool:
    """Whether the device binds every value of the programs and allocates every object."""
    limits = device.caps.limits
    for lowered in plans:
        values = (value for value in lowered.plan.places if isinstance(value, Value))
        if max((value.nbytes for value in values), default=0) > limits.binding_bytes:
            return False
        if max(lowered.plan.sizes, default=0) > limits.buffer_bytes:
            return False
    return True


def held_with(device: Device, workspace: Workspace, plans: Sequence[Lowered], extra: int) -> int:
    """Bytes held once programs share the arena with those that are registered."""
    others = device.ledger.totals().total - workspace.arena_bytes
    all_plans = [*workspace.plans().values(), *(lowered.plan for lowered in plans)]
    return others + extra + sum(shared_sizes(all_plans))
