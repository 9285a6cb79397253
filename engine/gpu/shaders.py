"""From WGSL templates to compute pipelines, with a cache.

Templates lie in ``wgsl/`` and are rendered by Jinja2. Our own shaders are *trusted*: once they have
passed the self-test with checks on, wgpu-native's loop bounding and bounds clamping are left out
(they cost up to 1.5 times in a matrix kernel). ``DRIFTWOOD_CHECKED_SHADERS=1`` puts them back.
"""

from __future__ import annotations

import enum
import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from engine.gpu.capabilities import Capabilities
from engine.gpu.errors import ShaderError

if TYPE_CHECKING:
    from engine.gpu.device import Buffer, Device


class BindingKind(enum.Enum):
    """How a shader sees one bound resource."""

    READ = "read-only-storage"
    READ_WRITE = "storage"
    UNIFORM = "uniform"
    TEXTURE = "texture"
    STORAGE_TEXTURE = "storage-texture"


@dataclass(frozen=True)
class BindingSlot:
    """One entry of a bind group layout; ``texel`` and ``dimension`` only matter for textures."""

    kind: BindingKind
    texel: str = ""
    dimension: str = "2d"


@dataclass(frozen=True)
class BufferRange:
    """Part of a buffer, in bytes, as a resource to bind."""

    buffer: Buffer
    offset: int = 0
    nbytes: int | None = None


@dataclass(frozen=True)
class Pipeline:
    """A compiled shader, its layout, and the WGSL it came from."""

    raw: Any
    layout: Any
    slots: tuple[BindingSlot, ...]
    label: str


@lru_cache(maxsize=1)
def wgsl_folder() -> Path:
    """Where the shader templates lie: beside the packages, or inside a frozen app."""
    frozen = getattr(sys, "_MEIPASS", None)
    root = Path(frozen) if frozen else Path(__file__).resolve().parents[2]
    return root / "wgsl"


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(wgsl_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        keep_trailing_newline=True,
    )


def load_plain(template: str) -> str:
    """A shader file as it stands."""
    return (wgsl_folder() / template).read_text("utf-8")


def render(template: str, params: Mapping[str, Any]) -> str:
    """Render a template of ``wgsl/`` with its parameters.

    Raises:
        ShaderError: the template is missing, broken, or lacks a parameter.
    """
    try:
        return _environment().get_template(template).render(**params)
    except jinja2.TemplateError as error:
        raise ShaderError(f"The shader template {template} cannot be rendered: {error}") from error


def prelude(caps: Capabilities, source: str) -> str:
    """The ``enable`` lines that this source needs on this back end (naga and Tint differ)."""
    lines: list[str] = []
    if "subgroup_matrix" in source:
        lines.append("diagnostic(off, chromium.subgroup_matrix_uniformity);")
    if caps.backend == "dawn" and "subgroup" in source:
        lines.append("diagnostic(off, subgroup_uniformity);")
    if "f16" in source and caps.f16:
        lines.append("enable f16;")
    if caps.backend == "dawn" and caps.subgroups and "subgroup" in source:
        lines.append("enable subgroups;")
    if "subgroup_matrix" in source:
        lines.append("enable chromium_experimental_subgroup_matrix;")
    return "\n".join(lines) + ("\n" if lines else "")


def checked_shaders() -> bool:
    """True where the debug switch asks for the driver's own bounds and loop checks."""
    return os.environ.get("DRIFTWOOD_CHECKED_SHADERS", "") not in ("", "0")


def pipeline_key(source: str, slots: Sequence[BindingSlot]) -> tuple[bytes, tuple[Any, ...]]:
    """What a device keeps a compiled pipeline under."""
    return (hashlib.blake2b(source.encode(), digest_size=16).digest(), tuple(slots))


def compile_pipeline(
    device: Device, source: str, slots: Sequence[BindingSlot], label: str
) -> Pipeline:
    """Compile WGSL (entry point ``main``, all bindings in group 0), or take it from the cache.

    Raises:
        ShaderError: the compiler's own words, with the source attached.
    """
    cached = device.pipelines.get(pipeline_key(source, slots))
    return cached if cached is not None else begin_pipeline(device, source, slots, label, False)()


def begin_pipeline(
    device: Device,
    source: str,
    slots: Sequence[BindingSlot],
    label: str,
    apart: bool,
) -> Callable[[], Pipeline]:
    """Begin to compile, ``apart`` on the library's own threads (Dawn's; wgpu-native has none).

    Returns:
        what waits for the pipeline, and puts it into the cache.

    Raises:
        ShaderError: here or by what is returned, the compiler's own words.
    """
    device.check()
    try:
        layout, request = _request(device, source, slots, label)
        raw = device.raw
        begun = (raw.create_compute_pipeline_async if apart else raw.create_compute_pipeline)(
            **request
        )
    except Exception as error:
        raise _refusal(device, source, label, error) from error

    def finish() -> Pipeline:
        try:
            made = begun.sync_wait() if apart else begun
        except Exception as error:
            raise _refusal(device, source, label, error) from error
        pipeline = Pipeline(made, layout, tuple(slots), label)
        device.pipelines[pipeline_key(source, slots)] = pipeline
        return pipeline

    return finish


def _refusal(device: Device, source: str, label: str, error: Exception) -> ShaderError:
    code = prelude(device.caps, source) + source
    return ShaderError(f"The shader {label} does not compile here: {error}", code)


def _request(
    device: Device, source: str, slots: Sequence[BindingSlot], label: str
) -> tuple[Any, dict[str, Any]]:
    """The layout of a pipeline, and the arguments that ask for it."""
    layout = _bind_group_layout(device, slots)
    module = _shader_module(device, prelude(device.caps, source) + source, label)
    return layout, {
        "label": label,
        "layout": device.raw.create_pipeline_layout(bind_group_layouts=[layout]),
        "compute": {"module": module, "entry_point": "main"},
    }


def _shader_module(device: Device, code: str, label: str) -> Any:
    if device.caps.backend != "wgpu" or checked_shaders():
        return device.raw.create_shader_module(code=code, label=label)
    return _trusted_module(device.raw, code, label)


def _trusted_module(raw: Any, code: str, label: str) -> Any:
    """wgpu-native's module without run-time checks; the Python API has no name for it yet."""
    native = importlib.import_module("wgpu.backends.wgpu_native._api")
    source = native.new_struct_p("WGPUShaderSourceWGSL *", code=native.to_c_string_view(code))
    source[0].chain.next = native.ffi.NULL
    source[0].chain.sType = native.lib.WGPUSType_ShaderSourceWGSL
    descriptor = native.new_struct_p(
        "WGPUShaderModuleDescriptor *",
        nextInChain=native.ffi.cast("WGPUChainedStruct *", source),
        label=native.to_c_string_view(label),
    )
    handle = native.libf.wgpuDeviceCreateShaderModuleTrusted(raw._internal, descriptor, 0)
    if handle == native.ffi.NULL:
        raise RuntimeError("the driver gave no module")
    return native.GPUShaderModule(label, handle, raw)


def _bind_group_layout(device: Device, slots: Sequence[BindingSlot]) -> Any:
    visibility = device.module.ShaderStage.COMPUTE
    entries: list[dict[str, Any]] = []
    for index, slot in enumerate(slots):
        entry: dict[str, Any] = {"binding": index, "visibility": visibility}
        if slot.kind is BindingKind.TEXTURE:
            entry["texture"] = {
                "sample_type": "unfilterable-float",
                "view_dimension": slot.dimension,
            }
        elif slot.kind is BindingKind.STORAGE_TEXTURE:
            entry["storage_texture"] = {
                "access": "write-only",
                "format": slot.texel,
                "view_dimension": slot.dimension,
            }
        else:
            entry["buffer"] = {"type": slot.kind.value}
        entries.append(entry)
    return device.raw.create_bind_group_layout(entries=entries)


def bind(device: Device, pipeline: Pipeline, resources: Sequence[Any]) -> Any:
    """A bind group of ``resources`` (:class:`BufferRange` or Texture), in slot order.

    About 150 us each: made once, when a model is loaded.
    """
    entries = [
        {"binding": index, "resource": _resource(resource)}
        for index, resource in enumerate(resources)
    ]
    try:
        return device.raw.create_bind_group(layout=pipeline.layout, entries=entries)
    except Exception as error:
        raise ShaderError(f"The bindings of {pipeline.label} do not fit it: {error}") from error


def _resource(resource: Any) -> Any:
    if isinstance(resource, BufferRange):
        size = resource.nbytes
        if size is None:
            size = resource.buffer.nbytes - resource.offset
        return {"buffer": resource.buffer.raw, "offset": resource.offset, "size": size}
    return resource.view
