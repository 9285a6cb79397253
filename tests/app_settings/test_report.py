"""The doctor's report in words."""

from __future__ import annotations

from typing import Any

from app.settings.choices import CONTEXTS, device_choices, with_value
from app.settings.report import (
    devices_of,
    problems_of,
    report_text,
    rows_of,
    verdict_of,
    words_of,
)

REPORT: dict[str, Any] = {
    "ok": True,
    "device": "A GPU",
    "driver": "1.2",
    "backend": "Vulkan",
    "software": False,
    "features": ["shader-f16", "subgroup"],
    "limits": {"max-buffer-size": 4 * 2**30, "max-bind-groups": 4},
    "selftest": {"passed": 12, "failed": 0},
    "problems": [],
    "adapters": [{"name": "A GPU"}, {"name": "Another"}, {"name": "A GPU"}],
    "subgroup_size": 32,
}


def rows(**changes: Any) -> dict[str, str]:
    return dict(rows_of({**REPORT, **changes}))


def test_known_keys_come_first_and_unknown_ones_are_not_hidden() -> None:
    found = rows()
    assert list(found)[:3] == ["GPU", "Driver", "Backend"]
    assert found["Features"] == "shader-f16, subgroup"
    assert found["Limits"] == "largest buffer 4.0 GiB"
    assert found["Self-test"] == "12 of 12 checks passed"
    assert found["Subgroup size"] == "32"
    assert "Software only" not in found
    assert rows(software=True)["Software only"] == "yes"


def test_failed_checks_are_named() -> None:
    assert rows(selftest={"passed": 11, "failed": ["q4_0"]})["Self-test"] == (
        "11 of 12 checks passed: q4_0 failed"
    )


def test_verdicts() -> None:
    assert verdict_of(REPORT) == ("accent", "Your GPU works.")
    assert verdict_of({**REPORT, "software": True})[0] == "warning"
    assert verdict_of({**REPORT, "problems": ["Old driver."]})[0] == "warning"
    assert verdict_of({"ok": False, "device": None, "problems": ["None."]})[0] == "bad"


def test_devices_are_named_once_and_the_one_in_use_is_always_there() -> None:
    assert devices_of(REPORT) == ("A GPU", "Another")
    assert devices_of({"device": "Only"}) == ("Only",)
    assert devices_of({}) == ()


def test_the_copied_report_has_everything() -> None:
    text = report_text({**REPORT, "problems": ["Old driver."]}, [("Driftwood", "0.1")])
    for words in ("Driftwood: 0.1", "GPU: A GPU", "max-bind-groups: 4", "  - Old driver."):
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
    assert words_of("x", [True, None, "a"]) == "yes, , a"


def test_a_value_that_is_not_offered_is_offered() -> None:
    assert with_value(CONTEXTS, 4096, "") == CONTEXTS
    assert with_value(CONTEXTS, 5000, "5000 tokens")[-1].value == 5000
    chosen = device_choices(("A GPU",), "Gone")
    assert [choice.words for choice in chosen] == ["Automatic", "A GPU", "Gone (not found now)"]
