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
    "library": "Library version",
    "vendor": "Vendor",
    "kind": "Kind",
    "adapters": "All that was found",
    "backends_installed": "Backends installed",
    "memory": "Memory",
    "features": "Features",
    "limits": "Limits",
    "selftest": "Self-test",
    "switched_off": "Switched off",
    "platform": "System",
}
HIDDEN = frozenset({"ok", "software", "problems"})
FEATURES = {
    "f16": "16-bit floats",
    "subgroup_size": "subgroups of",
    "dp4a": "8-bit dot products",
    "matrix": "matrix units",
    "unified_memory": "memory shared with the processor",
}
SOFTWARE = frozenset({"software", "cpu"})  # kinds of adapters that are no GPU
BYTES_FROM = 2**14  # a bare number above this is a number of bytes


def rows_of(report: Report) -> tuple[tuple[str, str], ...]:
    """Names and values of the report, known keys first."""
    known = [key for key in TITLES if key in report]
    others = [key for key in report if key not in TITLES and key not in HIDDEN]
    shown = [key for key in known + others if report[key] is not False]
    rows = [(TITLES.get(key, title_of(key)), words_of(key, report[key])) for key in shown]
    return tuple((name, value) for name, value in rows if value)


def problems_of(report: Report) -> tuple[str, ...]:
    """What is missing or wrong, each a sentence."""
    return tuple(str(one) for one in _items(report.get("problems")))


def verdict_of(report: Report) -> tuple[str, str]:
    """The look ("accent", "warning" or "bad") and the sentence over the report."""
    if report.get("ok") is False or not report.get("device"):
        return "bad", "No GPU that Driftwood can use was found."
    if report.get("software") or str(report.get("kind")).lower() in SOFTWARE:
        return "warning", "No GPU is in use."
    if problems_of(report):
        return "warning", "Your GPU works. Something below could be better."
    return "accent", "Your GPU works."


def words_of(key: str, value: object) -> str:
    """One value for people."""
    if key == "adapters":
        return adapters_words(value)
    if key == "selftest" and isinstance(value, Mapping):
        return selftest_words(value)
    if key == "features" and isinstance(value, Mapping):
        return features_words(value)
    if key == "limits" and isinstance(value, Mapping):
        return limits_words(value)
    if key == "memory" and isinstance(value, Mapping):
        return memory_words(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return size(value) if value >= BYTES_FROM else count(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{title_of(str(k))} {words_of('', v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        words = [words_of("", one) for one in value]
        if len(words) == 2 and all(isinstance(one, int) for one in value):  # a range
            return words[0] if words[0] == words[1] else f"{words[0]} to {words[1]}"
        return ", ".join(word for word in words if word)
    return "" if value is None else str(value)


def selftest_words(result: Report) -> str:
    """How many checks passed, or which kernels computed wrongly and are not used."""
    if "excluded" in result:
        names = [str(one) for one in _items(result["excluded"])]
        return f"not used here: {', '.join(names)}" if names else "every kernel computes correctly"
    passed, failed = _count(result.get("passed")), _count(result.get("failed"))
    words = f"{passed} of {passed + failed} checks passed"
    names = [str(one) for one in _items(result.get("failed"))]
    return f"{words}: {', '.join(names)} failed" if names else words


def features_words(features: Report) -> str:
    """What the device can do; what it cannot is left out."""
    words: list[str] = []
    subgroups = features.get("subgroups")
    for key, value in features.items():
        if key == "subgroups" or (key == "subgroup_size" and subgroups is False):
            continue  # the size says both
        name = FEATURES.get(key, title_of(key).lower())
        if value is True:
            words.append(name)
        elif not isinstance(value, bool) and (told := words_of("", value)):
            words.append(f"{name} {told}")
    return ", ".join(words)


def adapters_words(adapters: object) -> str:
    """Every GPU that was found and by which way, one a line."""
    lines: list[str] = []
    for one in _items(adapters):
        if isinstance(one, Mapping):
            way = " through ".join(str(one[k]) for k in ("api", "backend") if one.get(k))
            more = ", ".join(part for part in (str(one.get("kind") or ""), way) if part)
            lines.append(f"{one.get('name')} ({more})" if more else str(one.get("name")))
    return "\n".join(dict.fromkeys(lines))


def limits_words(limits: Report) -> str:
    """The limits of the device, bytes as sizes."""
    words: list[str] = []
    for key, value in limits.items():
        name = title_of(key.removesuffix("_bytes")).lower()
        is_bytes = key.endswith("_bytes") and isinstance(value, int)
        words.append(f"{name} {size(value) if is_bytes else words_of('', value)}")  # type: ignore[arg-type]
    return ", ".join(words)


def memory_words(memory: Report) -> str:
    """``1.4 GiB of 8.0 GiB in use``; nothing where the platform does not tell."""
    total, used = memory.get("total"), memory.get("used")
    if not isinstance(total, int):
        return "not told by this system"
    return f"{size(used)} of {size(total)} in use" if isinstance(used, int) else size(total)


def title_of(key: str) -> str:
    """A readable name of a key."""
    words = key.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def devices_of(report: Report) -> tuple[str, ...]:
    """The GPUs that can be chosen; at least the one in use."""
    adapters = _items(report.get("adapters"))
    names = [one.get("name") if isinstance(one, Mapping) else one for one in adapters]
    device = report.get("device")
    return tuple(dict.fromkeys(str(name) for name in (*names, device) if name))


def backends_of(report: Report) -> tuple[str, ...]:
    """The backends that are installed; none before the doctor has looked."""
    return tuple(str(one) for one in _items(report.get("backends_installed")))


def report_text(report: Report, versions: Sequence[tuple[str, str]]) -> str:
    """Everything as plain text, for "Copy report"."""
    lines = ["Driftwood report", ""]
    lines += [f"{name}: {value}" for name, value in (*versions, *rows_of(report))]
    problems = problems_of(report)
    lines += ["", "Problems:" if problems else "No problems found."]
    lines += [f"  - {one}" for one in problems]
    return "\n".join(lines) + "\n"


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _count(value: object) -> int:
    return value if isinstance(value, int) else len(_items(value))
