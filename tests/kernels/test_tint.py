"""Every variant of every kernel compiles with Tint too, as several kinds of GPU would get it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.formats.quants import Quant
from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.kernels.registry import variants
from engine.text import selftest

from .tint import AMD, INTEL, NVIDIA, PLAIN, compile_with_tint

PRETENDED = {"nvidia": NVIDIA, "amd": AMD, "intel": INTEL, "plain": PLAIN}


def nodes() -> Iterator[tuple[str, Node]]:
    """One node of every op that models use, products with every kind of weight."""
    for case in selftest.op_cases():
        yield case.node.op, case.node
    for kind in Quant:
        for case in selftest.kind_cases(kind):
            yield f"{case.node.op} {kind.name}", case.node


@pytest.mark.parametrize("caps", PRETENDED.values(), ids=PRETENDED)
def test_every_variant_compiles(caps: Capabilities) -> None:
    refused: list[str] = []
    for label, node in nodes():
        for name, dispatches in variants(node, caps).items():
            for dispatch in dispatches:
                try:
                    compile_with_tint(dispatch, caps)
                except RuntimeError as error:
                    refused.append(f"{label}/{name}: {str(error)[:400]}")
                    break
    assert not refused, "\n".join(refused[:5])
