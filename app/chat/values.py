"""The side panel's values: from the model, the person's defaults and the chat, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.chat.defaults import GENERAL, sampling_for
from app.chat.models import Model
from app.storage.records import ChatSettings
from app.storage.settings import Settings


def system_of(settings: Settings, own: ChatSettings) -> str:
    """The system prompt of a chat: its own, else the person's for new chats."""
    return str(settings.get("chat.system")) if own.system is None else own.system


def panel_values(settings: Settings, own: ChatSettings, model: Model | None) -> dict[str, Any]:
    """What the panel shows: GENERAL's names, "system" and "context" (0: automatic)."""
    sampling = sampling_for(model, settings.get("chat.sampling"), own.sampling)
    return {**sampling, "system": system_of(settings, own), "context": own.context or 0}


def chosen_settings(
    settings: Settings, own: ChatSettings, model: Model | None, values: Mapping[str, Any]
) -> ChatSettings:
    """The chat's settings after the person changed the panel: only what differs is kept."""
    base = sampling_for(model, settings.get("chat.sampling"))
    is_default = values["system"] == str(settings.get("chat.system"))
    return replace(
        own,
        system=None if is_default else str(values["system"]),
        sampling={k: values[k] for k in GENERAL if values[k] != base[k]},
        context=int(values["context"]) or None,
    )


def keep_for_new_chats(settings: Settings, model: Model | None, values: Mapping[str, Any]) -> None:
    """New chats begin with these values."""
    base = sampling_for(model)
    settings.set("chat.sampling", {k: values[k] for k in GENERAL if values[k] != base[k]})
    settings.set("chat.system", values["system"])
