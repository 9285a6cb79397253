"""Sampling out of the box, by family of models: what their makers recommend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GENERAL: Mapping[str, Any] = {
    "temperature": 0.8,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "max_tokens": 0,  # 0: until the model ends
    "seed": -1,  # -1: another one each time
    "stop": "",  # stop words, with commas
}
FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "smollm": {"temperature": 0.2, "top_p": 0.9, "min_p": 0.0, "repetition_penalty": 1.1},
    "qwen3": {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.0},
    "qwen2": {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05},
    "llama": {"temperature": 0.6, "top_p": 0.9},
    "gemma": {"temperature": 1.0, "top_k": 64, "top_p": 0.95, "min_p": 0.0},
    "phi": {"temperature": 0.6, "top_p": 0.95},
    "mistral": {"temperature": 0.3, "top_p": 0.95},
}


@dataclass(frozen=True)
class Dial:
    """One number of the side panel. `steps` is how many of its smallest steps make 1."""

    name: str
    word: str
    low: float
    high: float
    decimals: int
    tip: str


DIALS = (
    Dial(
        "temperature",
        "Temperature",
        0,
        2,
        2,
        "How freely words are chosen. 0 always takes the likeliest; higher is more surprising.",
    ),
    Dial("top_p", "Top p", 0.05, 1, 2, "Only the likeliest words that together reach this share."),
    Dial("top_k", "Top k", 0, 200, 0, "Only this many of the likeliest words. 0: no limit."),
    Dial("min_p", "Min p", 0, 1, 2, "Only words at least this likely compared with the likeliest."),
    Dial(
        "repetition_penalty",
        "Repetition",
        1,
        2,
        2,
        "Above 1, words that were used already become less likely.",
    ),
    Dial(
        "presence_penalty",
        "Presence",
        -2,
        2,
        1,
        "Above 0, words that were used at all become less likely.",
    ),
    Dial(
        "frequency_penalty",
        "Frequency",
        -2,
        2,
        1,
        "Above 0, words become less likely each time they are used.",
    ),
)


def sampling_for(model: Mapping[str, Any] | None, *chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The panel's values for a model: general, then its family's, then those chosen, in order."""
    values = dict(GENERAL)
    names = f"{(model or {}).get('name', '')} {(model or {}).get('family', '')}".lower()
    for family, own in FAMILIES.items():
        if family in names:
            values |= own
            break
    for layer in chosen:
        values |= {k: v for k, v in layer.items() if k in GENERAL and _fits(k, v)}
    return values


def request_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The panel's values as the worker's `sampling` takes them."""
    fields = {dial.name: values[dial.name] for dial in DIALS}
    fields["top_k"] = int(fields["top_k"])
    if values["max_tokens"] > 0:
        fields["max_tokens"] = int(values["max_tokens"])
    if values["seed"] >= 0:
        fields["seed"] = int(values["seed"])
    if stops := [one.strip() for one in str(values["stop"]).split(",") if one.strip()]:
        fields["stop"] = stops
    return fields


def _fits(name: str, value: Any) -> bool:
    """A hand-edited file must not bring in words for numbers."""
    wanted = str if isinstance(GENERAL[name], str) else (int, float)
    return isinstance(value, wanted) and not isinstance(value, bool)
