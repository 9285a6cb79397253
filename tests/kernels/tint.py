"""Tint without a GPU: Dawn's null back end compiles WGSL and runs nothing.

naga accepts more than the standard (mixed shifts without parentheses, say), so every shader also
goes through the stricter compiler here, as a device of NVIDIA's kind would be given it.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from engine.gpu.capabilities import Capabilities, Limits, MatrixShape
from engine.gpu.shaders import prelude
from engine.kernels.base import Dispatch, generate

MATRICES = tuple(
    MatrixShape(m, n, k, "f16", output)
    for m, n, k in ((16, 16, 16), (16, 8, 16), (16, 8, 8))
    for output in ("f32", "f16")
)
NVIDIA = Capabilities(
    backend="dawn",
    api="Vulkan",
    device="a pretended NVIDIA card",
    driver="none",
    vendor="nvidia",
    kind="discrete",
    library="0",
    f16=True,
    subgroups=True,
    subgroup_min=32,
    subgroup_max=32,
    dp4a=True,
    matrix=MATRICES,
    timestamps=True,
    unified_memory=False,
    limits=Limits(1 << 19, (2 << 30) - 16, (4 << 30) - 16, 49152, 1024, 1024),
)
AMD = replace(NVIDIA, vendor="amd", subgroup_min=64, subgroup_max=64, matrix=())
INTEL = replace(NVIDIA, vendor="intel", subgroup_min=8, subgroup_max=32, matrix=())
PLAIN = replace(
    NVIDIA, vendor="plain", f16=False, subgroups=False, subgroup_min=0, subgroup_max=0, matrix=()
)


@lru_cache(maxsize=1)
def _raw() -> Any:
    dawn = pytest.importorskip("wgpudawn")
    from wgpudawn.backends.dawn import extras

    with contextlib.suppress(RuntimeError):
        extras.set_instance_extras(enable_toggles=["allow_unsafe_apis"])
    os.environ["WGPU_BACKEND_TYPE"] = "Null"
    try:
        adapter = dawn.gpu.request_adapter_sync()
    finally:
        del os.environ["WGPU_BACKEND_TYPE"]
    wanted = ("shader-f16", "subgroups", "chromium-experimental-subgroup-matrix")
    return adapter.request_device_sync(
        required_features=[name for name in wanted if name in adapter.features]
    )


def compile_with_tint(dispatch: Dispatch, caps: Capabilities) -> None:
    """Raise RuntimeError where Tint refuses the shader of ``dispatch``.

    Only the module is made: the null back end has small limits, which a pipeline would run into.
    """
    source = generate(dispatch, caps).source
    _raw().create_shader_module(code=prelude(caps, source) + source)
