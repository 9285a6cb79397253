"""The program's version, as the worker and the command line tell it."""

from __future__ import annotations

import engine


def engine_version() -> str:
    """The installed version, or that of the checkout."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("driftwood")
    except PackageNotFoundError:
        return str(getattr(engine, "__version__", "0"))
