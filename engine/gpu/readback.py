"""A ring of small mapped buffers, so that results are read late and nothing waits in the loop.

``queue.read_buffer`` waits for the newest submission; here each slot is mapped right after the
submission that fills it, and waited for only when its turn comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.gpu.commands import Copy
from engine.gpu.device import Buffer, Device
from engine.gpu.ledger import Purpose
from engine.gpu.native import MappedRead


class _PublicRead:
    """A buffer being mapped through the public API; Dawn waits for just this one."""

    def __init__(self, buffer: Any, nbytes: int) -> None:
        self._buffer, self._nbytes = buffer, nbytes
        self._promise = buffer.map_async("READ")

    def take(self) -> np.ndarray:
        """Wait and return the bytes as uint8; the buffer is free again."""
        self._promise.sync_wait()
        data = np.frombuffer(self._buffer.read_mapped(0, self._nbytes, copy=True), np.uint8)
        self._buffer.unmap()
        return data


class ReadbackRing:
    """``depth`` slots of ``nbytes`` each, used in turn.

    Use: put :meth:`copy_from` among the copies of a submit, then :meth:`filled`, and later
    :meth:`take` for the oldest slot in flight.
    """

    def __init__(self, device: Device, nbytes: int, depth: int = 6) -> None:
        self._device = device
        self._nbytes = nbytes
        self._slots = [
            device.create_buffer(nbytes, Purpose.OTHER, mappable=True, label="readback")
            for _ in range(depth)
        ]
        self._head = 0
        self._pending: list[MappedRead | _PublicRead] = []

    @property
    def in_flight(self) -> int:
        """Slots filled and not yet taken."""
        return len(self._pending)

    @property
    def full(self) -> bool:
        """True when :meth:`take` must be called before the next :meth:`copy_from`."""
        return len(self._pending) == len(self._slots)

    def copy_from(self, *sources: tuple[Buffer, int, int]) -> list[Copy]:
        """The copies that fill the next slot, one after the other, from (buffer, offset, bytes)."""
        copies: list[Copy] = []
        at = 0
        for buffer, offset, nbytes in sources:
            copies.append(Copy(buffer, offset, self._slots[self._head], at, nbytes))
            at += nbytes
        return copies

    def filled(self, submission: int) -> None:
        """Say that the copies are in ``submission`` (what submit returned): mapping starts."""
        slot = self._slots[self._head]
        self._head = (self._head + 1) % len(self._slots)
        if self._device.caps.backend == "wgpu":
            self._pending.append(MappedRead(self._device.raw, slot.raw, self._nbytes, submission))
        else:
            self._pending.append(_PublicRead(slot.raw, self._nbytes))

    def take(self) -> np.ndarray:
        """Wait for the oldest slot and return its bytes as uint8."""
        try:
            return self._pending.pop(0).take()
        except RuntimeError:
            self._device.check()
            raise

    def drain(self) -> None:
        """Take and drop everything in flight."""
        while self._pending:
            self.take()

    def destroy(self) -> None:
        """Give the buffers back."""
        self.drain()
        for slot in self._slots:
            slot.destroy()
