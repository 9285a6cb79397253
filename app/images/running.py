"""What is being drawn, what waits for its turn, and what went wrong."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app import theme
from app.images.jobs import Job, Jobs, Live, order_words, progress_words, title_words
from app.images.start import square_of
from app.theme import SPACE, Tokens
from app.widgets import (
    Card,
    ElidedLabel,
    IconLabel,
    ProgressBar,
    icon_button,
    label,
    plain_button,
)
from app.widgets.base import wire_theme
from app.widgets.messages import copy_details

SIDE = 208  # of the live preview, device-independent pixels
SMALL_SIDE = 96
WIDE_FROM = 520
MOST_ROWS = 4  # of the queue that are seen without scrolling


class LivePreview(QWidget):
    """The picture as it is now. It is kept between steps that send none."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("live_preview")
        self.setAccessibleName("The picture so far")
        self.image = QImage()
        self.set_side(SIDE)
        wire_theme(self, self.recolour)

    def set_side(self, side: int) -> None:
        """Its size in device-independent pixels."""
        self.setFixedSize(side, side)

    def set_image(self, image: QImage) -> None:
        """Show another state of it; a null image clears."""
        self.image = image
        self.update()

    def recolour(self, _tokens: Tokens) -> None:
        """Draw again in the theme's colours."""
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        path = QPainterPath()
        path.addRoundedRect(QRectF(self.rect()), 10, 10)
        painter.fillPath(path, QColor(theme.current().tokens.sunken))
        if not self.image.isNull():
            painter.setClipPath(path)
            painter.drawImage(QRectF(self.rect()), self.image, square_of(self.image))
        painter.end()


class WaitingRow(QWidget):
    """An order that waits. Signals: removed(number), moved_up(number)."""

    removed = Signal(int)
    moved_up = Signal(int)

    def __init__(self, job: Job, place: int) -> None:
        super().__init__()
        self.setObjectName(f"image_job_{job.number}")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACE.small)
        row.addWidget(label(f"{place}.", "small"))
        words = order_words(job)
        row.addWidget(ElidedLabel(words, "small_text", f"image_job_{job.number}_words"), 1)
        up = icon_button("chevron-up", f"image_job_{job.number}_up", "Draw this earlier", size=14)
        up.setVisible(place > 1)
        up.clicked.connect(lambda: self.moved_up.emit(job.number))
        name = f"image_job_{job.number}_remove"
        remove = icon_button("close", name, "Remove from the queue", size=14)
        remove.setAccessibleName(f"Remove from the queue: {words}")
        remove.clicked.connect(lambda: self.removed.emit(job.number))
        row.addWidget(up)
        row.addWidget(remove)


class FailedCard(Card):
    """An order that went wrong. Signals: retried(number), removed(number)."""

    retried = Signal(int)
    removed = Signal(int)

    def __init__(self, job: Job) -> None:
        super().__init__(f"image_failed_{job.number}")
        row = QHBoxLayout()
        row.setSpacing(SPACE.inner)
        row.addWidget(IconLabel("warning", "bad", 18), 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout()
        column.setSpacing(SPACE.small)
        column.addWidget(label(job.problem, "", f"image_failed_{job.number}_text", wrap=True))
        column.addWidget(ElidedLabel(order_words(job), "small"))
        row.addLayout(column, 1)
        retry = plain_button("Retry", f"image_failed_{job.number}_retry", "refresh")
        retry.clicked.connect(lambda: self.retried.emit(job.number))
        row.addWidget(retry, 0, Qt.AlignmentFlag.AlignTop)
        if job.details:
            copy = icon_button("copy", f"image_failed_{job.number}_details", "Copy details")
            copy.clicked.connect(lambda: copy_details(job.problem, job.details))
            row.addWidget(copy, 0, Qt.AlignmentFlag.AlignTop)
        close = icon_button("close", f"image_failed_{job.number}_remove", "Dismiss", size=14)
        close.clicked.connect(lambda: self.removed.emit(job.number))
        row.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        self.body.addLayout(row)


class Running(QWidget):
    """All of it, above the gallery; hidden while there is nothing to tell.

    Signals: cancel_wanted(), removed(number), moved_up(number), retried(number).
    """

    cancel_wanted = Signal()
    removed = Signal(int)
    moved_up = Signal(int)
    retried = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("image_queue")
        self._rows: list[QWidget] = []
        self._shown: tuple[Job, ...] | None = None
        self.card = Card("image_running", padding=SPACE.inner)
        self.preview = LivePreview()
        self.title = ElidedLabel("", "strong", "image_running_title")
        self.progress = ElidedLabel("", "small", "image_running_progress")
        self.prompt = ElidedLabel("", "", "image_running_prompt")
        self.bar = ProgressBar("image_running_bar", "Progress of this picture")
        self.cancel = plain_button("Cancel", "image_cancel", None, "Stop drawing (Esc)")
        self.cancel.clicked.connect(self.cancel_wanted)
        self._fill_card()
        self._failed = QVBoxLayout()
        self._failed.setSpacing(SPACE.row)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, SPACE.inner)
        column.setSpacing(SPACE.row)
        column.addLayout(self._failed)
        column.addWidget(self.card)
        self.setVisible(False)

    def show_jobs(self, jobs: Jobs) -> None:
        """Show the queue; the same one again changes nothing."""
        if jobs.items == self._shown:
            return
        self._shown = jobs.items
        for row in self._rows:
            row.hide()
            row.deleteLater()
        self._rows = []
        for place, job in enumerate(jobs.waiting, 1):
            waiting = WaitingRow(job, place)
            waiting.removed.connect(self.removed)
            waiting.moved_up.connect(self.moved_up)
            self._queue.addWidget(waiting)
            self._rows.append(waiting)
        for job in jobs.failed:
            failed = FailedCard(job)
            failed.retried.connect(self.retried)
            failed.removed.connect(self.removed)
            self._failed.addWidget(failed)
            self._rows.append(failed)
        self.next.setVisible(bool(jobs.waiting))
        self._fit_queue([row for row in self._rows if isinstance(row, WaitingRow)])
        self.card.setVisible(jobs.running is not None or bool(jobs.waiting))
        self.setVisible(bool(jobs.items))

    def show_live(self, job: Job, live: Live) -> None:
        """How far the running order is."""
        title = title_words(job, live)
        words = progress_words(live)
        self.title.set_text(title)
        self.progress.set_text(words)
        self.prompt.set_text(job.values.prompt)
        self.bar.set_fraction(live.share)
        self.bar.setAccessibleDescription(f"{title}, {words}")
        self.cancel.setEnabled(True)

    def show_stopping(self) -> None:
        """It was asked to end."""
        self.progress.set_text("stopping")
        self.cancel.setEnabled(False)

    def fit(self, width: int) -> None:
        """A smaller preview where there is little room."""
        self.preview.set_side(SIDE if width >= WIDE_FROM else SMALL_SIDE)

    def _fit_queue(self, rows: list[WaitingRow]) -> None:
        """As high as a few rows; more of them scroll."""
        self._area.setVisible(bool(rows))
        if rows:
            height = max(row.sizeHint().height() for row in rows)
            self._area.setFixedHeight(height * min(len(rows), MOST_ROWS))

    def _fill_card(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(SPACE.group)
        row.addWidget(self.preview, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout()
        column.setSpacing(SPACE.small)
        head = QHBoxLayout()
        head.setSpacing(SPACE.row)
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(self.title)
        words.addWidget(self.progress)
        head.addLayout(words, 1)
        head.addWidget(self.cancel)
        column.addLayout(head)
        column.addSpacing(SPACE.small)
        column.addWidget(self.bar)
        column.addSpacing(SPACE.small)
        column.addWidget(self.prompt)
        self.next = label("Next in line", "group", "image_queue_next")
        rows = QWidget()
        rows.setProperty("kind", "scroll")
        self._queue = QVBoxLayout(rows)
        self._queue.setContentsMargins(0, 0, 0, 0)
        self._queue.setSpacing(0)
        self._area = QScrollArea()
        self._area.setObjectName("image_queue_rows")
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setWidget(rows)
        column.addSpacing(SPACE.row)
        column.addWidget(self.next)
        column.addWidget(self._area)
        column.addStretch(1)
        row.addLayout(column, 1)
        self.card.body.addLayout(row)
