"""``driftwood image``: pictures from a prompt, on the same engine as the window."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from app.cli.arguments import UsageError
from app.cli.chat import INTERRUPTED
from app.cli.console import print_json, say, time_text
from app.cli.session import Session
from engine.worker.protocol import Event

_JSON_KEYS: Final = (
    "files",
    "seed",
    "seconds",
    "seconds_per_step",
    "model",
    "device",
    "backend",
    "peak_bytes",
)
_GIVEN: Final = (
    "steps",
    "guidance",
    "seed",
    "width",
    "height",
    "sampler",
    "count",
    "strength",
    "clip_skip",
    "prediction",
)
_FILES: Final = ("init", "mask", "vae")


def run_image(options: argparse.Namespace) -> int:
    """Run the command; the exit status. Raises UsageError, WorkerError, Interrupted."""
    wanted = settings(options)
    output = _absolute(options.output)
    if Path(output).suffix.lower() != ".png":
        raise UsageError(f"pictures are written as PNG: name it {Path(output).stem}.png")
    with Session(options) as session:
        model = session.choose_image_model(options.model)
        teller = _Teller(session)
        handlers = {"started": teller.started, "step": teller.step, "picture": teller.picture}
        outcome = session.run(
            "image",
            handlers,
            model=model,
            settings=wanted,
            output=output,
            latents=_absolute(options.latents) if options.latents else None,
        )
        teller.warn(outcome.fields["warnings"])
        if options.json:
            print_json({key: outcome.fields.get(key) for key in _JSON_KEYS})
        else:
            print("\n".join(outcome.fields["files"]))
            say(_summary(outcome.fields))
        return INTERRUPTED if outcome.interrupted else 0


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of the request ``image`` that were given. Raises UsageError."""
    if options.mask and not options.init:
        raise UsageError("--mask says which parts of a picture are made anew: give it with --init")
    if options.strength is not None and not options.init:
        raise UsageError("--strength belongs to a picture to start from: give it with --init")
    made: dict[str, Any] = {
        "prompt": _prompt(options.prompt),
        "negative": options.negative,
    }
    made |= {name: value for name in _GIVEN if (value := getattr(options, name)) is not None}
    made |= {name: _absolute(path) for name in _FILES if (path := getattr(options, name))}
    if options.lora:
        made["loras"] = [_lora(text) for text in options.lora]
    return made


def _prompt(text: str) -> str:
    if text == "-":
        text = (sys.stdin.read() if sys.stdin else "").removesuffix("\n")
    if not text.strip():
        raise UsageError("the prompt is empty")
    return text


def _lora(text: str) -> dict[str, Any]:
    """FILE or FILE:WEIGHT; a colon that is part of the path (C:\\...) is no weight."""
    path, colon, weight = text.rpartition(":")
    if not colon or "/" in weight or "\\" in weight or Path(text).is_file():
        return {"path": _absolute(text), "weight": 1.0}
    try:
        return {"path": _absolute(path), "weight": float(weight)}
    except ValueError:
        raise UsageError(f'the weight of a LoRA is "{weight}"; write FILE:0.8, say') from None


def _absolute(path: str) -> str:
    """The worker has a folder of its own."""
    return str(Path(path).expanduser().absolute())


class _Teller:
    """Progress and warnings on stderr."""

    def __init__(self, session: Session) -> None:
        self._session, self._count = session, 1
        self._told: set[str] = set()

    def started(self, event: Event) -> None:
        """Handle ``started``."""
        self._count = event.get("count", 1)
        self.warn(event["warnings"])
        if self._session.verbose:
            say(f"Seed {event['seed']}; {event['tokens']} of {event['token_limit']} tokens.")

    def step(self, event: Event) -> None:
        """Handle ``step``."""
        note = f"step {event['step']} of {event['total']}  {time_text(event['seconds_left'])}"
        if self._count > 1:
            note = f"picture {event['index'] + 1} of {self._count}  {note}"
        self._session.progress.show("drawing", event["step"], event["total"], note)

    def picture(self, event: Event) -> None:
        """Handle ``picture``: with several, each is told as it is finished."""
        if self._count > 1:
            say(f"Picture {event['index'] + 1} of {self._count}: {event['path']}")

    def warn(self, warnings: list[str]) -> None:
        """Tell what was not told yet."""
        for warning in warnings:
            if warning not in self._told:
                self._told.add(warning)
                say(warning)


def _summary(done: Mapping[str, Any]) -> str:
    each = done["seconds_per_step"]
    pace = f", {each:.2f} s a step" if each else ""
    return (
        f"[{done['seconds']:.1f} s{pace}; seed {done['seed']}; {done['model']} on {done['device']}]"
    )
