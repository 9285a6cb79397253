"""What can go wrong on a GPU, as types; each message is a sentence that a person can act on."""

from __future__ import annotations


class GpuError(Exception):
    """Base of every error that the GPU floor raises."""


class NoAdapterError(GpuError):
    """No GPU (or not the one that was asked for) can be opened."""


class DeviceLostError(GpuError):
    """The driver dropped the device: reset, unplugged, or hung for too long."""


class OutOfMemoryError(GpuError):
    """An allocation did not fit.

    Attributes:
        needed: bytes of the allocation that failed.
        held: bytes that this program held at that moment.
    """

    def __init__(self, message: str, needed: int, held: int) -> None:
        super().__init__(message)
        self.needed = needed
        self.held = held


class ShaderError(GpuError):
    """A shader did not compile, or its bindings do not match it.

    Attributes:
        source: the WGSL that was given to the driver.
    """

    def __init__(self, message: str, source: str = "") -> None:
        super().__init__(message)
        self.source = source
