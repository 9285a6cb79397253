"""Both WGSL compilers without a GPU: every shader goes through them as real GPUs would be given it.

Tint is reached through Dawn's null back end, which compiles and runs nothing; naga, which accepts
more than the standard (mixed shifts without parentheses, say), through any device of wgpu-native.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import pytest

from engine.gpu.capabilities import Capabilities, Limits, MatrixShape
from engine.gpu.device import open_device
from engine.gpu.errors import NoAdapterError
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
#: The same card through wgpu-native, which has no matrix units.
NAGA = replace(NVIDIA, backend="wgpu", matrix=())
AMD = replace(NVIDIA, vendor="amd", subgroup_min=64, subgroup_max=64, matrix=())
INTEL = replace(NVIDIA, vendor="intel", subgroup_min=8, subgroup_max=32, matrix=())
PLAIN = replace(
    NVIDIA, vendor="plain", f16=False, subgroups=False, subgroup_min=0, subgroup_max=0, matrix=()
)


@lru_cache(maxsize=1)
def null_device() -> Any:
    """The library's device over the back end that runs nothing."""
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


@lru_cache(maxsize=1)
def _naga() -> Any:
    try:
        return open_device("wgpu")
    except NoAdapterError as error:
        pytest.skip(f"no GPU driver here: {error}")


def compile_with_naga(dispatch: Dispatch, caps: Capabilities) -> None:
    """Raise GPUError where naga refuses the shader of ``dispatch``; as with Tint, modules only."""
    source = generate(dispatch, caps).source
    _naga_takes(prelude(caps, source) + source)


@cache
def _naga_takes(code: str) -> None:
    _naga().raw.create_shader_module(code=code)


def compile_with_tint(dispatch: Dispatch, caps: Capabilities) -> None:
    """Raise RuntimeError where Tint refuses the shader of ``dispatch``.

    Only the module is made: the null back end has small limits, which a pipeline would run into.
    """
    source = generate(dispatch, caps).source
    _tint_takes(prelude(caps, source) + source)


@cache
def _tint_takes(code: str) -> None:
    null_device().create_shader_module(code=code)
