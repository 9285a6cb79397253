"""The ground floor, the only place that imports ``wgpu``: devices, memory, shaders, commands."""

from engine.gpu.capabilities import Capabilities
from engine.gpu.commands import Command, CommandList
from engine.gpu.device import Buffer, Device, Texture, open_device
from engine.gpu.errors import (
    DeviceLostError,
    GpuError,
    NoAdapterError,
    OutOfMemoryError,
    ShaderError,
)
from engine.gpu.ledger import Ledger, Purpose

__all__ = [
    "Buffer",
    "Capabilities",
    "Command",
    "CommandList",
    "Device",
    "DeviceLostError",
    "GpuError",
    "Ledger",
    "NoAdapterError",
    "OutOfMemoryError",
    "Purpose",
    "ShaderError",
    "Texture",
    "open_device",
]
