"""Token ids become rows of the embedding matrix, whatever its packing, parts and output form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.formats.packed import pack
from engine.formats.quants import Quant, dequantise, quantise
from engine.gpu.device import Device
from engine.graph.node import Node, Role, Value
from engine.kernels.embedding import lower
from engine.kernels.quantise_blocks import weight_desc
from engine.kernels.run import run_once
from engine.tensor.descriptor import DType, Shape, Storage, TensorDesc, matrix

VOCABULARY = 50


def check(
    device: Device,
    ids: list[int],
    *,
    quant: Quant = Quant.Q8_0,
    cols: int = 256,
    parts: tuple[int, ...] = (VOCABULARY,),
    scale: float = 1.0,
    dtype: DType = DType.F32,
    storage: Storage = Storage.BUFFER,
    offset: int = 0,
) -> None:
    """The rows of ``ids`` (clamped to the vocabulary) times ``scale``."""
    values = np.random.default_rng(3).normal(size=(VOCABULARY, cols)).astype(np.float32)
    raw = quantise(values, quant)
    packed = pack(raw, quant, cols)
    weight = Value("w", replace(weight_desc(quant, VOCABULARY, cols), parts=parts), Role.WEIGHT)
    padded = np.array([9] * offset + ids, np.uint32)
    tokens = Value("tokens", TensorDesc(Shape(c=len(padded)), DType.U32), Role.INPUT)
    out = Value("x", matrix(len(ids), cols, dtype).with_storage(storage), Role.OUTPUT)
    attrs = {"inputs": ("tokens", "weight"), "scale": scale, "token_offset": offset}
    node = Node("embedding", (tokens, weight), (out,), attrs)
    planes = {weight: (packed.codes, packed.scales)}
    (have,) = run_once(device, lower(node, device.caps), {tokens: padded}, planes, [out])
    rows = np.minimum(np.array(ids), VOCABULARY - 1)
    want = dequantise(raw, quant, cols)[rows] * np.float32(scale)
    tolerance = 1e-3 if dtype is DType.F16 else 2e-6
    np.testing.assert_allclose(have[0, 0], want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("quant", Quant, ids=lambda quant: quant.name)
def test_every_kind(full: Device, quant: Quant) -> None:
    check(full, [0, 49, 7, 7], quant=quant)


@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_output_form(full: Device, dtype: DType, storage: Storage) -> None:
    check(full, [1, 2, 3], dtype=dtype, storage=storage)


def test_every_device(device: Device) -> None:
    check(device, [4, 0, 31])


def test_one_token_read_from_the_middle_of_a_buffer(full: Device) -> None:
    check(full, [17], offset=5)


def test_width_that_is_no_multiple_of_four(full: Device) -> None:
    check(full, [1, 48], quant=Quant.F16, cols=38)


def test_scaled_as_gemma_does(full: Device) -> None:
    check(full, [1, 2], scale=48.0)


def test_matrix_in_parts(full: Device) -> None:
    check(full, [0, 16, 17, 33, 34, 49], quant=Quant.Q6_K, parts=(17, 17, 16))


def test_ids_past_the_vocabulary_read_the_last_row(full: Device) -> None:
    check(full, [50, 4_000_000_000], parts=(25, 25))


def test_more_workgroups_than_one_dimension_holds(full: Device) -> None:
    small = replace(full.caps.limits, workgroups=3)
    tokens = Value("tokens", TensorDesc(Shape(c=4), DType.U32), Role.INPUT)
    weight = Value("w", weight_desc(Quant.F32, VOCABULARY, 256), Role.WEIGHT)
    out = Value("x", matrix(4, 256), Role.OUTPUT)
    node = Node("embedding", (tokens, weight), (out,), {"inputs": ("tokens", "weight")})
    values = np.random.default_rng(3).normal(size=(VOCABULARY, 256)).astype(np.float32)
    packed = pack(quantise(values, Quant.F32), Quant.F32, 256)
    dispatches = lower(node, replace(full.caps, limits=small))
    assert dispatches[0].grid == (2, 2, 1)
    ids = np.array([3, 1, 4, 1], np.uint32)
    planes = {weight: (packed.codes, packed.scales)}
    (have,) = run_once(full, dispatches, {tokens: ids}, planes, [out])
    np.testing.assert_array_equal(have[0, 0], values[ids])
