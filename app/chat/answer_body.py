"""The blocks of one answer as widgets; a growing answer touches only the last ones."""

from __future__ import annotations

from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.chat.blocks import Block, Code, GrowingMarkdown, Text, Thought, parse, split_thought
from app.chat.text_views import CodeView, TextView, ThoughtView, make_view
from app.theme import SPACE, Tokens
from app.theme.theme import interface_font
from app.theme.tokens import TYPE
from app.widgets.base import wire_theme

SAMPLE = "A line of English text in its usual mixture of wide and narrow letters."
_KINDS = {TextView: Text, CodeView: Code, ThoughtView: Thought}


class AnswerBody(QWidget):
    """An answer: thoughts, text and code, one below the other."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("answer_body")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(SPACE.inner)
        self._views: list[TextView | CodeView | ThoughtView] = []
        self._blocks: list[Block] = []
        self._growing = GrowingMarkdown()
        self._measure = 0
        wire_theme(self, self.recolour)

    def show_growing(self, text: str) -> None:
        """Show an answer that is still being written."""
        thought, rest = split_thought(text)
        blocks = self._growing.update(rest)
        self._show([thought, *blocks] if thought else blocks)

    def show_whole(self, text: str) -> None:
        """Show a complete answer, parsed as a whole."""
        self._growing = GrowingMarkdown()
        thought, rest = split_thought(text)
        blocks = parse(rest)
        self._show([thought, *blocks] if thought else blocks)

    def recolour(self, _tokens: Tokens) -> None:
        """A line holds at most so many characters; wider is hard to read."""
        width = QFontMetricsF(interface_font()).horizontalAdvance(SAMPLE)
        self._measure = round(width * TYPE.measure / len(SAMPLE))
        for view in self._views:
            self._bound(view)

    def _bound(self, view: QWidget) -> None:
        if isinstance(view, TextView):
            view.setMaximumWidth(self._measure)

    def _show(self, blocks: list[Block]) -> None:
        for number, block in enumerate(blocks):
            if number < len(self._blocks) and self._blocks[number] == block:
                continue
            self._fill(self._view_for(number, block), block)
        while len(self._views) > len(blocks):
            view = self._views.pop()
            view.hide()
            view.deleteLater()
        self._blocks = list(blocks)

    def _view_for(self, number: int, block: Block) -> TextView | CodeView | ThoughtView:
        """The widget at a place, made anew if there is another kind of block there now."""
        if number < len(self._views):
            view = self._views[number]
            if isinstance(block, _KINDS[type(view)]):
                return view
            view.hide()
            view.deleteLater()
            self._views[number] = made = make_view(block)
        else:
            made = make_view(block)
            self._views.append(made)
        self._bound(made)
        self._column.insertWidget(number, made)
        return made

    def _fill(self, view: TextView | CodeView | ThoughtView, block: Block) -> None:
        if isinstance(view, TextView) and isinstance(block, Text):
            view.show_html(block.html)
        elif (isinstance(view, CodeView) and isinstance(block, Code)) or (
            isinstance(view, ThoughtView) and isinstance(block, Thought)
        ):
            view.show_block(block)  # type: ignore[arg-type]
