"""The meter's two faces, each joined to the one feed of the engine."""

from __future__ import annotations

from app.memory.feed import MemoryFeed, feed_of
from app.memory.model import MemoryState
from app.memory.panel import MemoryPanel
from app.memory.rail import Popover, RailMeter
from app.shell.page import AppContext


def create_memory_panel(context: AppContext) -> MemoryPanel:
    """The panel with the split, live."""
    feed = feed_of(context.engine)
    panel = MemoryPanel(history=feed.history)
    join(panel, feed)
    return panel


def create_rail_meter(context: AppContext) -> RailMeter:
    """The meter for the foot of the rail, live; a click opens the panel beside it."""
    meter = RailMeter()
    feed = feed_of(context.engine)
    join(meter, feed)

    def open_popover() -> None:
        if meter.popover is None:
            panel = MemoryPanel("memory_popover_panel", history=feed.history)
            join(panel, feed)
            meter.popover = Popover(panel, meter)
        meter.popover.toggle()

    meter.clicked.connect(open_popover)
    return meter


def join(meter: MemoryPanel | RailMeter, feed: MemoryFeed) -> None:
    """Show the feed's readings in a meter, from the one it has now on."""
    feed.state_changed.connect(meter.show_state)
    feed.needed_changed.connect(meter.show_needed)
    feed.failed.connect(meter.show_problem)
    if feed.problem:
        meter.show_problem(feed.problem)
    elif feed.state != MemoryState():
        meter.show_state(feed.state)
    meter.show_needed(feed.needed)
