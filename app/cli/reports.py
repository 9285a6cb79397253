"""``driftwood memory``, ``doctor`` and ``bench``: figures for people or scripts."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from app.cli.chat import INTERRUPTED
from app.cli.console import print_json, report_lines, size_text
from app.cli.session import Session

WATCH_MS: Final = 500


def run_memory(options: argparse.Namespace) -> int:
    """GPU memory, once or until Ctrl-C."""
    show = print_json if options.json else _print_memory
    with Session(options) as session:
        memory = session.run("memory", open=True).fields["memory"]
        if not options.watch:
            show(memory)
            return 0
        handlers = {"memory": lambda event: show(event["memory"])}  # pyright: ignore
        session.run("memory_watch", handlers, interval_ms=WATCH_MS)
    return INTERRUPTED


def run_doctor(options: argparse.Namespace) -> int:
    """What was found; exit status 1 if there is no GPU to use."""
    with Session(options) as session:
        report: Mapping[str, Any] = session.run("doctor", refresh=True).fields["report"]
    if options.json:
        print_json(report)
    else:
        print("\n".join(report_lines(report)))
    return 0 if report.get("device") else 1


def run_bench(options: argparse.Namespace) -> int:
    """Measure the engine."""
    with Session(options) as session:
        model = None
        if options.kind == "image":
            model = session.choose_image_model(options.model)
        elif options.kind != "kernels":
            model = session.choose_model(options.model)
        report: Mapping[str, Any] = session.run(
            "bench",
            kind=options.kind,
            model=model,
            prompt_tokens=options.prompt_tokens,
            tokens=options.tokens,
            context=options.context,
            width=options.width,
            height=options.height,
            steps=options.steps,
        ).fields["report"]
    if options.json:
        print_json(report)
    else:
        print("\n".join(report_lines(report)))
    return 0


def _print_memory(memory: Mapping[str, Any]) -> None:
    parts = [
        f"{name} {size_text(memory[key])}"
        for name, key in (
            ("weights", "weights"),
            ("KV cache", "kv_cache"),
            ("activations", "activations"),
            ("other", "other"),
        )
    ]
    line = f"Driftwood {size_text(memory['total'])} ({', '.join(parts)})"
    if memory["others"] is not None:
        line += f"; other programs {size_text(memory['others'])}"
    if memory["device_total"] is not None:
        line += f"; {memory['device_name'] or 'GPU'} has {size_text(memory['device_total'])}"
    else:
        line += f"; the size of {memory['device_name'] or 'the GPU'} is not known"
    print(line, flush=True)
