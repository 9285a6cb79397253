"""Per-dispatch GPU time by timestamp queries, for benchmarks and tuning."""

from __future__ import annotations

import numpy as np

from engine.gpu.commands import CommandList
from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import BufferRange

_MAX_QUERIES = 4096


def time_commands(device: Device, commands: CommandList, repeats: int = 1) -> np.ndarray:
    """Seconds of GPU time of each command, float64 ``[repeats, len(commands)]``.

    Each command runs in a compute pass of its own with a timestamp at either end, so the sum is
    larger than an untimed run. Warm the GPU first: cold clocks read up to four times slower.
    Zeros where the device has no timestamps.
    """
    count = len(commands)
    result = np.zeros((repeats, count))
    if not device.caps.timestamps:
        return result
    for repeat in range(repeats):
        for start in range(0, count, _MAX_QUERIES // 2):
            part = commands.commands[start : start + _MAX_QUERIES // 2]
            result[repeat, start : start + len(part)] = _time_part(device, CommandList(part))
    return result


def _time_part(device: Device, commands: CommandList) -> np.ndarray:
    count = len(commands)
    queries = device.raw.create_query_set(type="timestamp", count=2 * count)
    usage = device.module.BufferUsage
    target = device.raw.create_buffer(size=16 * count, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
    encoder = device.raw.create_command_encoder()
    for index, command in enumerate(commands.commands):
        compute = encoder.begin_compute_pass(
            timestamp_writes={
                "query_set": queries,
                "beginning_of_pass_write_index": 2 * index,
                "end_of_pass_write_index": 2 * index + 1,
            }
        )
        compute.set_pipeline(command.pipeline.raw)
        compute.set_bind_group(0, command.group)
        compute.dispatch_workgroups(*command.grid)
        compute.end()
    encoder.resolve_query_set(queries, 0, 2 * count, target, 0)
    device.raw.queue.submit([encoder.finish()])
    ticks = np.frombuffer(device.raw.queue.read_buffer(target), np.uint64).reshape(count, 2)
    target.destroy()
    spans = ticks[:, 1].astype(np.int64) - ticks[:, 0].astype(np.int64)
    return np.maximum(spans, 0) * 1e-9


def scratch(device: Device, nbytes: int) -> BufferRange:
    """A fresh buffer to measure with."""
    return BufferRange(device.create_buffer(nbytes, Purpose.OTHER))
