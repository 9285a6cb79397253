"""Ops that only move rows."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.kernel_nodes import STORAGES, make_node, rows_of, run, value

from engine.gpu.device import Device
from engine.graph.node import GraphError, Role
from engine.kernels import rows
from engine.kernels.state import WORDS, pack_state
from engine.tensor.descriptor import DType, Shape, Storage, TensorDesc


@pytest.mark.parametrize(("count", "row"), [(1, 0), (3, 2), (5, 4), (9, 4), (0, 0)])
def test_last_row_is_the_last_valid_one(full: Device, count: int, row: int) -> None:
    x, y = value("x", rows_of(5, 70)), value("y", rows_of(1, 70))
    state = value("state", TensorDesc(Shape(c=WORDS), DType.U32), Role.STATE)
    node = make_node("last_row", {"x": x, "state": state}, [y])
    data = np.random.default_rng(1).normal(size=(5, 70)).astype(np.float32)
    (have,) = run(full, rows.lower(node, full.caps), {x: data, state: pack_state(count=count)}, [y])
    np.testing.assert_array_equal(have[0], data[row])


def check_concat(
    device: Device, widths: tuple[int, ...], storage: Storage = Storage.BUFFER
) -> None:
    """Against numpy, exactly."""
    parts = [value(f"p{i}", rows_of(3, w).with_storage(storage)) for i, w in enumerate(widths)]
    y = value("y", rows_of(3, sum(widths)).with_storage(storage))
    node = make_node("concat", {f"in{i}": part for i, part in enumerate(parts)}, [y])
    rng = np.random.default_rng(2)
    data = {part: rng.normal(size=(3, part.tensor.shape.c)).astype(np.float32) for part in parts}
    (have,) = run(device, rows.lower(node, device.caps), data, [y])
    np.testing.assert_array_equal(have, np.concatenate(list(data.values()), axis=1))


@pytest.mark.parametrize("widths", [(8,), (8, 4, 6), (5, 7, 3), (64, 16, 16)])
def test_concat(device: Device, widths: tuple[int, ...]) -> None:
    check_concat(device, widths)


@pytest.mark.parametrize("storage", STORAGES)
def test_concat_over_storages(full: Device, storage: Storage) -> None:
    check_concat(full, (8, 5, 4), storage)


def test_concat_of_too_many_tensors_says_so(small_limits: Device) -> None:
    with pytest.raises(GraphError, match="binds at most 8"):
        check_concat(small_limits, (4,) * 8)
