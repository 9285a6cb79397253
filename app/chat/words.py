"""Figures and facts of chats as people say them. Pure functions."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from app.memory.units import count, join_words, progress_pair
from app.storage.records import Message

LONGEST_TITLE = 48
PHASES = {
    "reading": "Reading the model",
    "uploading": "Loading the model",
    "compiling": "Preparing the GPU",
    "testing": "Checking the GPU",
}


def title_from(prompt: str) -> str:
    """A chat's title from its first prompt: the first sentence or line, not cut in a word."""
    line = next((one.strip() for one in prompt.splitlines() if one.strip()), "")
    line = re.sub(r"^[#>*\-\s`]+", "", line)
    sentence = re.split(r"(?<=[.!?。！？])\s", line, maxsplit=1)[0]  # noqa: RUF001
    if len(sentence) <= LONGEST_TITLE:
        return sentence or "New chat"
    cut = sentence[:LONGEST_TITLE].rsplit(" ", 1)[0] if " " in sentence[:LONGEST_TITLE] else ""
    return (cut or sentence[:LONGEST_TITLE]).rstrip(" ,;:") + "…"


def stats_words(message: Message) -> str:
    """Such as "61 tok/s · first token 0.18 s · 214 tokens"; empty while nothing is known."""
    stats = message.stats
    parts: list[str] = []
    if speed := stats.get("decode_tokens_per_second"):
        parts.append(f"{speed:.0f} tok/s" if speed >= 10 else f"{speed:.1f} tok/s")
    if (first := stats.get("seconds_to_first_token")) is not None:
        parts.append(f"first token {first:.2f} s" if first < 10 else f"first token {first:.0f} s")
    if (tokens := stats.get("completion_tokens")) is not None:
        parts.append(f"{count(tokens)} token{'' if tokens == 1 else 's'}")
    return join_words(*parts)


def stats_tip(message: Message) -> str:
    """The longer story behind the figures."""
    stats = message.stats
    lines = [message.model] if message.model else []
    if speed := stats.get("prefill_tokens_per_second"):
        prompt = count(stats.get("prompt_tokens", 0))
        lines.append(f"Prompt: {prompt} tokens, read at {count(round(speed))} tokens a second")
    if device := stats.get("device"):
        lines.append(f"On {device} ({stats.get('backend', '')})")
    return "\n".join(lines)


def load_words(fields: Mapping[str, Any]) -> tuple[str, float | None]:
    """A `progress` event of a load as words and a fraction."""
    done, total = fields.get("done", 0), fields.get("total", 0)
    phase = PHASES.get(str(fields.get("phase", "")), "Loading the model")
    fraction = done / total if total else None
    if fields.get("phase") in ("reading", "uploading") and total:
        return f"{phase}, {progress_pair(done, total)}", fraction
    return phase, fraction


def prefill_words(done: int, total: int) -> tuple[str, float | None]:
    """A `prefill` event as words and a fraction."""
    if done >= total:
        return "Finding the first word", None
    return f"Reading your prompt, {count(done)} of {count(total)} tokens", (
        done / total if total else None
    )


def context_words(used: int | None, size: int | None) -> str:
    """What the context pill says: "Context 1 204 / 8 192"."""
    if not size:
        return "Context"
    return f"Context {count(used or 0)} / {count(size)}"


def context_tip(used: int | None, size: int | None) -> str:
    """What the figures mean and what happens when the context is full."""
    what = "The context is what the model can keep in mind of this chat, in tokens, parts of words."
    when = (
        "When it is full, the oldest messages are left out, and a line in the chat shows where. "
        "The system prompt and your last message are never left out."
    )
    if not size:
        return f"{what}\n{when}"
    left = max(0, size - (used or 0))
    return f"{what}\n{count(used or 0)} are used, {count(left)} are free.\n{when}"


def group_of(updated: float, now: float | None = None) -> str:
    """The heading a chat is listed under: Today, Yesterday, Last week or Older."""
    moment = time.time() if now is None else now
    today = time.localtime(moment)
    midnight = time.mktime((today.tm_year, today.tm_mon, today.tm_mday, 0, 0, 0, 0, 0, -1))
    if updated >= midnight:
        return "Today"
    if updated >= midnight - 86_400:
        return "Yesterday"
    if updated >= midnight - 7 * 86_400:
        return "Last week"
    return "Older"


def model_words(title: str, model: Mapping[str, Any]) -> str:
    """A model's name on the pill and in menus: "SmolLM2 135M Instruct · Q4_1"."""
    return join_words(title, str(model.get("quant") or ""))
