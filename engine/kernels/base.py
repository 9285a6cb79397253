"""A dispatch as a plain value, and how it becomes WGSL.

A kernel family lowers a graph node to :class:`Dispatch` values; this module turns each into shader
source (declarations, accessors and block decoders from the descriptors, then the template).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.gpu.capabilities import Capabilities
from engine.gpu.shaders import BindingKind, BindingSlot, render
from engine.graph.node import Value
from engine.tensor.accessors import accessors, binding_slot, declare
from engine.tensor.descriptor import TensorDesc
from engine.tensor.weights import WeightDesc


class Access(enum.Enum):
    """What a dispatch does with a bound value."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"


@dataclass(frozen=True)
class Bind:
    """One graph value bound under a WGSL name.

    A tensor gives the accessors ``name_at`` and so on; with ``raw`` (a WGSL type such as
    ``array<u32>``) it gives ``var name`` instead. A weight gives ``name_codes`` and, for quantised
    kinds, ``name_scales``, and the functions of its block decoder; ``part`` says which of its
    objects (row ranges) is bound.
    """

    name: str
    value: Value
    access: Access = Access.READ
    raw: str = ""
    part: int = 0


@dataclass(frozen=True)
class Dispatch:
    """One kernel call: a template, its parameters, what is bound, and how many workgroups.

    Attributes:
        template: path below ``wgsl/``.
        params: constants of the template.
        binds: in binding order.
        grid: workgroup counts (x, y, z).
        label: what timings and errors call it.
    """

    template: str
    params: Mapping[str, Any]
    binds: tuple[Bind, ...]
    grid: tuple[int, int, int]
    label: str = field(default="", compare=False)


@dataclass(frozen=True)
class Shader:
    """Generated source with the slots it binds, in order; ``plan`` says what goes in each slot."""

    source: str
    slots: tuple[BindingSlot, ...]
    plan: tuple[tuple[Bind, str], ...]  # (bind, "" | "codes" | "scales")


#: Sources by what they are made from: a model's layers differ in the values bound, not in the text,
#: and a large tile takes 16 to 66 ms to render.
_SOURCES: dict[Any, tuple[str, tuple[BindingSlot, ...]]] = {}


def generate(dispatch: Dispatch, caps: Capabilities) -> Shader:
    """The whole shader of a dispatch.

    Raises:
        ShaderError: the template cannot be rendered.
    """
    bound = tuple((b.name, b.value.desc, b.access, b.raw) for b in dispatch.binds)
    key = (dispatch.template, repr(sorted(dispatch.params.items())), bound, caps)
    known = _SOURCES.get(key)
    if known is None:
        known = _SOURCES[key] = _source(dispatch, caps)
    plan = [(bind, plane) for bind in dispatch.binds for plane in _planes(bind)]
    return Shader(*known, tuple(plan))


def _planes(bind: Bind) -> tuple[str, ...]:
    """What is bound for a value: a tensor itself, or the planes of a weight."""
    desc = bind.value.desc
    if not isinstance(desc, WeightDesc):
        return ("",)
    return ("codes", "scales") if desc.scale_words else ("codes",)


def _source(dispatch: Dispatch, caps: Capabilities) -> tuple[str, tuple[BindingSlot, ...]]:
    """Declarations, the rendered template, and the accessors that it calls; its slots."""
    slots: list[BindingSlot] = []
    lines: list[str] = []
    for bind in dispatch.binds:
        if isinstance(bind.value.desc, WeightDesc):
            _declare_weight(bind, slots, lines)
        else:
            lines.append(_declare_tensor(bind, bind.value.desc, len(slots)))
            slots.append(_tensor_slot(bind, bind.value.desc))
    params = {"caps": caps, "f16": caps.f16, "weights": _weight_params(dispatch), **dispatch.params}
    body = render(dispatch.template, params)
    lines += [
        accessors(bind.name, bind.value.desc, body)
        for bind in dispatch.binds
        if isinstance(bind.value.desc, TensorDesc) and not bind.raw
    ]
    return "".join(lines) + body, tuple(slots)


def _tensor_slot(bind: Bind, desc: TensorDesc) -> BindingSlot:
    writes = bind.access is not Access.READ
    if bind.raw:
        return BindingSlot(BindingKind.READ_WRITE if writes else BindingKind.READ)
    return binding_slot(desc, writes)


def _declare_tensor(bind: Bind, desc: TensorDesc, binding: int) -> str:
    writes = bind.access is not Access.READ
    if not bind.raw:
        return declare(bind.name, desc, binding, writes)
    access = "read_write" if writes else "read"
    return f"@group(0) @binding({binding}) var<storage, {access}> {bind.name}: {bind.raw};\n"


def _declare_weight(bind: Bind, slots: list[BindingSlot], lines: list[str]) -> None:
    types = {"codes": "array<vec4<u32>>", "scales": "array<u32>"}
    for plane in _planes(bind):
        at = f"@group(0) @binding({len(slots)})"
        lines.append(f"{at} var<storage, read> {bind.name}_{plane}: {types[plane]};\n")
        slots.append(BindingSlot(BindingKind.READ))


def _weight_params(dispatch: Dispatch) -> dict[str, WeightDesc]:
    return {
        bind.name: bind.value.desc
        for bind in dispatch.binds
        if isinstance(bind.value.desc, WeightDesc)
    }
