"""Devices that kernel tests run on: everything, and without one technique each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.gpu.device import Device, open_device
from engine.gpu.errors import NoAdapterError

KINDS = ("full", "no_f16", "no_subgroups", "small_limits")
_WITHOUT = {
    "full": frozenset[str](),
    "no_f16": frozenset({"f16"}),
    "no_subgroups": frozenset({"subgroups"}),
    "small_limits": frozenset({"limits"}),
}
_opened: dict[str, Device] = {}


def opened(kind: str) -> Device:
    """The session's device of a kind, opened at its first use."""
    if kind not in _opened:
        try:
            _opened[kind] = open_device(without=_WITHOUT[kind])
        except NoAdapterError as error:
            pytest.skip(f"no GPU driver here: {error}")
    return _opened[kind]


@pytest.fixture(scope="session", autouse=True)
def _close_devices() -> Iterator[None]:
    yield
    for device in _opened.values():
        device.close()
    _opened.clear()


@pytest.fixture(scope="session")
def full() -> Device:
    """The device with everything that it offers."""
    return opened("full")


@pytest.fixture(scope="session")
def no_f16() -> Device:
    """The device without f16 arithmetic and storage."""
    return opened("no_f16")


@pytest.fixture(scope="session")
def no_subgroups() -> Device:
    """The device without subgroup operations."""
    return opened("no_subgroups")


@pytest.fixture(scope="session")
def small_limits() -> Device:
    """The device with the limits that every WebGPU device has: 8 buffers, 128 MiB bindings."""
    return opened("small_limits")


@pytest.fixture(scope="session", params=KINDS)
def device(request: pytest.FixtureRequest) -> Device:
    """Each kind of device in turn."""
    return opened(request.param)
