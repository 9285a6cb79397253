"""What a device really offers. Drivers and libraries misreport subgroup sizes, so a kernel asks."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from engine.gpu.adapters import Adapter
from engine.gpu.capabilities import Capabilities, Limits, MatrixShape
from engine.gpu.shaders import load_plain

_VENDORS = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x8086: "intel",
    0x106B: "apple",
    0x13B5: "arm",
    0x5143: "qualcomm",
    0x10005: "mesa",
}


def probe_capabilities(module: Any, adapter: Adapter, raw: Any) -> Capabilities:
    """Read features and limits of an opened device and run the subgroup probe on it."""
    features = set(raw.features)
    subgroups = bool(features & {"subgroup", "subgroups"})
    low, high = _probe_subgroups(module, raw, adapter.backend) if subgroups else (0, 0)
    info = adapter.info
    return Capabilities(
        backend=adapter.backend,
        api=adapter.api,
        device=adapter.name,
        driver=str(info.get("description") or ""),
        vendor=_VENDORS.get(int(info.get("vendor_id") or 0), str(info.get("vendor") or "unknown")),
        kind=adapter.kind,
        library=str(module.__version__),
        f16="shader-f16" in features,
        subgroups=subgroups and low > 0,
        subgroup_min=low,
        subgroup_max=high,
        dp4a=True,  # dot4I8Packed is core WGSL; where no unit exists the compiler spells it out
        matrix=_matrix_shapes(adapter, features),
        timestamps="timestamp-query" in features,
        unified_memory=adapter.kind in ("integrated", "software") or adapter.api == "Metal",
        limits=_limits(raw.limits),
    )


def _limits(raw: Any) -> Limits:
    get = dict(raw).get
    default = Limits()
    return Limits(
        storage_buffers=get("max-storage-buffers-per-shader-stage", default.storage_buffers),
        # wgpu counts in u32 on some paths: stay 4 bytes below 2 GiB and keep 16-byte vectors whole
        binding_bytes=min(get("max-storage-buffer-binding-size", 0), (2 << 30) - 16) & ~15,
        buffer_bytes=min(get("max-buffer-size", default.buffer_bytes), (4 << 30) - 16),
        workgroup_bytes=get("max-compute-workgroup-storage-size", default.workgroup_bytes),
        invocations=get("max-compute-invocations-per-workgroup", default.invocations),
        workgroup_x=get("max-compute-workgroup-size-x", default.workgroup_x),
        workgroups=get("max-compute-workgroups-per-dimension", default.workgroups),
        offset_alignment=get("min-storage-buffer-offset-alignment", default.offset_alignment),
        texture_2d=get("max-texture-dimension-2d", default.texture_2d),
        texture_layers=get("max-texture-array-layers", default.texture_layers),
    )


def _probe_subgroups(api: Any, raw: Any, backend: str) -> tuple[int, int]:
    """Smallest and largest subgroup size that 256 invocations see; (0, 0) if broken."""
    prelude = "enable subgroups;\n" if backend == "dawn" else ""
    usage = api.BufferUsage
    try:
        module = raw.create_shader_module(code=prelude + load_plain("probe/subgroup.wgsl"))
        pipeline = raw.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        out = raw.create_buffer(size=256 * 8, usage=usage.STORAGE | usage.COPY_SRC)
        group = raw.create_bind_group(
            layout=pipeline.get_bind_group_layout(0),
            entries=[{"binding": 0, "resource": {"buffer": out, "offset": 0, "size": 256 * 8}}],
        )
        encoder = raw.create_command_encoder()
        compute = encoder.begin_compute_pass()
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(1)
        compute.end()
        raw.queue.submit([encoder.finish()])
        seen = np.frombuffer(raw.queue.read_buffer(out), np.uint32).reshape(256, 2)
    except Exception:  # a driver that fails here simply has no subgroups for us
        return 0, 0
    sizes, sums = seen[:, 0], seen[:, 1]
    sane = bool((sizes >= 4).all() and (sizes <= 128).all() and (sums == sizes).all())
    return (int(sizes.min()), int(sizes.max())) if sane else (0, 0)


def _matrix_shapes(adapter: Adapter, features: set[str]) -> tuple[MatrixShape, ...]:
    if adapter.backend != "dawn" or "chromium-experimental-subgroup-matrix" not in features:
        return ()
    extras = importlib.import_module("wgpudawn.backends.dawn.extras")
    found = extras.get_adapter_properties(adapter.raw).get("subgroup_matrix_configs", [])
    return tuple(
        MatrixShape(
            m=int(shape["m"]),
            n=int(shape["n"]),
            k=int(shape["k"]),
            input=str(shape["component_type"]),
            output=str(shape["result_component_type"]),
        )
        for shape in found
    )
