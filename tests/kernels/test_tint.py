"""Every variant of every kernel compiles with both compilers, as several GPUs would get it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from engine.formats.quants import Quant
from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.kernels.base import Dispatch, generate
from engine.kernels.registry import FAMILIES, variants
from engine.text import selftest

from .picture_nodes import picture_nodes
from .tint import AMD, INTEL, NAGA, NVIDIA, PLAIN, compile_with_naga, compile_with_tint

PRETENDED = {"nvidia": NVIDIA, "amd": AMD, "intel": INTEL, "plain": PLAIN}


def text_nodes() -> Iterator[tuple[str, Node]]:
    """One node of every op that text models use, products with every kind of weight."""
    for case in selftest.op_cases():
        yield case.node.op, case.node
    for kind in Quant:
        for case in selftest.kind_cases(kind):
            yield f"{case.node.op} {kind.name}", case.node


def refused(
    nodes: Iterator[tuple[str, Node]],
    caps: Capabilities,
    compile_one: Callable[[Dispatch, Capabilities], None],
) -> Iterator[str]:
    """The variants that do not compile, with the compiler's words."""
    for label, node in nodes:
        for name, dispatches in variants(node, caps).items():
            for dispatch in dispatches:
                try:
                    compile_one(dispatch, caps)
                except RuntimeError as error:
                    yield f"{label}/{name}: {str(error)[:400]}"
                    break


@pytest.mark.parametrize("caps", PRETENDED.values(), ids=PRETENDED)
def test_tint_compiles_every_variant_of_text(caps: Capabilities) -> None:
    assert not list(refused(text_nodes(), caps, compile_with_tint))[:5]


@pytest.mark.parametrize("caps", PRETENDED.values(), ids=PRETENDED)
def test_tint_compiles_every_variant_of_pictures(caps: Capabilities) -> None:
    assert not list(refused(picture_nodes(caps), caps, compile_with_tint))[:5]


def test_naga_compiles_every_variant_of_pictures() -> None:
    """Those of text run on wgpu-native in the tests of their families."""
    assert not list(refused(picture_nodes(NAGA), NAGA, compile_with_naga))[:5]


def test_no_kind_of_kernel_for_pictures_is_left_out() -> None:
    pictures = {node.op: set(variants(node, NVIDIA)) for _, node in picture_nodes(NVIDIA)}
    styles = {name.split("-")[0] for name in pictures["conv2d"] | pictures["attention_full"]}
    assert {"f32", "f16", "matrix"} <= styles
    text = {node.op for _, node in text_nodes()} | {"sample", "last_row"}
    plain = {"add", "mul", "scale", "softcap", "elementwise", "silu", "quick_gelu", "relu", "tanh"}
    assert set(FAMILIES) - text - plain - {"gelu", "gelu_tanh"} <= set(pictures)


BYTES = {"f16": 2, "f32": 4, "u32": 4, "i32": 4}
WORKGROUP = re.compile(r"var<workgroup> (\w+): (?:array<(.+), (\d+)>|(\S+));")


def workgroup_bytes(source: str) -> dict[str, int]:
    """Bytes of every workgroup variable of a shader."""

    def size(kind: str) -> int:
        vector = re.fullmatch(r"vec(\d)<(\w+)>", kind)
        return int(vector[1]) * BYTES[vector[2]] if vector else BYTES.get(kind, 4)

    found = WORKGROUP.findall(source)
    return {name: size(item or single) * int(count or 1) for name, item, count, single in found}


def test_variables_beside_matrices_keep_their_16_byte_boundaries() -> None:
    """One of 4 bytes among them, and an H200 read every matrix from the wrong place."""
    seen: set[str] = set()
    for label, node in itertools.chain(text_nodes(), picture_nodes(NVIDIA)):
        for name, dispatches in variants(node, NVIDIA).items():
            for source in (generate(each, NVIDIA).source for each in dispatches):
                if "subgroup_matrix" in source:
                    odd = {var: n for var, n in workgroup_bytes(source).items() if n % 16}
                    assert not odd, (label, name, odd)
                    seen.add(node.op)
    assert {"linear", "attention_full", "conv2d"} <= seen
