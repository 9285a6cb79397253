"""The prompts that every state of the model is judged by."""

from __future__ import annotations

from .words import DATA


def prompts() -> list[str]:
    """48 prompts, in the order of the grid; the lines of data/prompts.txt."""
    return (DATA / "prompts.txt").read_text("utf-8").splitlines()
