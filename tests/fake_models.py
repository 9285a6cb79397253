"""What the fake worker pretends: its models, its GPU, its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MIB = 2**20
DEVICE = "Fake GPU"
REPORT: dict[str, Any] = {  # as engine.text.report makes it
    "device": DEVICE,
    "driver": "fake 1.0",
    "vendor": "fake",
    "kind": "discrete",
    "backend": "wgpu",
    "library": "0.0",
    "api": "Vulkan",
    "backends_installed": ["wgpu"],
    "adapters": [{"backend": "wgpu", "name": DEVICE, "kind": "discrete", "api": "Vulkan"}],
    "features": {"f16": True, "subgroups": True, "subgroup_size": [32, 32], "matrix": []},
    "limits": {"largest_buffer_bytes": 4 * 2**30, "storage_buffers": 8},
    "memory": {"total": 8192 * MIB, "used": 1300 * MIB},
    "switched_off": [],
    "selftest": {"excluded": []},
    "problems": [],
}


def installed(name: str, mib: int, **changes: Any) -> dict[str, Any]:
    """One installed model as ``models_list`` tells it."""
    fields: dict[str, Any] = {
        "name": name,
        "path": f"/models/{name}.gguf",
        "bytes": mib * MIB,
        "kind": "text",
        "family": "llama",
        "quant": "Q4_1",
        "context": 8192,
        "licence": "Apache-2.0",
        "parameters": 134_515_008,
        "problem": None,
        "need_bytes": (mib + 90) * MIB,
        "weight_bytes": mib * MIB,
        "kv_bytes_per_token": 20 * 1024,
        "activation_bytes": 10 * MIB,
        "loaded": False,
        "loaded_context": None,
    }
    return {**fields, **changes}


def catalogue() -> list[dict[str, Any]]:
    """What can be had."""

    def entry(name: str, title: str, mib: int, **changes: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "name": name,
            "title": title,
            "family": "llama",
            "kind": "text",
            "parameters": 134_515_008,
            "quant": "Q4_1",
            "bytes": mib * MIB,
            "licence": "Apache-2.0",
            "context": 8192,
            "description": "Small and quick; good for a first try.",
            "source": "somewhere",
            "gated": False,
            "installed": False,
            "need_bytes": (mib + 90) * MIB,
            "weight_bytes": mib * MIB,
            "kv_bytes_per_token": 20 * 1024,
            "activation_bytes": 10 * MIB,
        }
        return {**fields, **changes}

    return [
        entry("smollm2-135m-instruct", "SmolLM2 135M Instruct", 94),
        entry("smollm2-1.7b-instruct", "SmolLM2 1.7B Instruct", 1007, quant="Q4_K_M"),
        entry("llama-3.2-3b-instruct", "Llama 3.2 3B Instruct", 1926, gated=True),
    ]


def memory(loaded: bool) -> dict[str, Any]:
    """The figures of its GPU, with or without a model on it."""
    weights, cache, activations = (94, 45, 12) if loaded else (0, 0, 0)
    total = (weights + cache + activations + 1) * MIB
    return {
        "weights": weights * MIB,
        "kv_cache": cache * MIB,
        "activations": activations * MIB,
        "other": MIB,
        "total": total,
        "peak": total,
        "device_total": 8192 * MIB,
        "device_used": total + 1300 * MIB,
        "others": 1300 * MIB,
        "device_name": DEVICE,
        "backend": "wgpu",
        "unified": False,
    }


def listed(
    models: Iterable[Mapping[str, Any]], loaded: str | None, context: int
) -> list[dict[str, Any]]:
    """The installed models, one of them perhaps loaded."""
    on = {"loaded": True, "loaded_context": context}
    return [{**one, **(on if one["name"] == loaded else {})} for one in models]


def directive_of(fields: Mapping[str, Any]) -> str:
    """The first word of the last user message of a request."""
    users = [m["content"] for m in fields.get("messages", []) if m["role"] == "user"]
    return users[-1].partition(" ")[0] if users else ""


def reply(directive: str, argument: str, prompt: str) -> str:
    """The whole text of an answer."""
    if directive == "/words":
        return " ".join(f"word{n}" for n in range(int(argument or 100)))
    if directive == "/think":
        return "<think>\nLet me see.\n</think>\n\nThe answer is **42**."
    return f"You said:\n\n> {prompt}\n\nThat is all I know.\n\n```python\nprint('hello')\n```\n"
