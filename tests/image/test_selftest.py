"""The self-test knows a sound device, and finds wrong kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from image.goldens import STARTER

from engine.formats.quants import Quant
from engine.gpu.device import Device
from engine.gpu.errors import ShaderError
from engine.gpu.findings import Findings
from engine.image import selftest
from engine.image.engine import ImageEngine
from engine.kernels import selftest as mechanism
from engine.kernels.base import Dispatch
from engine.kernels.selftest import Case


def silent(phase: str, done: int, total: int) -> None:
    assert phase == "testing"
    assert done < total


@pytest.mark.parametrize("kind", [Quant.F16, Quant.Q8_0])
def test_nothing_is_wrong_here_and_is_not_tested_again(
    device: Device, kind: Quant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = device.caps
    selftest.check_device(device, kind, Findings(tmp_path / "devices.json"), silent)
    assert device.caps == before
    monkeypatch.setattr(mechanism, "run_once", None)  # nothing may run now
    again = Findings(tmp_path / "devices.json")
    selftest.check_device(device, kind, again, silent)
    assert set(again.of(device.caps)["tested"]) == {"pictures", f"pictures {kind.name}"}


@pytest.fixture
def only(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Case], None]]:
    """Makes a case the only one; the device is trusted again afterwards."""
    before = device.caps

    def choose(case: Case) -> None:
        monkeypatch.setattr(selftest, "op_cases", lambda caps: iter([case]))
        monkeypatch.setattr(selftest, "kind_cases", lambda kind, caps: iter([]))

    yield choose
    device.caps = before


def test_a_kernel_that_computes_something_else_is_named(
    device: Device, only: Callable[[Case], None]
) -> None:
    case = selftest._layer_norm(device.caps)
    only(replace(case, expected=case.expected + 1))
    with pytest.raises(ShaderError, match=r"computes wrong results \(layer_norm\)\. Update the"):
        selftest.check_device(device, Quant.F16, Findings(None), silent)
    assert any(name.startswith("layer_norm/") for name in device.caps.excluded)


def test_a_variant_that_is_wrong_gives_way_to_another(
    device: Device, only: Callable[[Case], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = selftest._group_norm(device.caps)
    only(case)
    first, *others = mechanism.variants(case.node, device.caps)
    params = [one.params for one in mechanism.lower(case.node, device.caps)]
    passes = mechanism._passes

    def wrong_first(device: Device, case: Case, dispatches: list[Dispatch]) -> bool:
        return [one.params for one in dispatches] != params and passes(device, case, dispatches)

    monkeypatch.setattr(mechanism, "_passes", wrong_first)
    selftest.check_device(device, Quant.F16, Findings(None), silent)
    assert device.caps.excluded == {f"group_norm/{first}"}
    assert others


def test_a_model_is_loaded_after_the_test(device: Device, tmp_path: Path) -> None:
    findings = Findings(tmp_path / "devices.json")
    engine = ImageEngine(device, findings=findings)
    phases: list[str] = []
    engine.load(STARTER, progress=lambda phase, done, total: phases.append(phase))
    engine.close()
    assert list(dict.fromkeys(phases)) == ["reading", "testing", "uploading"]
    assert "pictures F16" in findings.of(device.caps)["tested"]
