"""The WGSL accessors of one bound tensor, generated from its descriptor.

A kernel says ``x_at(token, slice)`` or ``x_read(b, y, x, s)`` and never computes an address; the
same kernel runs over buffers, 2D textures and texture arrays, row-major or sliced. Static shapes
become constants. For a binding called ``x`` these functions exist (only those used are emitted):

- ``x_read(b, y, x, s) -> vec4<f32>``, ``x_write(b, y, x, s, v: vec4<f32>)``
- ``x_at(x, s) -> vec4<f32>``, ``x_put(x, s, v)``: batch 0, row 0, as for a matrix; in a row-major
  buffer x counts the rows of all axes
- ``x_scalar(x, c) -> f32``: one channel of a matrix
- ``x_read_h``, ``x_at_h -> vec4<f16>``: without the widening, for f16 tensors
"""

from __future__ import annotations

import re

from engine.gpu.shaders import BindingKind, BindingSlot
from engine.tensor.descriptor import DType, Layout, Storage, TensorDesc


def binding_slot(desc: TensorDesc, writes: bool) -> BindingSlot:
    """How the tensor is bound: a storage buffer, a sampled texture or a storage texture."""
    if desc.storage is Storage.BUFFER:
        return BindingSlot(BindingKind.READ_WRITE if writes else BindingKind.READ)
    dimension = "2d-array" if desc.storage is Storage.TEXTURE_2D_ARRAY else "2d"
    if writes:
        return BindingSlot(BindingKind.STORAGE_TEXTURE, _texel(desc), dimension)
    return BindingSlot(BindingKind.TEXTURE, dimension=dimension)


def declare(name: str, desc: TensorDesc, binding: int, writes: bool) -> str:
    """The ``var`` line of the binding."""
    at = f"@group(0) @binding({binding}) "
    if desc.storage is Storage.BUFFER:
        access = "read_write" if writes else "read"
        return f"{at}var<storage, {access}> {name}_data: array<vec4<{desc.dtype.value}>>;\n"
    kind = "2d_array" if desc.storage is Storage.TEXTURE_2D_ARRAY else "2d"
    if writes:
        return f"{at}var {name}_data: texture_storage_{kind}<{_texel(desc)}, write>;\n"
    return f"{at}var {name}_data: texture_{kind}<f32>;\n"


def accessors(name: str, desc: TensorDesc, used_in: str) -> str:
    """The accessor functions of ``name`` that ``used_in`` (the shader's own text) calls."""
    wanted = set(re.findall(rf"\b{re.escape(name)}_(\w+)\s*\(", used_in))
    parts: list[str] = []
    if wanted & {"read", "at", "scalar"}:
        parts.append(_reader(name, desc))
    if wanted & {"write", "put"}:
        parts.append(_writer(name, desc))
    row = _flat_row(desc)
    if "at" in wanted or "scalar" in wanted:
        parts.append(
            f"fn {name}_at(x: u32, s: u32) -> vec4<f32> {{ return {name}_read({row}, s); }}\n"
        )
    if "put" in wanted:
        parts.append(
            f"fn {name}_put(x: u32, s: u32, v: vec4<f32>) {{ {name}_write({row}, s, v); }}\n"
        )
    if "scalar" in wanted:
        parts.append(
            f"fn {name}_scalar(x: u32, c: u32) -> f32 {{ return {name}_at(x, c >> 2u)[c & 3u]; }}\n"
        )
    if wanted & {"read_h", "at_h"}:
        parts.append(_half_reader(name, desc))
    if "at_h" in wanted:
        parts.append(
            f"fn {name}_at_h(x: u32, s: u32) -> vec4<f16> {{ return {name}_read_h({row}, s); }}\n"
        )
    return "".join(parts)


def _texel(desc: TensorDesc) -> str:
    return "rgba16float" if desc.dtype is DType.F16 else "rgba32float"


def _index(desc: TensorDesc) -> str:
    """The address of a vector, as a sum of the axes that have more than one position."""
    shape = desc.shape
    axes = zip(
        ("b", "y", "x", "s"),
        (shape.b, shape.h, shape.w, shape.slices),
        desc.strides(),
        strict=True,
    )
    terms = [
        axis if stride == 1 else f"{axis} * {stride}u"
        for axis, extent, stride in axes
        if extent > 1
    ]
    return " + ".join(terms) or "0u"


def _texel_position(desc: TensorDesc) -> str:
    """Texture coordinates (and layer) of a vector; see TensorDesc.texture_extent."""
    shape = desc.shape
    column = "x" if shape.b == 1 else f"x * {shape.b}u + b"
    if desc.storage is Storage.TEXTURE_2D_ARRAY:
        return f"vec2<u32>({column}, y), s"
    if desc.layout is Layout.DSHWBC4:
        row = "s" if shape.h == 1 else f"s * {shape.h}u + y"
    else:
        row = "s" if shape.h == 1 else f"y * {shape.slices}u + s"
    return f"vec2<u32>({column}, {row})"


def _reader(name: str, desc: TensorDesc) -> str:
    head = f"fn {name}_read(b: u32, y: u32, x: u32, s: u32) -> vec4<f32> "
    if desc.storage is not Storage.BUFFER:
        return f"{head}{{ return textureLoad({name}_data, {_texel_position(desc)}, 0); }}\n"
    value = f"{name}_data[{_index(desc)}]"
    if desc.dtype is not DType.F32:
        value = f"vec4<f32>({value})"
    return f"{head}{{ return {value}; }}\n"


def _writer(name: str, desc: TensorDesc) -> str:
    head = f"fn {name}_write(b: u32, y: u32, x: u32, s: u32, v: vec4<f32>) "
    if desc.storage is not Storage.BUFFER:
        return f"{head}{{ textureStore({name}_data, {_texel_position(desc)}, v); }}\n"
    value = "v" if desc.dtype is DType.F32 else f"vec4<{desc.dtype.value}>(v)"
    return f"{head}{{ {name}_data[{_index(desc)}] = {value}; }}\n"


def _half_reader(name: str, desc: TensorDesc) -> str:
    head = f"fn {name}_read_h(b: u32, y: u32, x: u32, s: u32) -> vec4<f16> "
    if desc.storage is not Storage.BUFFER:
        texel = f"textureLoad({name}_data, {_texel_position(desc)}, 0)"
        return f"{head}{{ return vec4<f16>({texel}); }}\n"
    value = f"{name}_data[{_index(desc)}]"
    if desc.dtype is not DType.F16:
        value = f"vec4<f16>({value})"
    return f"{head}{{ return {value}; }}\n"


def _flat_row(desc: TensorDesc) -> str:
    """Axes b, y, x of row x; where w is 1, the longer axis counts the rows."""
    shape = desc.shape
    if shape.w > 1 or desc.storage is not Storage.BUFFER or desc.layout is not Layout.ROWS:
        return "0u, 0u, x"
    return "0u, x, 0u" if shape.h > 1 else "x, 0u, 0u"
