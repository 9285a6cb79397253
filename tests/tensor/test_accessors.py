"""One kernel over every layout and storage: the accessors hide how a tensor lies in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.gpu.commands import Command, record, submit
from engine.gpu.device import Device, open_device
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import bind, compile_pipeline
from engine.kernels.run import allocate, read_tensor, write_tensor
from engine.tensor.accessors import accessors, binding_slot, declare
from engine.tensor.descriptor import DType, Layout, Shape, Storage, TensorDesc
from engine.tensor.layouts import from_physical, to_physical

SHAPES = [
    Shape(),
    Shape(c=5),
    Shape(w=3, c=8),
    Shape(2, 3, 5, 7),
    Shape(h=2, w=1, c=12),
    Shape(b=3),
]

# y = 2 x, one invocation a vector; the same text whatever the tensors' form
DOUBLE = """
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3<u32>) {{
    for (var y = 0u; y < {h}u; y++) {{
        for (var b = 0u; b < {b}u; b++) {{
            y_write(b, y, id.x, id.y, 2.0 * x_read(b, y, id.x, id.y));
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = open_device(backend="wgpu")
    yield opened
    opened.close()


def numbers(shape: Shape) -> np.ndarray:
    count = shape.elements
    return (np.arange(count, dtype=np.float32) / 4 - 3).reshape(shape.b, shape.h, shape.w, shape.c)


def doubled(device: Device, source: TensorDesc, target: TensorDesc) -> np.ndarray:
    shape = source.shape
    body = DOUBLE.format(h=shape.h, b=shape.b)
    parts = [declare("x", source, 0, False), declare("y", target, 1, True)]
    parts += [body, accessors("x", source, body), accessors("y", target, body)]
    slots = [binding_slot(source, False), binding_slot(target, True)]
    pipeline = compile_pipeline(device, "".join(parts), slots, "double")
    x = allocate(device, source, Purpose.OTHER)
    y = allocate(device, target, Purpose.OTHER)
    write_tensor(device, x, source, numbers(shape))
    group = bind(device, pipeline, [x, y])
    submit(device, [record(device, [Command(pipeline, group, (shape.w, shape.slices, 1))])])
    return read_tensor(device, y, target)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", Layout)
def test_memory_order_is_undone_by_its_inverse(shape: Shape, layout: Layout) -> None:
    desc = TensorDesc(shape, layout=layout)
    flat = to_physical(numbers(shape), desc).view(np.uint8)
    assert flat.nbytes == desc.nbytes
    assert (from_physical(flat, desc) == numbers(shape)).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_form_reads_and_writes_the_same(
    device: Device, shape: Shape, layout: Layout, dtype: DType
) -> None:
    if dtype is DType.F16 and not device.caps.f16:
        pytest.skip("no f16 here")
    plain = TensorDesc(shape, dtype)
    for storage in Storage:
        form = TensorDesc(shape, dtype, layout, storage)
        assert (doubled(device, form, plain) == 2 * numbers(shape)).all(), f"read {storage}"
        assert (doubled(device, plain, form) == 2 * numbers(shape)).all(), f"write {storage}"


def test_an_axis_of_no_length_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Shape(c=0)
