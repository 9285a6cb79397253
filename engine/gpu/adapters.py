"""Finding the best adapter through wgpu-native or Dawn, and opening a device on it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.gpu.errors import NoAdapterError

log = logging.getLogger(__name__)

_KINDS = {
    "DiscreteGPU": "discrete",
    "IntegratedGPU": "integrated",
    "CPU": "software",
}
_KIND_ORDER = ("discrete", "integrated", "unknown", "software")
# OpenGL adapters lack what our kernels need; Vulkan comes before DirectX 12, which has no f16 and
# no subgroups in the wheel that wgpu ships for Windows.
_APIS = {"Vulkan": "Vulkan", "Metal": "Metal", "D3D12": "D3D12"}
_API_ORDER = ("Vulkan", "Metal", "D3D12")
_NATIVE_FEATURES = ("shader-f16", "subgroup", "timestamp-query", "timestamp-query-inside-passes")
_DAWN_FEATURES = (
    "shader-f16",
    "subgroups",
    "timestamp-query",
    "chromium-experimental-timestamp-query-inside-passes",
    "chromium-experimental-subgroup-matrix",
)
_DAWN_INSTANCE_TOGGLES = ("allow_unsafe_apis", "vulkan_enable_f16_on_nvidia")
# Our kernels write workgroup memory before they read it, so its zeroing is left out too.
_DAWN_DEVICE_TOGGLES = ("disable_robustness", "skip_validation", "disable_workgroup_init")
_DAWN_DEVICE_TOGGLES_OFF = ("timestamp_quantization",)  # in steps of 65 us nothing can be timed
_instance_ready: set[str] = set()


@dataclass(frozen=True)
class Adapter:
    """One adapter of one back end, before it is opened."""

    backend: str
    name: str
    kind: str
    api: str
    info: Any
    raw: Any


def backends() -> tuple[str, ...]:
    """Names of the back ends whose library is installed; Dawn first where it is."""
    found = ["wgpu"]
    if importlib.util.find_spec("wgpudawn") is not None:
        found.insert(0, "dawn")
    return tuple(found)


def load_api(backend: str) -> Any:
    """The Python module of a back end, with its instance set up."""
    if backend not in ("wgpu", "dawn"):
        raise NoAdapterError(f"There is no backend called {backend!r}: choose wgpu or dawn.")
    name = "wgpudawn" if backend == "dawn" else "wgpu"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        hint = " Install the extra 'dawn'." if backend == "dawn" else ""
        raise NoAdapterError(f"The backend {backend} is not installed ({error}).{hint}") from error
    if backend not in _instance_ready:
        _set_up_instance(backend, module)
        _instance_ready.add(backend)
    return module


def _set_up_instance(backend: str, module: Any) -> None:
    extras = importlib.import_module(
        "wgpudawn.backends.dawn.extras" if backend == "dawn" else "wgpu.backends.wgpu_native.extras"
    )
    # An instance that somebody else already made keeps its own settings: only speed is lost.
    with contextlib.suppress(RuntimeError):
        if backend == "dawn":
            extras.set_instance_extras(enable_toggles=_DAWN_INSTANCE_TOGGLES)
        else:
            extras.set_instance_extras(
                backends=["Vulkan", "Metal", "DX12"], flags=["DiscardHalLabels"]
            )
    del module


def list_adapters(backend: str) -> list[Adapter]:
    """Every usable adapter of a back end, best first."""
    module = load_api(backend)
    try:
        raw = module.gpu.enumerate_adapters_sync()
    except Exception as error:  # the library raises bare RuntimeErrors for a missing driver
        log.info("%s finds no adapters: %s", backend, error)
        return []
    return _ordered(_described(backend, adapter) for adapter in raw)


def _described(backend: str, raw: Any) -> Adapter:
    info = raw.info
    return Adapter(
        backend=backend,
        name=str(info.get("device") or info.get("description") or "unnamed"),
        kind=_KINDS.get(str(info.get("adapter_type")), "unknown"),
        api=_APIS.get(str(info.get("backend_type")), ""),
        info=dict(info),
        raw=raw,
    )


def _ordered(adapters: Iterable[Adapter]) -> list[Adapter]:
    usable = [adapter for adapter in adapters if adapter.api]
    return sorted(
        usable, key=lambda a: (_KIND_ORDER.index(a.kind), _API_ORDER.index(a.api), a.name)
    )


def choose_adapter(backend: str | None, name: str | None) -> Adapter:
    """The best adapter: a discrete GPU before an integrated one before software.

    Args:
        backend: "wgpu", "dawn", or None for whichever offers the best adapter, Dawn on a tie.
        name: part of an adapter's name that must match, any case.

    Raises:
        NoAdapterError: nothing fits; the message lists what was found.
    """
    wanted = (backend,) if backend else backends()
    found = [adapter for each in wanted for adapter in list_adapters(each)]
    matching = [a for a in found if name is None or name.lower() in a.name.lower()]
    if not matching:
        raise NoAdapterError(_nothing_found(found, name))
    best = min(_KIND_ORDER.index(adapter.kind) for adapter in matching)
    return next(adapter for adapter in matching if _KIND_ORDER.index(adapter.kind) == best)


def _nothing_found(found: list[Adapter], name: str | None) -> str:
    if not found:
        return (
            "No GPU driver was found. Install your GPU's driver (on Linux its Vulkan driver; "
            "mesa-vulkan-drivers has a slow software one)."
        )
    names = ", ".join(sorted({adapter.name for adapter in found}))
    return f"No GPU is called {name!r} here. Found: {names}."


def request_device(adapter: Adapter, small_limits: bool) -> Any:
    """Open the raw device with the features that we use and the adapter's own limits."""
    offered = set(adapter.raw.features)
    wanted = _DAWN_FEATURES if adapter.backend == "dawn" else _NATIVE_FEATURES
    features = [feature for feature in wanted if feature in offered]
    # wgpu-native gives the adapter's limits where none are asked for, so the small ones are named.
    limits = dict(_PORTABLE_LIMITS) if small_limits else _limits(adapter)
    try:
        if adapter.backend == "dawn":
            extras = importlib.import_module("wgpudawn.backends.dawn.extras")
            return extras.request_device_sync(
                adapter.raw,
                required_features=features,
                required_limits=limits,
                enable_toggles=_DAWN_DEVICE_TOGGLES,
                disable_toggles=_DAWN_DEVICE_TOGGLES_OFF,
            )
        return adapter.raw.request_device_sync(required_features=features, required_limits=limits)
    except RuntimeError as error:
        raise NoAdapterError(f"{adapter.name} was found but cannot be opened: {error}") from error


_WANTED_LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-storage-textures-per-shader-stage",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-size-y",
    "max-compute-workgroups-per-dimension",
    "max-texture-dimension-2d",
    "max-texture-array-layers",
    "min-storage-buffer-offset-alignment",
)

#: What every WebGPU device has.
_PORTABLE_LIMITS = {
    "max-buffer-size": 256 << 20,
    "max-storage-buffer-binding-size": 128 << 20,
    "max-storage-buffers-per-shader-stage": 8,
    "max-storage-textures-per-shader-stage": 4,
    "max-compute-workgroup-storage-size": 16 << 10,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroups-per-dimension": 65535,
    "max-texture-dimension-2d": 8192,
    "max-texture-array-layers": 256,
    "min-storage-buffer-offset-alignment": 256,
}


def _limits(adapter: Adapter) -> dict[str, int]:
    offered = adapter.raw.limits
    return {name: offered[name] for name in _WANTED_LIMITS if name in offered}
