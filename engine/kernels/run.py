"""From dispatches to commands: look up resources, compile, bind; run once or often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.gpu.commands import Command, CommandList, record, submit
from engine.gpu.compiling import Source, compile_all
from engine.gpu.device import Device, Texture
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import BufferRange, bind, compile_pipeline
from engine.graph.node import Value
from engine.kernels.base import Dispatch, generate
from engine.tensor.descriptor import Storage, TensorDesc
from engine.tensor.layouts import from_physical, to_physical
from engine.tensor.weights import WeightDesc


@dataclass(frozen=True)
class WeightPart:
    """One object of a weight: a run of rows, its codes and (quantised kinds) its scales."""

    codes: BufferRange
    scales: BufferRange | None


@dataclass(frozen=True)
class Store:
    """Where every value of a graph lives on the GPU."""

    tensors: dict[Value, BufferRange | Texture] = field(
        default_factory=dict[Value, BufferRange | Texture]
    )
    weights: dict[Value, tuple[WeightPart, ...]] = field(
        default_factory=dict[Value, tuple[WeightPart, ...]]
    )

    def resource(self, value: Value, plane: str, part: int) -> BufferRange | Texture:
        """What to bind for a value (for a weight: which plane of which part)."""
        if not plane:
            return self.tensors[value]
        found = self.weights[value][part]
        if plane == "codes":
            return found.codes
        if found.scales is None:
            raise ValueError(f"{value.name} has no scales")
        return found.scales


def prepare(device: Device, dispatches: Sequence[Dispatch], store: Store) -> CommandList:
    """Compile and bind dispatches for replay.

    Raises:
        ShaderError: a shader does not compile, or a binding does not fit.
    """
    compile_dispatches(device, dispatches)
    commands: list[Command] = []
    for dispatch in dispatches:
        shader = generate(dispatch, device.caps)
        pipeline = compile_pipeline(
            device, shader.source, shader.slots, dispatch.label or dispatch.template
        )
        resources = [store.resource(b.value, plane, b.part) for b, plane in shader.plan]
        group = bind(device, pipeline, resources)
        commands.append(Command(pipeline, group, dispatch.grid, dispatch.label))
    return record(device, commands)


def compile_dispatches(
    device: Device,
    dispatches: Iterable[Dispatch],
    cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Compile what dispatches need, several at once where the device gains by it."""
    sources: dict[str, Source] = {}
    for dispatch in dispatches:
        shader = generate(dispatch, device.caps)
        label = dispatch.label or dispatch.template
        sources.setdefault(shader.source, Source(shader.source, shader.slots, label))
    compile_all(device, list(sources.values()), cancelled)


def allocate(device: Device, desc: TensorDesc, purpose: Purpose) -> BufferRange | Texture:
    """Zeroed memory for one tensor."""
    if desc.storage is Storage.BUFFER:
        buffer = device.create_buffer(desc.nbytes, purpose)
        return BufferRange(buffer, 0, buffer.nbytes)
    return device.create_texture(
        desc.texture_extent(),
        f16=desc.dtype.nbytes == 2,
        array=desc.storage is Storage.TEXTURE_2D_ARRAY,
    )


def write_tensor(
    device: Device, target: BufferRange | Texture, desc: TensorDesc, values: np.ndarray
) -> None:
    """Copy logical values ``[b, h, w, c]`` into a tensor's memory."""
    data = to_physical(values, desc)
    if isinstance(target, BufferRange):
        device.upload(target.buffer, data, target.offset)
        return
    width, height, layers = desc.texture_extent()
    texel_bytes = 4 * desc.dtype.nbytes
    device.raw.queue.write_texture(
        {"texture": target.raw},
        data,
        {"bytes_per_row": width * texel_bytes, "rows_per_image": height},
        (width, height, layers),
    )


def read_tensor(device: Device, source: BufferRange | Texture, desc: TensorDesc) -> np.ndarray:
    """A tensor's logical values ``[b, h, w, c]``; waits for the GPU."""
    if isinstance(source, BufferRange):
        return from_physical(device.download(source.buffer, desc.nbytes, source.offset), desc)
    width, height, layers = desc.texture_extent()
    texel_bytes = 4 * desc.dtype.nbytes
    data = device.raw.queue.read_texture(
        {"texture": source.raw},
        {"bytes_per_row": width * texel_bytes, "rows_per_image": height},
        (width, height, layers),
    )
    return from_physical(np.frombuffer(data, np.uint8), desc)


def upload_planes(
    device: Device, desc: WeightDesc, codes: np.ndarray, scales: np.ndarray
) -> tuple[WeightPart, ...]:
    """Upload a packed weight (uint32 ``[rows, words]`` planes) into the parts that ``desc`` names.

    For small weights and tests; models are uploaded in pieces by ``engine.kernels.weights``.
    """
    parts: list[WeightPart] = []
    start = 0
    for rows in desc.parts:
        planes: list[BufferRange | None] = []
        for plane in (codes, scales):
            piece = np.ascontiguousarray(plane[start : start + rows])
            if piece.size == 0:
                planes.append(None)
                continue
            buffer = device.create_buffer(piece.nbytes, Purpose.WEIGHTS)
            device.upload(buffer, piece)
            planes.append(BufferRange(buffer, 0, buffer.nbytes))
        code_range, scale_range = planes
        if code_range is None:
            raise ValueError("a weight needs codes")
        parts.append(WeightPart(code_range, scale_range))
        start += rows
    return tuple(parts)


def run_once(
    device: Device,
    dispatches: Sequence[Dispatch],
    inputs: Mapping[Value, np.ndarray],
    weights: Mapping[Value, tuple[np.ndarray, np.ndarray]],
    outputs: Sequence[Value],
) -> list[np.ndarray]:
    """Run dispatches on numpy arrays: for tests and for the self-test of an adapter.

    Args:
        inputs: logical values of every tensor that is read before it is written.
        weights: packed (codes, scales) planes.
        outputs: what to read back.

    Returns:
        The outputs' logical values ``[b, h, w, c]``.
    """
    store = Store()
    for dispatch in dispatches:
        for each in dispatch.binds:
            desc = each.value.desc
            if isinstance(desc, TensorDesc) and each.value not in store.tensors:
                store.tensors[each.value] = allocate(device, desc, Purpose.OTHER)
    for value, array in inputs.items():
        if isinstance(value.desc, TensorDesc) and value in store.tensors:
            write_tensor(device, store.tensors[value], value.desc, array)
    for value, (codes, scales) in weights.items():
        if isinstance(value.desc, WeightDesc):
            store.weights[value] = upload_planes(device, value.desc, codes, scales)
    try:
        submit(device, [prepare(device, dispatches, store)])
        return [
            read_tensor(device, store.tensors[value], value.desc)
            for value in outputs
            if isinstance(value.desc, TensorDesc)
        ]
    finally:
        free_store(store)


def free_store(store: Store) -> None:
    """Give back every buffer and texture of a store (shared buffers once)."""
    for resource in store.tensors.values():
        if isinstance(resource, Texture):
            resource.destroy()
        else:
            resource.buffer.destroy()
    for parts in store.weights.values():
        for part in parts:
            part.codes.buffer.destroy()
            if part.scales is not None:
                part.scales.buffer.destroy()
