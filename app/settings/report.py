"""The doctor's report in rows and as text to copy. No Qt.

The report is the worker's own object. Known keys get a readable name and come first; keys that this
file does not know are shown as they are, so that nothing the engine found is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.memory.units import count, size

Report = Mapping[str, object]

TITLES = {
    "device": "GPU",
    "driver": "Driver",
    "backend": "Backend",
    "api": "Graphics interface",
    "library": "Library",
    "vendor": "Vendor",
    "type": "Kind",
    "software": "Software only",
    "memory": "Memory",
    "device_total": "Memory",
    "features": "Features",
    "limits": "Limits",
    "selftest": "Self-test",
    "platform": "System",
}
HIDDEN = frozenset({"ok", "problems", "adapters", "devices", "backends"})
LIMITS = {
    "max-buffer-size": "largest buffer",
    "max-storage-buffer-binding-size": "largest binding",
    "max-compute-workgroup-storage-size": "workgroup memory",
    "max-compute-invocations-per-workgroup": "threads a workgroup",
}
BYTES_FROM = 2**14  # a limit above this is a number of bytes


def rows_of(report: Report) -> tuple[tuple[str, str], ...]:
    """Names and values of the report, known keys first."""
    known = [key for key in TITLES if key in report]
    others = [key for key in report if key not in TITLES and key not in HIDDEN]
    shown = [key for key in known + others if report[key] is not False]
    rows = [(TITLES.get(key, title_of(key)), words_of(key, report[key])) for key in shown]
    return tuple((name, value) for name, value in rows if value)


def problems_of(report: Report) -> tuple[str, ...]:
    """What is missing or wrong, each a sentence."""
    found = report.get("problems")
    return tuple(str(one) for one in found) if isinstance(found, Sequence) else ()


def verdict_of(report: Report) -> tuple[str, str]:
    """The look ("accent", "warning" or "bad") and the sentence over the report."""
    if report.get("ok") is False or not report.get("device"):
        return "bad", "No GPU that Driftwood can use was found."
    if report.get("software"):
        return "warning", "There is no GPU here: the processor does the work, slowly."
    if problems_of(report):
        return "warning", "Your GPU works. Something below could be better."
    return "accent", "Your GPU works."


def words_of(key: str, value: object) -> str:
    """One value for people."""
    if key == "selftest" and isinstance(value, Mapping):
        return selftest_words(value)
    if key == "limits" and isinstance(value, Mapping):
        return limits_words(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return size(value) if value >= BYTES_FROM else count(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{title_of(str(k))} {words_of('', v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(words_of("", one) for one in value)
    return "" if value is None else str(value)


def selftest_words(result: Report) -> str:
    """``12 of 12 checks passed`` and the names of those that did not."""
    passed, failed = _count(result.get("passed")), _count(result.get("failed"))
    words = f"{passed} of {passed + failed} checks passed"
    names = result.get("failed")
    if isinstance(names, list | tuple) and names:
        words += ": " + ", ".join(str(one) for one in names) + " failed"
    return words


def limits_words(limits: Report) -> str:
    """The few limits that decide what runs."""
    found = []
    for key, value in limits.items():
        name = LIMITS.get(key.replace("_", "-"))
        if name and isinstance(value, int):
            found.append(f"{name} {size(value) if value >= BYTES_FROM else count(value)}")
    return ", ".join(found)


def title_of(key: str) -> str:
    """A readable name of a key."""
    words = key.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def names_of(report: Report, *keys: str) -> tuple[str, ...]:
    """The names in the first list of the report that is there, e.g. of its adapters."""
    for key in keys:
        found = report.get(key)
        if isinstance(found, list | tuple):
            names = [one.get("name") if isinstance(one, Mapping) else one for one in found]
            return tuple(dict.fromkeys(str(name) for name in names if name))
    return ()


def devices_of(report: Report) -> tuple[str, ...]:
    """The GPUs that can be chosen; at least the one in use."""
    named = names_of(report, "adapters", "devices")
    device = report.get("device")
    return named or ((str(device),) if device else ())


def report_text(report: Report, versions: Sequence[tuple[str, str]]) -> str:
    """Everything as plain text, for "Copy report"."""
    lines = ["Driftwood report", ""]
    lines += [f"{name}: {value}" for name, value in (*versions, *rows_of(report))]
    limits = report.get("limits")
    if isinstance(limits, Mapping):
        lines += ["", "All limits:", *(f"  {name}: {value}" for name, value in limits.items())]
    problems = problems_of(report)
    lines += ["", "Problems:" if problems else "No problems found."]
    lines += [f"  - {one}" for one in problems]
    return "\n".join(lines) + "\n"


def _count(value: object) -> int:
    if isinstance(value, list | tuple):
        return len(value)
    return value if isinstance(value, int) else 0
