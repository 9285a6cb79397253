"""The program's entry: the window, the command line, or the engine's process.

Nothing heavy is imported before it is known which of the three is wanted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run Driftwood; the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--worker"]:
        from engine.worker.main import main as run_worker

        return run_worker()
    from app.cli.arguments import opens_window

    if opens_window(words):
        from app.shell.main import run

        return run(words)
    from app.cli.main import run_command

    return run_command(words)
