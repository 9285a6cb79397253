"""From a model file to a :class:`Runner`: check, describe, plan, compile, upload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.formats.gguf import GgufFile, open_gguf
from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.gpu.shaders import BufferRange
from engine.graph.node import Role, Value
from engine.kernels import rope
from engine.kernels.run import Store, allocate, free_store
from engine.tensor.descriptor import DType, vector
from engine.text import llama
from engine.text.config import TransformerConfig, read_config
from engine.text.errors import UnsupportedModelError
from engine.text.model import ModelValues, cache_desc, gain, state_values
from engine.text.runner import Runner
from engine.text.weights import (
    Cancelled,
    Progress,
    WeightPlan,
    check_tensors,
    expected_shapes,
    plan_layer,
    plan_matrix,
    upload_weights,
)

DEFAULT_CONTEXT = 4096


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to run.

    Attributes:
        weight_bytes: bytes of all tensors as they lie in the file.
    """

    path: Path
    config: TransformerConfig
    context: int
    runner: Runner
    metadata: dict[str, object]
    weight_bytes: int


def load(
    device: Device,
    path: Path,
    context: int | None,
    progress: Progress,
    cancelled: Cancelled,
) -> Loaded:
    """Load a GGUF model at a context length (default: the model's, at most 4,096 tokens).

    Raises:
        FormatError: the file is broken.
        UnsupportedModelError: the file is sound but not one that we run.
        OutOfMemoryError: it does not fit; everything allocated so far has been given back.
        LoadCancelledError: ``cancelled()`` became true.
    """
    progress("reading", 0, 1)
    with open_gguf(path) as file:
        config = _config(file)
        context = _context(config, context)
        store = Store()
        try:
            return _load_into(device, file, config, context, store, progress, cancelled)
        except BaseException:
            free_store(store)
            raise


def _config(file: GgufFile) -> TransformerConfig:
    if file.architecture != llama.ARCHITECTURE:
        raise UnsupportedModelError(
            f"{file.path.name} is a {file.architecture or 'nameless'} model; this version runs "
            "the llama family (SmolLM2, Llama, Mistral, TinyLlama)."
        )
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise UnsupportedModelError(f"{file.path.name} has no token embedding.")
    config = read_config(dict(file.metadata), embedding.shape[0], rope_mode=llama.ROPE_MODE)
    expected = expected_shapes(config, llama.LAYER_VECTORS, llama.LAYER_MATRICES)
    if "output.weight" in file.tensors:
        expected["output.weight"] = (config.vocabulary, config.embedding)
    check_tensors(file, expected)
    return config


def _context(config: TransformerConfig, asked: int | None) -> int:
    if asked is None:
        return min(config.context_max, DEFAULT_CONTEXT)
    if not 16 <= asked <= config.context_max:
        raise UnsupportedModelError(
            f"A context of {asked:,} tokens is not possible: "
            f"this model allows 16 to {config.context_max:,}."
        )
    return asked


def _load_into(
    device: Device,
    file: GgufFile,
    config: TransformerConfig,
    context: int,
    store: Store,
    progress: Progress,
    cancelled: Cancelled,
) -> Loaded:
    plans = _plans(file, config, device.caps.limits.binding_bytes)
    values = _values(device, file, config, context, plans, store)
    progress("compiling", 0, 1)
    runner = Runner(device, values, store)
    try:
        upload_weights(device, file, plans, store.weights, progress, cancelled)
        runner.compile(progress)
    except BaseException:
        runner.destroy()
        raise
    progress("compiling", 1, 1)
    return Loaded(
        path=file.path,
        config=config,
        context=context,
        runner=runner,
        metadata=dict(file.metadata),
        weight_bytes=sum(info.nbytes for info in file.tensors.values()),
    )


def _plans(file: GgufFile, config: TransformerConfig, limit: int) -> list[WeightPlan]:
    plans = [plan_matrix(file, "token_embd.weight", ["token_embd.weight"], limit)]
    if "output.weight" in file.tensors:
        plans.append(plan_matrix(file, "output.weight", ["output.weight"], limit))
    for layer in range(config.layers):
        plans += plan_layer(file, layer, llama.LAYER_MATRICES, limit)
    return plans


def _values(
    device: Device,
    file: GgufFile,
    config: TransformerConfig,
    context: int,
    plans: list[WeightPlan],
    store: Store,
) -> ModelValues:
    freqs, magnitude = rope.rope_frequencies(
        rope_dim=config.rope_dim,
        base=config.rope_base,
        kind=config.rope_scaling.kind,
        factor=config.rope_scaling.factor,
        original_context=config.rope_scaling.original_context,
        attention_factor=config.rope_scaling.attention_factor,
        factors=file.dequantise("rope_freqs.weight")
        if "rope_freqs.weight" in file.tensors
        else None,
    )
    # Without f16 the cache is f32: slower and twice as large, but then nothing is rounded.
    cache = cache_desc(config, context, DType.F16 if device.caps.f16 else DType.F32)
    states = state_values(config.vocabulary)
    values = ModelValues(
        config=config,
        context=context,
        weights={plan.value.name: plan.value for plan in plans},
        vectors=_vectors(device, file, plans, store),
        caches=tuple(
            (Value(f"k.{i}", cache, Role.CACHE), Value(f"v.{i}", cache, Role.CACHE))
            for i in range(config.layers)
        ),
        rope_freqs=Value("rope_freqs", vector(config.rope_dim // 2), Role.WEIGHT),
        rope_magnitude=magnitude,
        output_name="output.weight" if "output.weight" in file.tensors else "token_embd.weight",
        state=states["state"],
        history=states["history"],
        params=states["params"],
        stops=states["stops"],
        ring=states["ring"],
    )
    _upload_vector(device, store, values.rope_freqs, freqs)
    for pair in values.caches:
        for value in pair:
            store.tensors[value] = allocate(device, cache, Purpose.KV_CACHE)
    for value in states.values():
        store.tensors[value] = allocate(device, value.tensor, Purpose.OTHER)
    return values


def _vectors(
    device: Device, file: GgufFile, plans: list[WeightPlan], store: Store
) -> dict[str, Value]:
    """Norm gains, and the biases of projections where the file has any (stacked like them)."""
    found: dict[str, np.ndarray] = {}
    for name, info in file.tensors.items():
        if name.endswith("norm.weight") and len(info.shape) == 1:
            found[name] = file.dequantise(name)
    for plan in plans:
        names = [source.name.removesuffix(".weight") + ".bias" for source in plan.sources]
        present = [name in file.tensors for name in names]
        if any(present):
            if not all(present):
                raise UnsupportedModelError(f"Only some of {', '.join(names)} are in the file.")
            stacked = plan.value.name.removesuffix(".weight") + ".bias"
            found[stacked] = np.concatenate([file.dequantise(name) for name in names])
    values: dict[str, Value] = {}
    for name, data in found.items():
        values[name] = gain(name, data.size)
        _upload_vector(device, store, values[name], data)
    return values


def _upload_vector(device: Device, store: Store, value: Value, data: np.ndarray) -> None:
    buffer = device.create_buffer(value.nbytes, Purpose.WEIGHTS)
    device.upload(buffer, data.astype(np.float32).reshape(-1))
    store.tensors[value] = BufferRange(buffer, 0, buffer.nbytes)
