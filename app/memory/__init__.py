"""The GPU memory meter: the bar in the rail and the panel with the split and its history.

The meter's faces are in :mod:`app.memory.page`; they are not imported here, because
:mod:`app.memory.units` and :mod:`app.memory.model` are plain Python for everyone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.memory.panel import MemoryPanel
    from app.memory.rail import RailMeter
    from app.shell.page import AppContext


def create_memory_panel(context: AppContext) -> MemoryPanel:
    """The panel with the split, live."""
    from app.memory import page

    return page.create_memory_panel(context)


def create_rail_meter(context: AppContext) -> RailMeter:
    """The meter for the foot of the rail, live; a click opens the panel beside it."""
    from app.memory import page

    return page.create_rail_meter(context)
