"""When there is no usable GPU: a dialog with what the doctor found, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.settings.report import problems_of
from app.widgets import Action
from engine.worker.protocol import Event

if TYPE_CHECKING:
    from app.shell.page import AppContext

TITLE = "No usable GPU was found"
ADVICE = (
    "Install or update the driver of your graphics card, restart the computer, and try again. "
    "Help shows everything that was found."
)


def tell_no_gpu(context: AppContext, text: str) -> None:
    """Ask the doctor, then tell what is missing; `text` is the engine's own sentence."""

    def hear(event: Event) -> None:
        if not event.final:
            return
        report = event.get("report") if event.event == "done" else None
        found = problems_of(report) if isinstance(report, dict) else ()
        sentences = [*(found or (text,)), ADVICE]
        details = None if report is None else "\n".join(f"{k}: {v}" for k, v in report.items())
        show = Action("Open Help", lambda: context.go_to("settings", section="help"))
        context.messages.dialog(TITLE, "\n".join(sentences), details, show)

    context.engine.request("doctor", hear)
