"""The doctor's report: what GPU and driver were found, what works, what is missing."""

from __future__ import annotations

from typing import Any

from engine.gpu.adapters import backends, list_adapters
from engine.gpu.device import Device
from engine.gpu.memory import device_memory


def doctor_report(device: Device) -> dict[str, Any]:
    """Plain JSON values; sentences under ``problems`` are for a person."""
    caps = device.caps
    memory = device_memory(caps)
    return {
        "device": caps.device,
        "driver": caps.driver,
        "vendor": caps.vendor,
        "kind": caps.kind,
        "backend": caps.backend,
        "library": caps.library,
        "api": caps.api,
        "backends_installed": list(backends()),
        "adapters": _adapters(),
        "features": {
            "f16": caps.f16,
            "subgroups": caps.subgroups,
            "subgroup_size": [caps.subgroup_min, caps.subgroup_max],
            "dp4a": caps.dp4a,
            "matrix": [f"{m.m}x{m.n}x{m.k} {m.input} to {m.output}" for m in caps.matrix],
            "timestamps": caps.timestamps,
            "unified_memory": caps.unified_memory,
        },
        "limits": {
            "largest_binding_bytes": caps.limits.binding_bytes,
            "largest_buffer_bytes": caps.limits.buffer_bytes,
            "storage_buffers": caps.limits.storage_buffers,
            "workgroup_bytes": caps.limits.workgroup_bytes,
            "invocations": caps.limits.invocations,
        },
        "memory": {"total": memory.total, "used": memory.used},
        "switched_off": sorted(caps.without),
        "selftest": {"excluded": sorted(caps.excluded)},
        "problems": _problems(device),
    }


def _adapters() -> list[dict[str, str]]:
    return [
        {"backend": backend, "name": adapter.name, "kind": adapter.kind, "api": adapter.api}
        for backend in backends()
        for adapter in list_adapters(backend)
    ]


def _problems(device: Device) -> list[str]:
    caps = device.caps
    found: list[str] = []
    if caps.software:
        found.append(
            "No GPU driver was found, so the processor does the work: answers are slow. "
            "Install your graphics card's Vulkan driver."
        )
    if not caps.f16 and "f16" not in caps.without:
        found.append(
            "This driver offers no 16-bit floats: everything works, but takes more memory and time."
        )
    if not caps.subgroups and "subgroups" not in caps.without:
        found.append("This driver offers no subgroups: everything works, only slower.")
    if caps.excluded:
        names = ", ".join(sorted(caps.excluded))
        found.append(
            f"This driver computes wrong results in {len(caps.excluded)} kernel variant(s), "
            f"which are therefore not used: {names}."
        )
    return found
