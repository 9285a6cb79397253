"""Many pipelines at once give what one after the other would, and hide no error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from engine.gpu.compiling import Source, compile_all
from engine.gpu.device import Device, open_device
from engine.gpu.errors import NoAdapterError, ShaderError
from engine.gpu.shaders import BindingKind, BindingSlot, compile_pipeline

SLOTS = (BindingSlot(BindingKind.READ_WRITE),)


def source(number: int, body: str = "y[i.x] = {}u;") -> Source:
    text = f"""@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) i: vec3<u32>) {{
    {body.format(number)}
}}
"""
    return Source(text, SLOTS, f"number {number}")


@pytest.fixture
def device() -> Iterator[Device]:
    """A device that takes itself for hardware."""
    try:
        opened = open_device()
    except NoAdapterError as error:
        pytest.skip(f"no GPU driver here: {error}")
    opened.caps = replace(opened.caps, kind="discrete")
    yield opened
    opened.close()


def test_all_are_there_afterwards(device: Device) -> None:
    wanted = [source(number) for number in range(12)]
    compile_all(device, [*wanted, *wanted])
    assert len(device.pipelines) == 12
    made = list(device.pipelines.values())
    assert compile_pipeline(device, wanted[3].text, SLOTS, "again") in made
    assert len(device.pipelines) == 12


def test_a_broken_one_speaks_when_it_is_asked_for(device: Device) -> None:
    wanted = [source(number) for number in range(6)] + [source(9, "y[i.x] = {}u +;")]
    compile_all(device, wanted)
    for each in wanted[:-1]:
        compile_pipeline(device, each.text, each.slots, each.label)
    with pytest.raises(ShaderError, match="number 9 does not compile here"):
        compile_pipeline(device, wanted[-1].text, SLOTS, "number 9")


def test_a_stopped_compile_leaves_the_rest(device: Device) -> None:
    compile_all(device, [source(number) for number in range(6)], lambda: True)
    assert not device.pipelines


def test_a_software_driver_is_left_to_compile_at_the_first_run(device: Device) -> None:
    device.caps = replace(device.caps, kind="software")
    compile_all(device, [source(number) for number in range(6)])
    assert not device.pipelines


@pytest.fixture
def dawn() -> SimpleNamespace:
    """What is asked of a device, over Dawn's back end that runs nothing."""
    from kernels.tint import PLAIN, null_device

    raw = null_device()
    module = pytest.importorskip("wgpudawn")
    return SimpleNamespace(raw=raw, module=module, caps=PLAIN, pipelines={}, check=lambda: None)


def test_dawn_compiles_on_its_own_threads(dawn: Any) -> None:
    wanted = [source(number) for number in range(6)]
    compile_all(dawn, [*wanted, source(9, "y[i.x] = {}u +;")])
    assert len(dawn.pipelines) == 6
    again = compile_pipeline(dawn, wanted[2].text, SLOTS, "again")
    assert again.raw is not None
    assert len(dawn.pipelines) == 6
    with pytest.raises(ShaderError, match="number 9 does not compile here"):
        compile_pipeline(dawn, source(9, "y[i.x] = {}u +;").text, SLOTS, "number 9")


def test_dawn_begins_no_more_once_stopped(dawn: Any) -> None:
    asked = iter(range(100))
    compile_all(dawn, [source(number) for number in range(6)], lambda: next(asked) >= 2)
    assert len(dawn.pipelines) == 2
