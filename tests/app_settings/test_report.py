"""The doctor's report in words."""

from __future__ import annotations

from typing import Any

from app.settings.choices import CONTEXTS, backend_choices, device_choices, with_value
from app.settings.report import (
    backends_of,
    devices_of,
    problems_of,
    report_text,
    rows_of,
    verdict_of,
    words_of,
)

REPORT: dict[str, Any] = {
    "device": "A GPU",
    "driver": "1.2",
    "kind": "discrete",
    "backend": "wgpu",
    "backends_installed": ["wgpu"],
    "features": {"f16": True, "subgroups": True, "subgroup_size": [8, 32], "matrix": []},
    "limits": {"largest_buffer_bytes": 4 * 2**30, "storage_buffers": 8},
    "memory": {"total": 8 * 2**30, "used": 2**30},
    "selftest": {"excluded": []},
    "switched_off": [],
    "problems": [],
    "adapters": [
        {"name": "A GPU", "kind": "discrete", "api": "Vulkan", "backend": "wgpu"},
        {"name": "Another"},
        {"name": "A GPU", "kind": "discrete", "api": "Vulkan", "backend": "dawn"},
    ],
    "warp": 32,
}


def rows(**changes: Any) -> dict[str, str]:
    return dict(rows_of({**REPORT, **changes}))


def test_known_keys_come_first_and_unknown_ones_are_not_hidden() -> None:
    found = rows()
    assert list(found)[:3] == ["GPU", "Driver", "Backend"]
    assert found["Features"] == "16-bit floats, subgroups of 8 to 32"
    assert found["Limits"] == "largest buffer 4.0 GiB, storage buffers 8"
    assert found["Self-test"] == "every kernel computes correctly"
    assert found["Memory"] == "1.0 GiB of 8.0 GiB in use"
    assert found["Warp"] == "32"
    assert found["All that was found"].splitlines() == [
        "A GPU (discrete, Vulkan through wgpu)",
        "Another",
        "A GPU (discrete, Vulkan through dawn)",
    ]
    assert rows(switched_off=["f16", "dp4a"])["Switched off"] == "f16, dp4a"
    assert "Switched off" not in found, "nothing is"


def test_what_the_platform_does_not_tell_is_said() -> None:
    assert rows(memory={"total": None, "used": None})["Memory"] == "not told by this system"


def test_kernels_that_fail_are_named() -> None:
    assert rows(selftest={"excluded": ["q4_0"]})["Self-test"] == "not used here: q4_0"
    assert rows(selftest={"passed": 11, "failed": ["q4_0"]})["Self-test"] == (
        "11 of 12 checks passed: q4_0 failed"
    )


def test_verdicts() -> None:
    assert verdict_of(REPORT) == ("accent", "Your GPU works.")
    assert verdict_of({**REPORT, "kind": "software"})[0] == "warning"
    assert verdict_of({**REPORT, "problems": ["Old driver."]})[0] == "warning"
    assert verdict_of({"ok": False, "device": None, "problems": ["None."]})[0] == "bad"


def test_devices_are_named_once_and_the_one_in_use_is_always_there() -> None:
    assert devices_of(REPORT) == ("A GPU", "Another")
    assert devices_of({"device": "Only"}) == ("Only",)
    assert devices_of({}) == ()


def test_the_copied_report_has_everything() -> None:
    text = report_text({**REPORT, "problems": ["Old driver."]}, [("Driftwood", "0.1")])
    for words in ("Driftwood: 0.1", "GPU: A GPU", "storage buffers 8", "  - Old driver."):
        assert words in text
    assert "No problems found." in report_text(REPORT, [])


def test_malformed_reports_never_raise() -> None:
    for key in REPORT:
        for value in (None, 3, "text", [], {}, [1], {"a": [1, {"b": None}]}):
            report = {**REPORT, key: value}
            rows_of(report)
            problems_of(report)
            verdict_of(report)
            report_text(report, [])


def test_values_for_people() -> None:
    assert words_of("x", 2**31) == "2.0 GiB"
    assert words_of("x", [True, None, "a"]) == "yes, a"


def test_a_value_that_is_not_offered_is_offered() -> None:
    assert with_value(CONTEXTS, 4096, "") == CONTEXTS
    assert with_value(CONTEXTS, 5000, "5000 tokens")[-1].value == 5000
    chosen = device_choices(("A GPU",), "Gone")
    assert [choice.words for choice in chosen] == ["Automatic", "A GPU", "Gone (not found now)"]


def test_backends_are_those_that_are_installed() -> None:
    def offered(installed: tuple[str, ...], chosen: str) -> list[object]:
        return [choice.words for choice in backend_choices(installed, chosen)]

    assert offered(backends_of(REPORT), "") == ["Automatic", "wgpu, comes with Driftwood"]
    assert offered(backends_of(REPORT), "dawn")[-1] == "Dawn, an extra (not installed)"
    assert len(offered((), "")) == 3
