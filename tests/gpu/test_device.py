"""An open device: memory is counted, errors are typed, work is replayed and read back late."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.gpu.adapters import choose_adapter
from engine.gpu.commands import Command, record, submit
from engine.gpu.device import Device, open_device
from engine.gpu.errors import DeviceLostError, NoAdapterError, OutOfMemoryError, ShaderError
from engine.gpu.ledger import Purpose
from engine.gpu.readback import ReadbackRing
from engine.gpu.shaders import BindingKind, BindingSlot, BufferRange, bind, compile_pipeline, render
from engine.gpu.timing import time_commands

ADD_ONE = """
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@compute @workgroup_size(1) fn main() { data[0] = data[0] + 1u; }
"""


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = open_device(backend="wgpu")
    yield opened
    opened.close()


def add_one(device: Device, buffer: BufferRange) -> Command:
    pipeline = compile_pipeline(device, ADD_ONE, [BindingSlot(BindingKind.READ_WRITE)], "add one")
    return Command(pipeline, bind(device, pipeline, [buffer]), (1, 1, 1))


def test_the_subgroup_size_is_probed_and_sane(device: Device) -> None:
    caps = device.caps
    assert not caps.subgroups or 4 <= caps.subgroup_min <= caps.subgroup_max <= 128


def test_an_unknown_name_lists_what_was_found() -> None:
    with pytest.raises(NoAdapterError, match=r"No GPU is called 'no such card'.*Found:"):
        choose_adapter("wgpu", "no such card")


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(NoAdapterError, match="choose wgpu or dawn"):
        open_device(backend="cuda")


def test_techniques_are_switched_off_by_name(device: Device) -> None:
    caps = device.caps.switched(frozenset({"f16", "subgroups"}))
    assert (caps.f16, caps.subgroups, caps.subgroup, caps.matrix) == (False, False, 0, ())


def test_an_unknown_switch_names_the_known_ones(device: Device) -> None:
    with pytest.raises(ValueError, match="cannot switch off warp: choose from"):
        device.caps.switched(frozenset({"warp"}))


def test_the_ledger_follows_buffers(device: Device) -> None:
    before = device.ledger.totals().total
    buffer = device.create_buffer(1000, Purpose.WEIGHTS)
    assert device.ledger.totals().total == before + 1008  # rounded up to 16
    buffer.destroy()
    buffer.destroy()
    assert device.ledger.totals().total == before


def test_an_impossible_buffer_is_out_of_memory(device: Device) -> None:
    with pytest.raises(OutOfMemoryError, match="no room for"):
        device.create_buffer(1 << 45, Purpose.WEIGHTS)


@pytest.mark.parametrize("nbytes", [4, 5, 4 << 20, (4 << 20) + 7, 9 << 20])
def test_uploads_arrive_whole(device: Device, nbytes: int) -> None:
    data = np.random.default_rng(0).integers(0, 255, nbytes).astype(np.uint8)
    buffer = device.create_buffer(nbytes, Purpose.OTHER)
    device.upload(buffer, data)
    assert (device.download(buffer, nbytes) == data).all()
    buffer.destroy()


def test_a_list_is_replayed_as_often_as_submitted(device: Device) -> None:
    buffer = device.create_buffer(4, Purpose.OTHER)
    commands = record(device, [add_one(device, BufferRange(buffer))] * 3)
    for _ in range(5):
        submit(device, [commands, commands])
    assert device.download(buffer, 4).view(np.uint32)[0] == 30


def test_a_ring_gives_each_step_its_own_value(device: Device) -> None:
    buffer = device.create_buffer(16, Purpose.OTHER)
    ring = ReadbackRing(device, 16, depth=3)
    commands = record(device, [add_one(device, BufferRange(buffer))])
    seen: list[int] = []
    for _ in range(7):
        ring.filled(submit(device, [commands], ring.copy_from((buffer, 0, 16))))
        if ring.full:
            seen.append(int(ring.take().view(np.uint32)[0]))
    while ring.in_flight:
        seen.append(int(ring.take().view(np.uint32)[0]))
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    ring.destroy()


def test_commands_can_be_timed_one_by_one(device: Device) -> None:
    buffer = device.create_buffer(4, Purpose.OTHER)
    seconds = time_commands(device, record(device, [add_one(device, BufferRange(buffer))] * 4), 2)
    assert seconds.shape == (2, 4)
    assert not device.caps.timestamps or (seconds >= 0).all()


def test_a_broken_shader_keeps_its_source(device: Device) -> None:
    with pytest.raises(ShaderError, match="does not compile") as caught:
        compile_pipeline(device, "@compute fn main() { nonsense }", [], "broken")
    assert "nonsense" in caught.value.source


def test_a_template_without_its_parameter_is_named() -> None:
    with pytest.raises(ShaderError, match=r"norm/rms_norm\.wgsl"):
        render("norm/rms_norm.wgsl", {})


def test_too_many_workgroups_are_refused_before_the_driver_sees_them(device: Device) -> None:
    buffer = device.create_buffer(4, Purpose.OTHER)
    command = add_one(device, BufferRange(buffer))
    with pytest.raises(ShaderError, match="workgroups"):
        record(device, [Command(command.pipeline, command.group, (70000, 1, 1), "wide")])


def test_the_same_shader_is_compiled_once(device: Device) -> None:
    buffer = BufferRange(device.create_buffer(4, Purpose.OTHER))
    assert add_one(device, buffer).pipeline is add_one(device, buffer).pipeline


def test_a_lost_device_is_a_typed_error() -> None:
    import logging

    device = open_device(backend="wgpu")
    logging.getLogger("wgpu").error("The WGPU device was lost (Unknown):\nParent device is lost")
    with pytest.raises(DeviceLostError, match="stopped answering"):
        device.create_buffer(16, Purpose.OTHER)
    device.close()
