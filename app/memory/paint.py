"""The three drawings of the meter: the split as a bar, the bar of the rail, one minute of history.

Each holds a :class:`MemoryState` and paints it; none knows where it comes from. Colours come from
the theme when painting, so a change of theme needs nothing but an update.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QHelpEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.memory.model import History, MemoryState, Part, looks_same, parts_of
from app.memory.units import gib
from app.theme import Tokens, current

BAR_HEIGHT = 16
RAIL_BAR = QSize(14, 84)
GRAPH_HEIGHT = 96
HATCH_ALPHA = 110
GAP = 1.0  # between two parts, so that they stay apart without relying on colour


def part_colour(tokens: Tokens, key: str) -> QColor:
    """The colour of a part, the same everywhere."""
    names = {
        "weights": tokens.memory_weights,
        "kv_cache": tokens.memory_cache,
        "activations": tokens.memory_activations,
        "ours": tokens.dim,
        "others": tokens.memory_others,
        "free": tokens.memory_free,
    }
    return QColor(names[key])


class StackBar(QWidget):
    """The split as one rounded bar. ``needed`` draws a hatched outline for the next load."""

    def __init__(self, vertical: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.vertical = vertical
        self.state = MemoryState()
        self.needed: int | None = None
        if vertical:
            self.setFixedSize(RAIL_BAR)
        else:
            self.setFixedHeight(BAR_HEIGHT)
            self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            self.setMouseTracking(True)

    def show_state(self, state: MemoryState) -> None:
        """Paint ``state``, if that changes anything that can be seen."""
        if looks_same(self.state, state):
            return
        self.state = state
        self.update()

    def show_needed(self, needed: int | None) -> None:
        """Mark what the next load would need on top of what is used; None removes the mark."""
        if needed != self.needed:
            self.needed = needed
            self.update()

    def spans(self) -> list[tuple[Part, float, float]]:
        """Each part with where it begins and ends, 0 to 1; the free part is the ground."""
        spans: list[tuple[Part, float, float]] = []
        at = 0.0
        for part in parts_of(self.state):
            if part.key == "free":
                continue
            share = part.nbytes / self.state.scale
            spans.append((part, at, min(1.0, at + share)))
            at += share
        return spans

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the ground, the parts and the mark."""
        tokens = current().tokens
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = QRectF(self.rect())
        shape = QPainterPath()
        radius = min(ground.width(), ground.height()) / 2
        shape.addRoundedRect(ground, radius, radius)
        painter.setClipPath(shape)
        painter.fillRect(ground, part_colour(tokens, "free"))
        for part, start, end in self.spans():
            painter.fillRect(self._span(start, end), part_colour(tokens, part.key))
        if self.needed and self.state.device_total:  # nothing to compare it with otherwise
            self._paint_mark(painter, tokens)
        painter.end()

    def _paint_mark(self, painter: QPainter, tokens: Tokens) -> None:
        used = self.state.used / self.state.scale
        target = used + (self.needed or 0) / self.state.scale
        colour = QColor(tokens.bad if target > 1 else tokens.text)
        hatch = QColor(colour)
        hatch.setAlpha(HATCH_ALPHA)
        area = self._span(used, min(1.0, target))
        painter.fillRect(area, QBrush(hatch, Qt.BrushStyle.BDiagPattern))
        edge = min(1.0, target)
        line = self._span(max(0.0, edge - 2.0 / self._length()), edge)
        painter.fillRect(line, colour)

    def _length(self) -> float:
        return float(self.height() if self.vertical else self.width()) or 1.0

    def _span(self, start: float, end: float) -> QRectF:
        length = self._length()
        first, last = start * length, end * length
        if last - first > 2 * GAP:
            last -= GAP
        if self.vertical:
            return QRectF(0, length - last, self.width(), last - first)
        return QRectF(first, 0, last - first, self.height())

    def event(self, event: QEvent) -> bool:
        """Over a part of the wide bar, the tooltip names that part."""
        if isinstance(event, QHelpEvent) and not self.vertical:
            share = event.pos().x() / self._length()
            words = next((_part_words(p) for p, a, b in self.spans() if a <= share < b), "")
            QToolTip.showText(event.globalPos(), words or _free_words(self.state), self)
            return True
        return super().event(event)


class HistoryGraph(QWidget):
    """Used bytes over the last minute, under a dashed line that stands for the device's total."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, history: History | None = None
    ) -> None:
        """``history`` may be shared, so that a graph made later knows the minute before."""
        super().__init__()
        self.history = History() if history is None else history
        self.state = MemoryState()
        self._clock = clock
        self.setFixedHeight(GRAPH_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("GPU memory over the last minute")

    def push(self, state: MemoryState) -> None:
        """Note a reading; an idle minute paints nothing."""
        now = self._clock()
        was_still = self.history.still(now) and looks_same(self.state, state)
        self.state = state
        self.history.note(now, state)
        if not (was_still and self.history.still(now)):
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the total as a dashed line and the minute as an area."""
        tokens = current().tokens
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        width, height = float(self.width()), float(self.height())
        top = 8.0
        scale = max(self.state.scale, self.history.highest, 1)
        if self.state.device_total:
            painter.setPen(QPen(QColor(tokens.faint), 1.0, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(0, top), QPointF(width, top))
        corners = [
            QPointF(x * width, height - 1 - used / scale * (height - top - 1))
            for x, used in self.history.points(self._clock())
        ]
        if corners:
            area = QPolygonF(
                [QPointF(corners[0].x(), height), *corners, QPointF(corners[-1].x(), height)]
            )
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens.accent_soft))
            painter.drawPolygon(area)
            painter.setPen(QPen(QColor(tokens.accent), 1.5))
            painter.drawPolyline(QPolygonF(corners))
        painter.end()


class Swatch(QWidget):
    """A small square in a part's colour, beside its name."""

    def __init__(self, key: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._key = key
        self.setFixedSize(10, 10)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the square."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(part_colour(current().tokens, self._key))
        painter.drawRoundedRect(QRectF(self.rect()), 3, 3)
        painter.end()


def _part_words(part: Part) -> str:
    return f"{part.label}: {gib(part.nbytes)}\n{part.hint}"


def _free_words(state: MemoryState) -> str:
    return "Not known" if state.free is None else f"Free: {gib(state.free)}"
