"""The scrolling conversation: follows new text only while the reader is at its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.chat.message_views import AnswerView, Divider, UserView
from app.storage.records import Message
from app.theme import SPACE
from app.widgets import pill_button, quiet_button

WIDTH = 720  # of the column, device-independent pixels
AT_ONCE = 10  # messages made before the window answers again; then some at a time
FIRST = 40  # messages shown without asking; earlier ones on request
NEAR = 24  # pixels from the end that still count as being there


@dataclass(frozen=True)
class Item:
    """A message with which version of how many it is; `divider` is a line above it."""

    message: Message
    at: int = 0
    count: int = 1
    divider: str = ""


class Conversation(QScrollArea):
    """The messages of one branch.

    Signals: action_chosen(id, action), version_chosen(id, index), edited(id, text).
    """

    action_chosen = Signal(int, str)
    version_chosen = Signal(int, int)
    edited = Signal(int, str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("conversation")
        self.setAccessibleName("Conversation")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._inner = QWidget()
        self._inner.setProperty("kind", "scroll")
        self._column = QVBoxLayout(self._inner)
        self._column.setSpacing(SPACE.row)
        self._column.addStretch(1)
        self.setWidget(self._inner)
        self._views: dict[int, UserView | AnswerView] = {}
        self._dividers: list[Divider] = []
        self._items: list[Item] = []
        self._limit = AT_ONCE
        self._following = True
        self._more = QTimer(self)
        self._more.setSingleShot(True)
        self._more.setInterval(10)
        self._more.timeout.connect(self._show_some_more)
        self.earlier = quiet_button("Show earlier messages", "show_earlier", "chevron-up")
        self.earlier.clicked.connect(self._show_earlier)
        self._column.insertWidget(0, self.earlier, 0, Qt.AlignmentFlag.AlignHCenter)
        self.earlier.hide()
        self.jump = pill_button("Newest", "jump_to_newest", "arrow-down", "Jump to the newest text")
        self.jump.setParent(self)
        self.jump.clicked.connect(self.follow)
        self.jump.hide()
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._note_position)
        bar.rangeChanged.connect(self._keep_position)
        bar.setSingleStep(24)
        bar.installEventFilter(self)
        self._set_margins()

    @property
    def following(self) -> bool:
        """True while the view keeps to the newest text."""
        return self._following

    def show_items(self, items: Iterable[Item], *, anew: bool = False) -> None:
        """Show a branch; `anew` for another chat, which is shown from its end."""
        self._items = list(items)
        if anew:
            self._limit = AT_ONCE
            self._following = True
        self._arrange()
        self._more.start()

    def grow(self, message: Message) -> None:
        """More of the answer that is being written."""
        view = self._views.get(message.id)
        if isinstance(view, AnswerView):
            view.grow(message)

    def say(self, number: int, text: str, fraction: float | None) -> None:
        """What happens to an answer that has no words yet."""
        view = self._views.get(number)
        if isinstance(view, AnswerView):
            view.status.say(text, fraction)

    def view(self, number: int) -> UserView | AnswerView | None:
        """The view of a message, None if it is not on show."""
        return self._views.get(number)

    def last_of(self, role: str) -> UserView | AnswerView | None:
        """The last message of a role that is on show."""
        shown = (self._views.get(item.message.id) for item in reversed(self._items))
        return next((v for v in shown if v is not None and v.message.role == role), None)

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._following = True
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())
        self._place_jump()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_margins()
        self._place_jump()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Wheel and watched is self.verticalScrollBar():
            QTimer.singleShot(0, self, self._note_position)
        return super().eventFilter(watched, event)

    def _arrange(self) -> None:
        """Keep views of messages that are still there, make and remove the others."""
        shown = self._items[-self._limit :]
        self.earlier.setVisible(len(self._items) > len(shown) >= FIRST)
        wanted = {item.message.id for item in shown}
        for number in [n for n in self._views if n not in wanted]:
            _discard(self._views.pop(number))
        for divider in self._dividers:
            _discard(divider)
        self._dividers.clear()
        place = 1
        for item in shown:
            if item.divider:
                divider = Divider(item.divider)
                self._dividers.append(divider)
                self._column.insertWidget(place, divider)
                place += 1
            view = self._views.get(item.message.id)
            if view is None:
                view = self._make(item.message)
                self._column.insertWidget(place, view)
            elif self._column.indexOf(view) != place:
                self._column.insertWidget(place, view)
            view.show_message(item.message, item.at, item.count)
            view.action_row.set_steady(item is shown[-1])
            place += 1
        if self._following:
            QTimer.singleShot(0, self, self.follow)

    def _make(self, message: Message) -> UserView | AnswerView:
        view = UserView(message) if message.role == "user" else AnswerView(message)
        self._views[message.id] = view
        view.action_chosen.connect(self.action_chosen)
        view.version_chosen.connect(self.version_chosen)
        view.edited.connect(self.edited)
        return view

    def _show_some_more(self) -> None:
        """The rest of the first messages, a few at a time."""
        if self._limit < FIRST and len(self._items) > self._limit:
            self._extend(AT_ONCE)
            self._more.start()

    def _show_earlier(self) -> None:
        self._following = False
        self._extend(2 * FIRST)

    def _extend(self, count: int) -> None:
        """Show more messages above without moving what the person reads."""
        bar = self.verticalScrollBar()
        from_end = bar.maximum() - bar.value()
        self._limit += count
        self._arrange()
        if not self._following:
            QTimer.singleShot(0, self, lambda: bar.setValue(bar.maximum() - from_end))

    def _set_margins(self) -> None:
        side = max(SPACE.page, (self.width() - WIDTH) // 2)
        bar = self.width() - self.viewport().width()  # the column stays in line with the composer
        self._column.setContentsMargins(side, SPACE.page, max(0, side - bar), SPACE.page)

    def _note_position(self) -> None:
        bar = self.verticalScrollBar()
        self._following = bar.value() >= bar.maximum() - NEAR
        self._place_jump()

    def _keep_position(self) -> None:
        bar = self.verticalScrollBar()
        self._set_margins()
        if self._following:
            bar.setValue(bar.maximum())
        self._place_jump()

    def _place_jump(self) -> None:
        bar = self.verticalScrollBar()
        self.jump.setVisible(not self._following and bar.maximum() > NEAR)
        self.jump.adjustSize()
        self.jump.move(
            (self.width() - self.jump.width()) // 2, self.height() - self.jump.height() - SPACE.row
        )
        self.jump.raise_()


def _discard(widget: QWidget) -> None:
    widget.hide()
    widget.deleteLater()
