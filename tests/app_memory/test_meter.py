"""The meter's faces, painted and live."""

from __future__ import annotations

from dataclasses import replace

import pytest
from app_common.qt import click, find, press, show, wait_until
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app import theme
from app.memory import create_memory_panel, create_rail_meter
from app.memory.feed import feed_of
from app.memory.model import MemoryState
from app.memory.paint import HistoryGraph, StackBar
from app.memory.panel import MemoryPanel
from app.memory.rail import RailMeter
from app.memory.units import GIB
from app.shell.page import AppContext

STATE = MemoryState(
    weights=4 * GIB, kv_cache=GIB, total=5 * GIB, device_total=8 * GIB, others=GIB, device_name="A"
)


class PaintCounter(QObject):
    """Counts what a widget paints."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Count paint events."""
        self.count += event.type() == QEvent.Type.Paint
        return False


def colour_at(widget: QWidget, x: float, y: float) -> QColor:
    image = widget.grab().toImage()
    return image.pixelColor(int(x * image.width()), int(y * image.height()))


@pytest.mark.parametrize(
    ("share", "token"),
    [
        (0.25, "memory_weights"),
        (0.55, "memory_cache"),
        (0.7, "memory_others"),
        (0.9, "memory_free"),
    ],
)
def test_the_bar_shows_each_part_where_it_belongs(
    qt: QApplication, share: float, token: str
) -> None:
    bar = StackBar()
    show(bar, 400, 16)
    bar.show_state(STATE)
    assert colour_at(bar, share, 0.5).name() == getattr(theme.current().tokens, token)


def test_the_bar_of_the_rail_fills_from_its_foot(qt: QApplication) -> None:
    bar = StackBar(vertical=True)
    bar.show_state(STATE)
    tokens = theme.current().tokens
    assert colour_at(bar, 0.5, 0.9).name() == tokens.memory_weights
    assert colour_at(bar, 0.5, 0.1).name() == tokens.memory_free


def test_the_next_load_is_marked(qt: QApplication) -> None:
    bar = StackBar()
    show(bar, 400, 16)
    bar.show_state(STATE)
    before = bar.grab().toImage()
    bar.show_needed(GIB)
    assert bar.grab().toImage() != before
    bar.show_needed(None)
    assert bar.grab().toImage() == before


def test_an_idle_meter_paints_nothing(qt: QApplication) -> None:
    now = 0.0
    panel = MemoryPanel(clock=lambda: now)
    show(panel, 300, 400)
    panel.show_state(STATE)
    now = 61.0
    panel.show_state(STATE)
    QApplication.processEvents()
    counters = [PaintCounter(one) for one in (panel, panel.bar, panel.graph)]
    for _ in range(20):
        now += 0.33
        panel.show_state(replace(STATE, others=GIB + 1000))
        QApplication.processEvents()
    assert [counter.count for counter in counters] == [0, 0, 0]


def test_a_changing_minute_is_painted(qt: QApplication) -> None:
    now = 0.0
    graph = HistoryGraph(clock=lambda: now)
    show(graph, 300, 96)
    for second in range(60):
        now = float(second)
        graph.push(replace(STATE, others=second * GIB // 60))
    left, right = colour_at(graph, 0.1, 0.4), colour_at(graph, 0.98, 0.4)
    assert right.name() == theme.current().tokens.accent_soft
    assert left != right


def test_the_panel_says_the_split(context: AppContext) -> None:
    panel = create_memory_panel(context)
    show(panel, 300, 400)
    context.engine.start()
    wait_until(lambda: find(panel, "memory_panel_device", QLabel).text() == "Fake GPU")
    assert find(panel, "memory_panel_used", QLabel).text() == "1.3 of 8.0 GiB in use"
    assert find(panel, "memory_panel_others", QLabel).text() == "1.3 GiB"
    assert not find(panel, "memory_panel_ours").isVisible()


def test_the_panel_says_what_the_next_load_needs(qt: QApplication) -> None:
    panel = MemoryPanel()
    show(panel, 300, 400)
    panel.show_needed(GIB)
    assert not panel.note.isVisible(), "nothing is known yet"
    panel.show_state(STATE)
    assert panel.note.text() == "The next load needs 1.0 GiB and fits"


def test_one_feed_serves_everyone_and_survives_the_worker(context: AppContext) -> None:
    feed = feed_of(context.engine)
    assert feed_of(context.engine) is feed
    meter = create_rail_meter(context)
    show(meter, 60, 144)
    context.engine.start()
    wait_until(lambda: meter.words.used == "1.3")
    context.engine.restart()
    wait_until(lambda: feed.problem)
    assert meter.words.used == ""
    wait_until(lambda: not feed.problem)
    assert meter.words.total == "of 8.0 GiB"
    assert "Other programs: 1.3 GiB" in meter.toolTip()


def test_a_click_opens_the_panel_and_esc_or_a_click_elsewhere_closes_it(
    context: AppContext,
) -> None:
    holder = QWidget()
    elsewhere = QLabel("elsewhere", holder)
    elsewhere.move(420, 10)
    meter = create_rail_meter(context)
    meter.setParent(holder)
    show(holder, 500, 500)
    context.engine.start()
    click(holder, "rail_meter")
    popover = meter.popover
    assert popover is not None
    assert popover.isVisible()
    assert popover.window() is holder, "no window of its own, which could have black corners"
    wait_until(lambda: popover.panel.used.text() == "1.3 of 8.0 GiB in use")
    press(popover, Qt.Key.Key_Escape)
    assert not popover.isVisible()
    click(holder, "rail_meter")
    QTest.mouseClick(popover.panel, Qt.MouseButton.LeftButton)
    assert popover.isVisible()
    QTest.mouseClick(elsewhere, Qt.MouseButton.LeftButton)
    assert not popover.isVisible()


def test_a_panel_made_later_knows_the_minute_before(context: AppContext) -> None:
    context.engine.start()
    feed = feed_of(context.engine)
    wait_until(lambda: feed.history.latest is not None)
    assert create_memory_panel(context).graph.history is feed.history


def test_the_meter_works_by_keyboard(context: AppContext) -> None:
    meter = create_rail_meter(context)
    assert isinstance(meter, RailMeter)
    assert meter.accessibleName() == "GPU memory"
    show(meter, 60, 144)
    press(meter, Qt.Key.Key_Space)
    assert meter.popover is not None
