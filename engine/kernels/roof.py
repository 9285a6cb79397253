"""What the hardware can do: the copy kernel that bandwidths are compared with."""

from __future__ import annotations

import time

from engine.gpu.commands import Command, CommandList, record, submit
from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import BindingKind, BindingSlot, BufferRange, bind, compile_pipeline, render
from engine.kernels.grid import fold

SIZE = 256


def copy_bytes_per_second(device: Device, nbytes: int | None = None, seconds: float = 0.5) -> float:
    """Bytes read plus bytes written a second by a plain copy, the best of the runs in ``seconds``.

    Args:
        nbytes: of each of the two buffers; by default as large as one binding, at most 512 MiB.
    """
    most = 64 << 20 if device.caps.software else 512 << 20
    nbytes = min(nbytes or most, device.caps.limits.binding_bytes, most) & ~4095
    vectors = nbytes // 16
    grid = fold(-(-vectors // (4 * SIZE)), device.caps)
    source = render("bench/copy.wgsl", {"vectors": vectors, "grid_x": grid[0], "size": SIZE})
    slots = [BindingSlot(BindingKind.READ), BindingSlot(BindingKind.READ_WRITE)]
    pipeline = compile_pipeline(device, source, slots, "copy roof")
    buffers = [device.create_buffer(nbytes, Purpose.OTHER) for _ in range(2)]
    try:
        group = bind(device, pipeline, [BufferRange(buffer) for buffer in buffers])
        repeats = 1 if device.caps.software else 20
        commands = record(device, [Command(pipeline, group, grid)] * repeats)
        return _best_rate(device, commands, 2 * nbytes * repeats, seconds)
    finally:
        for buffer in buffers:
            buffer.destroy()


def _best_rate(device: Device, commands: CommandList, nbytes: int, seconds: float) -> float:
    best = 0.0
    end = time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        submit(device, [commands])
        device.wait()
        now = time.perf_counter()
        best = max(best, nbytes / (now - start))
        if now > end:
            return best
