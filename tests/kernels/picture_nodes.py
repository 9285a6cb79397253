"""One node of every op of pictures, in both element types, for tests of all variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engine.formats.quants import Quant
from engine.gpu.capabilities import Capabilities
from engine.graph.graph import Graph
from engine.graph.node import Node, Role, Value
from engine.graph.ops_image import HISTORY, STEP_WORDS
from engine.image import selftest
from engine.kernels.quantise_blocks import weight_desc
from engine.kernels.scheduler_step import STATE_WORDS
from engine.tensor.descriptor import DType, Shape, TensorDesc, matrix, vector

PICTURE = Shape(2, 6, 7, 32)


def picture_nodes(caps: Capabilities) -> Iterator[tuple[str, Node]]:
    """Those of the self-test, in 16 bits and in 32, and those that it leaves out."""
    for way in (caps, replace(caps, f16=False)) if caps.f16 else (caps,):
        name = "f16" if way.f16 else "f32"
        for case in selftest.op_cases(way):
            yield f"{case.node.op} {name}", case.node
        for kind in (Quant.F16, Quant.Q8_0) if way is caps else (Quant.F16,):
            for case in selftest.kind_cases(kind, way):
                if case.rows is None:  # the wide convolution is the same kernels again
                    yield f"{case.node.op} {name} {kind.name}", case.node
        dtype = DType.F16 if way.f16 else DType.F32
        for label, node in (*_convolutions(dtype), *_attentions(dtype), *_others(dtype)):
            yield f"{node.op} {name} {label}", node


def _node(graph: Graph, op: str, inputs: dict[str, Value], **attrs: Any) -> Node:
    graph.add(op, inputs, **attrs)
    return graph.nodes[-1]


def _convolutions(dtype: DType) -> Iterator[tuple[str, Node]]:
    """Other kernels and strides; channels that fill no vector, as the first layers have."""
    for label, channels, outputs, attrs in (
        ("1x1", 32, 64, {"kernel": 1}),
        ("halving", 32, 64, {"kernel": 3, "stride": 2, "padding": (0, 0, 1, 1)}),
        ("cropped", 32, 64, {"kernel": 3, "padding": 1, "upsample": 2, "crop": (11, 13)}),
        ("relu", 3, 64, {"kernel": 3, "padding": 1, "act": "relu"}),
    ):
        graph = Graph("test")
        x = graph.value("x", TensorDesc(replace(PICTURE, c=channels), dtype), Role.INPUT)
        desc = weight_desc(Quant.F16, outputs, int(attrs["kernel"]) ** 2 * channels)
        weight = graph.value("weight", desc, Role.WEIGHT)
        yield label, _node(graph, "conv2d", {"x": x, "weight": weight}, **attrs)
    graph = Graph("test")  # an inpainting model's first layer
    x = graph.value("x", TensorDesc(replace(PICTURE, c=4)), Role.INPUT)
    skip = graph.value("skip", TensorDesc(replace(PICTURE, c=5)), Role.INPUT)
    weight = graph.value("weight", weight_desc(Quant.F16, 32, 81), Role.WEIGHT)
    inputs = {"x": x, "weight": weight, "skip": skip}
    yield "mask", _node(graph, "conv2d", inputs, kernel=3, padding=1)


def _attentions(dtype: DType) -> Iterator[tuple[str, Node]]:
    """All head sizes of the models, over many pixels, and a text encoder's."""
    for head_dim, tokens, causal in (
        *((size, 1024, False) for size in (8, 40, 64, 80, 128, 160)),
        (64, 77, True),
        (512, 256, False),
    ):
        graph, channels = Graph("test"), 2 * head_dim
        qkv = graph.value(
            "qkv", TensorDesc(Shape(b=1, w=tokens, c=3 * channels), dtype), Role.INPUT
        )
        attrs = {"heads": 2, "head_dim": head_dim, "offsets": (0, channels, 2 * channels)}
        inputs = {"q": qkv, "k": qkv, "v": qkv}
        yield f"head {head_dim}", _node(graph, "attention_full", inputs, causal=causal, **attrs)


def _others(dtype: DType) -> Iterator[tuple[str, Node]]:
    def given(graph: Graph, **descs: TensorDesc) -> dict[str, Value]:
        return {
            name: graph.value(name, desc, Role.STATE if name == "state" else Role.INPUT)
            for name, desc in descs.items()
        }

    x, latents = TensorDesc(PICTURE, dtype), TensorDesc(Shape(1, 6, 7, 4))
    norm = {"gain": vector(64), "bias": vector(64)}
    steps = vector(4 * STEP_WORDS)
    loop = {"steps": steps, "state": TensorDesc(Shape(c=STATE_WORDS), DType.U32)}
    two = TensorDesc(replace(latents.shape, b=2), dtype)
    kept = TensorDesc(replace(latents.shape, b=HISTORY))
    mask = TensorDesc(replace(latents.shape, c=1))
    step = {"x": latents, "model": two, **loop, "history": kept, "noise": latents}
    rows: Sequence[tuple[str, dict[str, TensorDesc], dict[str, Any], bool]] = (
        ("group_norm", {"x": x, **norm, "skip": x}, {"groups": 8, "eps": 1e-5}, True),
        ("group_table", {"x": x, **norm, "skip": x}, {"groups": 8, "eps": 1e-5}, True),
        ("add_shift", {"x": x, "shift": matrix(2, 32)}, {}, True),
        ("gated", {"x": x}, {"act": "gelu", "gate_first": False}, True),
        ("concat", {"x": x, "y": x}, {}, True),
        ("timestep_embedding", {"values": vector(2)}, {"channels": 32}, True),
        (
            "timestep_embedding",
            {"values": steps, "state": loop["state"]},
            {"channels": 32, "count": 2},
            True,
        ),
        ("scheduler_input", {"x": latents, **loop}, {"copies": 2}, True),
        ("scheduler_step", {**step, "shown": latents}, {}, False),
        (
            "inpaint_blend",
            {"x": latents, "init": latents, "noise": latents, "mask": mask, **loop},
            {},
            False,
        ),
        ("advance_step", {"state": loop["state"]}, {}, False),
        ("to_rgba", {"x": latents, "factors": vector(20)}, {}, True),
        ("to_rgba", {"x": TensorDesc(replace(PICTURE, c=3), dtype)}, {}, True),
    )
    for op, descs, attrs, has_output in rows:
        graph = Graph("test")
        made = dict(attrs) if has_output else {**attrs, "outputs": []}
        yield " ".join(descs), _node(graph, op, given(graph, **descs), **made)
