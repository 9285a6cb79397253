"""What wgpu-native can do and its Python API does not offer: wait for one submission.

The public ``map_async`` is served by a thread that waits for the *newest* submission, so reading a
result late would still drain the whole queue. Here a read waits for the submission that filled it.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np


def _library() -> tuple[Any, Any]:
    ffi_module = importlib.import_module("wgpu.backends.wgpu_native._ffi")
    return ffi_module.lib, ffi_module.ffi


def submit_for_index(queue: Any, command_buffer: Any) -> int:
    """Submit one command buffer; the number that :class:`MappedRead` waits for."""
    lib, ffi = _library()
    buffers = ffi.new("WGPUCommandBuffer[]", [command_buffer._internal])
    return int(lib.wgpuQueueSubmitForIndex(queue._internal, 1, buffers))


class MappedRead:
    """A buffer being mapped for reading behind the submission ``index``.

    Raises RuntimeError from :meth:`take` if the driver could not map it.
    """

    def __init__(self, device: Any, buffer: Any, nbytes: int, index: int) -> None:
        lib, ffi = _library()
        self._device, self._buffer, self._nbytes = device, buffer, nbytes
        self._index = ffi.new("WGPUSubmissionIndex *", index)
        self._status: int | None = None

        @ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)")
        def mapped(status: int, _message: Any, _first: Any, _second: Any) -> None:
            self._status = int(status)

        self._callback = mapped  # cffi calls into it: it must live as long as the request
        info = ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = lib.WGPUCallbackMode_AllowProcessEvents
        info.callback = mapped
        lib.wgpuBufferMapAsync(buffer._internal, lib.WGPUMapMode_Read, 0, nbytes, info[0])

    def take(self) -> np.ndarray:
        """Wait for the submission and return the bytes as uint8; the buffer is free again."""
        lib, ffi = _library()
        while self._status is None:
            lib.wgpuDevicePoll(self._device._internal, True, self._index)
        if self._status != lib.WGPUMapAsyncStatus_Success:
            raise RuntimeError(f"the driver could not map a buffer (status {self._status})")
        address = lib.wgpuBufferGetConstMappedRange(self._buffer._internal, 0, self._nbytes)
        data = np.frombuffer(ffi.buffer(address, self._nbytes), np.uint8).copy()
        lib.wgpuBufferUnmap(self._buffer._internal)
        return data
