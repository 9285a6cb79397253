"""What the worker's events carry, as typed dictionaries."""

from __future__ import annotations

from typing import TypedDict


class Message(TypedDict):
    """One message of a conversation; role is system, user or assistant."""

    role: str
    content: str


class MemoryFigures(TypedDict):
    """GPU memory in bytes; null where the platform does not tell."""

    weights: int
    kv_cache: int
    activations: int
    other: int
    total: int  # the sum of the four above: what we hold
    peak: int
    device_total: int | None
    device_used: int | None  # by every program together
    others: int | None  # by other programs
    device_name: str
    backend: str  # the library that speaks to the GPU: wgpu or dawn
    unified: bool  # the GPU shares the computer's main memory


class ModelFields(TypedDict):
    """An installed model as the worker lists it."""

    name: str
    path: str
    bytes: int
    kind: str
    family: str
    quant: str
    context: int  # the longest the model was made for
    licence: str
    parameters: int
    problem: str | None  # why it cannot be used, as a sentence
    need_bytes: int | None  # GPU memory with the default context: the three below together
    weight_bytes: int
    kv_bytes_per_token: int
    activation_bytes: int
    loaded: bool
    loaded_context: int | None  # tokens it was loaded with; None of picture models
    title: str  # its own name for people, "" where it has none
    removable: bool  # False: it came with Driftwood


class CatalogueFields(TypedDict):
    """A model that can be had by ``model_get``."""

    name: str
    title: str
    family: str
    kind: str
    parameters: int
    quant: str
    bytes: int
    licence: str
    context: int
    description: str
    source: str
    gated: bool
    installed: bool
    need_bytes: int
    weight_bytes: int
    kv_bytes_per_token: int
    activation_bytes: int
