"""The self-test of an adapter and driver: a kernel must prove itself before it may run.

The first time a device is seen with a group of cases (the ops of text, of pictures, the products of
a weight kind), every kernel that would be used is run on a small shape and compared with numpy.
Where the chosen variant is wrong, all variants of its family are tested, the wrong ones are
excluded, remembered, and named by the doctor. The cases lie with the rooms that use the kernels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.formats.packed import pack, packed_words
from engine.formats.quants import Quant, dequantise, quantise
from engine.gpu.device import Device
from engine.gpu.errors import GpuError, OutOfMemoryError, ShaderError
from engine.gpu.findings import Findings
from engine.graph.graph import Graph
from engine.graph.node import GraphError, Node, Role, Value
from engine.kernels.base import Dispatch
from engine.kernels.registry import lower, variants
from engine.kernels.run import compile_dispatches, run_once
from engine.tensor.descriptor import DType, Shape, TensorDesc
from engine.tensor.weights import WeightDesc

log = logging.getLogger(__name__)

Planes = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One node with its inputs and the result that numpy expects, ``[rows, channels]``.

    Attributes:
        tolerance: a part of the largest expected number.
        result: what is compared: the node's output, or what it changes in place.
        rows: which rows of the result are expected; None: all.
    """

    node: Node
    inputs: dict[Value, np.ndarray]
    weights: dict[Value, Planes]
    expected: np.ndarray
    tolerance: float
    result: Value
    rows: np.ndarray | None = None


#: Cases by the name of the group under which a device's findings remember them.
Groups = Mapping[str, Callable[[], Iterator[Case]]]


def check_device(
    device: Device,
    groups: Groups,
    findings: Findings,
    progress: Callable[[str, int, int], None],
) -> None:
    """Test the groups that have not been tested on this device yet, and exclude what is wrong.

    Sets ``device.caps`` to capabilities that name the excluded variants.

    Raises:
        ShaderError: every variant of a kernel is wrong here.
    """
    known = findings.of(device.caps)
    tested = set(known.get("tested", []))
    device.caps = replace(device.caps, excluded=frozenset(known.get("excluded", [])))
    open_groups = {name: make for name, make in groups.items() if name not in tested}
    for done, (name, make) in enumerate(open_groups.items()):
        progress("testing", done, len(open_groups))
        cases = list(make())
        compile_dispatches(device, [d for case in cases for d in _chosen(device, case)])
        for case in cases:
            _check(device, case)
        tested.add(name)
    if open_groups:
        findings.remember(device.caps, tested=sorted(tested), excluded=sorted(device.caps.excluded))


def _chosen(device: Device, case: Case) -> list[Dispatch]:
    """What would be run; nothing where all kernels are excluded already."""
    try:
        return lower(case.node, device.caps)
    except GraphError:
        return []


def _check(device: Device, case: Case) -> None:
    chosen, family = _chosen(device, case), case.node.op
    if chosen and _passes(device, case, chosen):
        return
    if not chosen and not any(name.startswith(f"{family}/") for name in device.caps.excluded):
        log.info("self-test: %s is not run here with all of this", family)  # few buffers, say
        return
    wrong = {
        f"{family}/{name}"
        for name, dispatches in variants(case.node, device.caps).items()
        if not _passes(device, case, dispatches)
    }
    log.warning("self-test: wrong on %s: %s", device.caps.device, ", ".join(sorted(wrong)))
    device.caps = replace(device.caps, excluded=device.caps.excluded | wrong)
    try:
        lower(case.node, device.caps)
    except GraphError as error:
        raise ShaderError(
            f"The driver of {device.caps.device} computes wrong results ({family}). "
            "Update the driver, or choose another device or backend in the settings."
        ) from error


def _passes(device: Device, case: Case, dispatches: Sequence[Dispatch]) -> bool:
    try:
        (have,) = run_once(device, dispatches, case.inputs, case.weights, [case.result])
    except OutOfMemoryError:
        raise
    except GpuError as error:
        log.warning("self-test: %s: %s", case.node.op, error)
        device.check()
        return False
    made = have.reshape(-1, case.expected.shape[-1])
    error = np.abs((made if case.rows is None else made[case.rows]) - case.expected)
    if not np.isfinite(error).all():
        return False
    return float(error.max()) <= case.tolerance * float(np.abs(case.expected).max())


class Maker:
    """Makes the values and the random numbers of one case."""

    def __init__(self) -> None:
        self.graph = Graph("selftest")
        self.inputs: dict[Value, np.ndarray] = {}
        self.weights: dict[Value, Planes] = {}
        self._rng = np.random.default_rng(len("driftwood"))

    def tensor(self, name: str, desc: TensorDesc, role: Role = Role.INPUT) -> Value:
        """A random tensor; caches are random too, so that old entries are told from new ones."""
        value = self.graph.value(name, desc, role)
        shape = desc.shape
        full = self._rng.standard_normal((shape.b, shape.h, shape.w, shape.c))
        stored = np.float16 if desc.dtype is DType.F16 else np.float32
        self.inputs[value] = full.astype(stored).astype(np.float32)
        return value

    def words(self, name: str, words: np.ndarray, role: Role) -> Value:
        """A buffer of u32 words."""
        desc = TensorDesc(Shape(c=len(words)), DType.U32)
        value = self.graph.value(name, desc, role)
        self.inputs[value] = words
        return value

    def weight(self, kind: Quant, rows: int, cols: int) -> tuple[Value, np.ndarray]:
        """A random packed matrix and its exact values, float64 ``[rows, cols]``."""
        raw = quantise((0.3 * self._rng.standard_normal((rows, cols))).astype(np.float32), kind)
        code_words, scale_words = packed_words(kind, cols)
        desc = WeightDesc(rows, cols, kind.name.lower(), code_words, scale_words, (rows,))
        value = self.graph.value("weight", desc, Role.WEIGHT)
        packed = pack(raw, kind, cols)
        self.weights[value] = (packed.codes, packed.scales)
        return value, dequantise(raw, kind, cols).astype(np.float64)

    def array(self, value: Value) -> np.ndarray:
        """A tensor's numbers, float64 ``[rows, channels]``."""
        return self.inputs[value].astype(np.float64).reshape(-1, value.tensor.shape.c)

    def case(
        self,
        expected: np.ndarray,
        tolerance: float,
        result: Value | None = None,
        rows: np.ndarray | None = None,
    ) -> Case:
        """The case of the last node added; ``result`` is its output where nothing else is named."""
        node = self.graph.nodes[-1]
        return Case(
            node, self.inputs, self.weights, expected, tolerance, result or node.output, rows
        )
