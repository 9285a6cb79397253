"""From words to an exit status: 0 done, 1 failed with a message, 2 wrong usage, 130 Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from typing import Final

from app.cli.arguments import UsageError, parse
from app.cli.console import print_json, say
from engine.worker.client import WorkerError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
_USAGE_CODES: Final = ("usage", "setting")


def run_command(words: list[str]) -> int:
    """Run one command of the command line; the exit status."""
    _use_plain_streams()
    as_json = "--json" in words
    try:
        options = parse(words)
        return _run(options)
    except UsageError as error:
        return _failed(str(error), "usage", as_json)
    except WorkerError as error:
        _explain(error, "--verbose" in words)
        return _failed(_with_hint(error), error.code, as_json)
    except KeyboardInterrupt:
        say("Stopped.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED


def _run(options: argparse.Namespace) -> int:
    from app.cli.session import Interrupted

    if options.version:
        from engine.worker.version import engine_version

        print(f"driftwood {engine_version()}")
        return DONE
    try:
        return _command(options)
    except Interrupted:
        say("Stopped.")
        return INTERRUPTED


def _command(options: argparse.Namespace) -> int:
    if options.command == "chat":
        from app.cli.chat import run_chat

        return run_chat(options)
    if options.command == "image":
        from app.cli.image import run_image

        return run_image(options)
    if options.command == "models":
        from app.cli.models import run_models

        return run_models(options)
    from app.cli.reports import run_bench, run_doctor, run_memory

    reports = {"memory": run_memory, "doctor": run_doctor, "bench": run_bench}
    if options.command not in reports:
        raise UsageError("a command is missing. Try: driftwood --help")
    return reports[options.command](options)


def _failed(message: str, code: str, as_json: bool) -> int:
    """Tell what went wrong on stderr, and on stdout too where a script reads it."""
    say(f"driftwood: {message}")
    if as_json:
        print_json({"error": message, "code": code})
    return USAGE if code in _USAGE_CODES else FAILED


def _explain(error: WorkerError, verbose: bool) -> None:
    if verbose and error.details and error.code != "internal":  # those are in the log above
        say(error.details)


def _with_hint(error: WorkerError) -> str:
    """The message, and where a model of the catalogue was meant, how to get it."""
    from engine.models.catalogue import CATALOGUE

    if error.code == "not_found":
        for entry in CATALOGUE:
            if f'"{entry.name}"' in str(error):
                return f"{error} Get it with: driftwood models get {entry.name}"
    return str(error)


def _use_plain_streams() -> None:
    """A console that lacks a character shows a question mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(io.UnsupportedOperation):
                stream.reconfigure(errors="replace")
