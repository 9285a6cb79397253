"""How much memory the GPU has and how much all programs hold, where the platform tells.

NVML on NVIDIA, sysfs on AMD under Linux; on software and unified devices the main memory is what
counts. Elsewhere nothing is known, and nothing is guessed.
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.gpu.capabilities import Capabilities


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes; None where the platform does not tell. ``used`` counts every program."""

    total: int | None
    used: int | None


def device_memory(caps: Capabilities) -> DeviceMemory:
    """Ask the platform. Takes well under a millisecond; safe on any thread."""
    if caps.vendor == "nvidia":
        return _nvidia(caps.device)
    if caps.software or caps.unified_memory:
        return _main_memory()
    if caps.vendor == "amd":
        return _amd()
    return DeviceMemory(None, None)


@lru_cache(maxsize=4)
def _nvml_handle(device: str) -> tuple[Any, Any] | None:
    """The NVML module and the handle of the card with this name (the first of equals)."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        named = [h for h in handles if _text(nvml.nvmlDeviceGetName(h)) in device]
    except Exception as error:  # NVML's own classes; without it there are simply no numbers
        del error
        return None
    handles = named or handles
    return (nvml, handles[0]) if handles else None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _nvidia(device: str) -> DeviceMemory:
    found = _nvml_handle(device)
    if found is None:
        return DeviceMemory(None, None)
    nvml, handle = found
    info = nvml.nvmlDeviceGetMemoryInfo(handle)
    return DeviceMemory(int(info.total), int(info.used))


def _main_memory() -> DeviceMemory:
    psutil = importlib.import_module("psutil")
    info = psutil.virtual_memory()
    return DeviceMemory(int(info.total), int(info.total - info.available))


def _amd() -> DeviceMemory:
    for card in sorted(Path("/sys/class/drm").glob("card?/device/mem_info_vram_total")):
        with contextlib.suppress(OSError, ValueError):
            total = int(card.read_text())
            used = int((card.parent / "mem_info_vram_used").read_text())
            return DeviceMemory(total, used)
    return DeviceMemory(None, None)
