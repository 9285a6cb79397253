"""An open device: its memory, its pipelines, and what it can do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from engine.gpu.adapters import Adapter, choose_adapter, load_api, request_device
from engine.gpu.capabilities import Capabilities
from engine.gpu.errors import DeviceLostError, GpuError, OutOfMemoryError
from engine.gpu.ledger import Ledger, Purpose
from engine.gpu.probe import probe_capabilities

log = logging.getLogger(__name__)

#: Uploads go in pieces with a submit each: six times faster than one big write, and no second copy
#: of the whole file in the driver's staging memory.
UPLOAD_CHUNK = 4 << 20


class Buffer:
    """GPU memory that the ledger knows.

    Attributes:
        raw: the library's buffer.
        nbytes: its size in bytes.
        purpose: the ledger's line.
    """

    def __init__(self, device: Device, raw: Any, nbytes: int, purpose: Purpose) -> None:
        self._device = device
        self._alive = True
        self.raw = raw
        self.nbytes = nbytes
        self.purpose = purpose

    def destroy(self) -> None:
        """Give the memory back; a second call does nothing."""
        if self._alive:
            self._alive = False
            self.raw.destroy()
            self._device.ledger.remove(self.purpose, self.nbytes)


class Texture:
    """A 2D texture or texture array of vectors of four, known to the ledger."""

    def __init__(self, device: Device, raw: Any, nbytes: int, array: bool) -> None:
        self._device = device
        self.raw = raw
        self.nbytes = nbytes
        self._alive = True
        self.view = raw.create_view(dimension="2d-array" if array else "2d")

    def destroy(self) -> None:
        """Give the memory back; a second call does nothing."""
        if self._alive:
            self._alive = False
            self.raw.destroy()
            self._device.ledger.remove(Purpose.ACTIVATIONS, self.nbytes)


class Device:
    """One opened adapter. Everything that touches the GPU goes through here.

    Attributes:
        raw: the library's device.
        caps: what it can do.
        ledger: every byte it holds.
    """

    def __init__(self, module: Any, adapter: Adapter, raw: Any, caps: Capabilities) -> None:
        self.module = module
        self.adapter = adapter
        self.raw = raw
        self.caps = caps
        self.ledger = Ledger()
        self.pipelines: dict[Any, Any] = {}
        self._lost: str | None = None
        self._fence: Any = None
        self._watch_for_loss()

    def _watch_for_loss(self) -> None:
        # The library only logs a lost device, so its log is where we hear of it.
        handler = _LossHandler(self._mark_lost)
        # Only the loaded library's: to ask for the other's would make it before its import does.
        logging.getLogger(self.module.__name__).addHandler(handler)
        self._loss_handler = handler

    def _mark_lost(self, reason: str) -> None:
        self._lost = reason

    def check(self) -> None:
        """Raise :class:`DeviceLostError` if the driver has dropped the device."""
        if self._lost is not None:
            raise DeviceLostError(
                f"The GPU stopped answering and was reset ({self._lost}). "
                "Your text is kept; try again."
            )

    def create_buffer(
        self, nbytes: int, purpose: Purpose, *, mappable: bool = False, label: str = ""
    ) -> Buffer:
        """Allocate ``nbytes`` (rounded up to 16), zeroed.

        Raises:
            OutOfMemoryError: it does not fit in the device's memory or in its largest buffer.
        """
        self.check()
        size = max(16, (nbytes + 15) & ~15)
        usage = self.module.BufferUsage
        flags = usage.COPY_DST | (usage.MAP_READ if mappable else usage.STORAGE | usage.COPY_SRC)
        if size > self.caps.limits.buffer_bytes:
            raise self._out_of_memory(size, "which is more than this GPU allows in one piece")
        try:
            raw = self.raw.create_buffer(size=size, usage=flags, label=label)
        except Exception as error:
            raise self._allocation_error(error, size) from error
        self.ledger.add(purpose, size)
        return Buffer(self, raw, size, purpose)

    def _allocation_error(self, error: Exception, size: int) -> GpuError:
        text = str(error)
        if "lost" in text.lower():
            self._mark_lost(text.splitlines()[0])
            return DeviceLostError(f"The GPU stopped answering ({text.splitlines()[0]}).")
        return self._out_of_memory(size, text.strip().splitlines()[-1].strip())

    def _out_of_memory(self, size: int, why: str) -> OutOfMemoryError:
        held = self.ledger.totals().total
        return OutOfMemoryError(
            f"The GPU has no room for {size / 2**30:.2f} GiB more ({why}); Driftwood holds "
            f"{held / 2**30:.2f} GiB. Choose a shorter context or a smaller model.",
            needed=size,
            held=held,
        )

    def create_texture(self, extent: tuple[int, int, int], f16: bool, array: bool) -> Texture:
        """A texture of ``extent`` (width, height, layers) texels of four channels."""
        usage = self.module.TextureUsage
        try:
            raw = self.raw.create_texture(
                size=extent,
                format="rgba16float" if f16 else "rgba32float",
                usage=usage.TEXTURE_BINDING
                | usage.STORAGE_BINDING
                | usage.COPY_DST
                | usage.COPY_SRC,
            )
        except Exception as error:
            raise self._allocation_error(error, extent[0] * extent[1] * extent[2] * 16) from error
        nbytes = extent[0] * extent[1] * extent[2] * (8 if f16 else 16)
        self.ledger.add(Purpose.ACTIVATIONS, nbytes)
        return Texture(self, raw, nbytes, array)

    def upload(self, buffer: Buffer, data: np.ndarray, offset: int = 0) -> None:
        """Copy an array's bytes into a buffer at ``offset`` (bytes, a multiple of 4)."""
        self.check()
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        padded = -flat.nbytes % 4
        if padded:
            flat = np.concatenate([flat, np.zeros(padded, np.uint8)])
        for start in range(0, flat.nbytes, UPLOAD_CHUNK):
            piece = flat[start : start + UPLOAD_CHUNK]
            self.raw.queue.write_buffer(buffer.raw, offset + start, piece)
            if flat.nbytes > UPLOAD_CHUNK:
                self.raw.queue.submit([])

    def download(self, buffer: Buffer, nbytes: int | None = None, offset: int = 0) -> np.ndarray:
        """Wait for all work, then read bytes back as uint8. For tests and rare reads only."""
        self.check()
        size = buffer.nbytes - offset if nbytes is None else nbytes
        aligned = (size + 3) & ~3
        data = self.raw.queue.read_buffer(buffer.raw, offset, aligned)
        self.check()
        return np.frombuffer(data, np.uint8)[:size]

    def wait(self) -> None:
        """Block until every submitted command has run."""
        # A read waits for all that was submitted before it. wgpu 0.32's on_submitted_work_done does
        # not match its own native library: the callback's type is refused.
        usage = self.module.BufferUsage
        fence = self.raw.create_buffer(size=16, usage=usage.COPY_SRC | usage.COPY_DST)
        self.raw.queue.read_buffer(fence, 0, 16)
        fence.destroy()
        self.check()

    def close(self) -> None:
        """Drop the device and everything on it."""
        logging.getLogger(self.module.__name__).removeHandler(self._loss_handler)
        self.pipelines.clear()
        self.raw.destroy()


class _LossHandler(logging.Handler):
    def __init__(self, lost: Callable[[str], None]) -> None:
        super().__init__()
        self._lost = lost

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "device was lost" in message and "Destroyed" not in message:
            self._lost(message.splitlines()[-1].strip() or "lost")


def open_device(
    backend: str | None = None,
    name: str | None = None,
    without: frozenset[str] = frozenset(),
) -> Device:
    """Open the best adapter (discrete, then integrated, then software).

    Args:
        backend: "wgpu", "dawn" or None for the best of what is installed.
        name: part of an adapter's name that must match.
        without: techniques to switch off, see :data:`engine.gpu.capabilities.SWITCHES`.

    Raises:
        NoAdapterError: nothing usable was found, or it cannot be opened.
    """
    adapter = choose_adapter(backend, name)
    module = load_api(adapter.backend)
    raw = request_device(adapter, small_limits="limits" in without)
    caps = probe_capabilities(module, adapter, raw).switched(without)
    log.info("opened %s through %s (%s)", caps.device, caps.backend, caps.driver)
    return Device(module, adapter, raw, caps)
