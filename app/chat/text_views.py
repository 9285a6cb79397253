"""Read-only texts that are as tall as what they say: rich text, code, and folded thoughts."""

from __future__ import annotations

import math

from PySide6.QtCore import QSize, Qt, QTimer, QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QFontMetricsF,
    QGuiApplication,
    QResizeEvent,
    QTextBlockFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QSizePolicy,
    QTextBrowser,
    QVBoxLayout,
)

from app import theme
from app.chat.blocks import Code, Text, Thought
from app.chat.highlight import highlighted
from app.theme import SPACE, Tokens
from app.theme.theme import interface_font, mono_font
from app.theme.tokens import TYPE, points
from app.widgets import frame, label, quiet_button
from app.widgets.base import wire_theme

SAFE_LINKS = frozenset({"http", "https", "mailto"})
TALLEST = 16_000_000  # Qt's own limit of a widget's height is a little above


class TextView(QTextBrowser):
    """Rich or plain text without frame or scroll bars; wraps at its width and takes its height."""

    def __init__(self, object_name: str = "text") -> None:
        super().__init__()
        self.setObjectName(object_name)
        self.setProperty("kind", "bare")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(0)
        self.document().setUndoRedoEnabled(False)
        self.document().setIndentWidth(24)
        self.viewport().setAutoFillBackground(False)
        self.anchorClicked.connect(self._open)
        self.highlighted.connect(lambda url: self.setToolTip(url.toString()))
        self._source: tuple[str, bool] = ("", False)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)

    def show_html(self, html: str) -> None:
        """Show rich text in the theme's type and colours."""
        self._source = (html, True)
        self.document().setDefaultStyleSheet(answer_css(theme.current().tokens))
        self.setHtml(html)
        has_links = "<a " in html
        policy = Qt.FocusPolicy.StrongFocus if has_links else Qt.FocusPolicy.ClickFocus
        self.setFocusPolicy(policy)
        self.fit()

    def show_plain(self, text: str) -> None:
        """Show a text as it is."""
        self._source = (text, False)
        self.setPlainText(text)
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        shape = QTextBlockFormat()
        proportional = QTextBlockFormat.LineHeightTypes.ProportionalHeight
        shape.setLineHeight(line_height(), proportional.value)
        cursor.mergeBlockFormat(shape)
        self.fit()

    def recolour(self, _tokens: Tokens) -> None:
        """Render again: colours and fonts are part of a rich text."""
        text, is_html = self._source
        if is_html:
            self.show_html(text)

    def natural_width(self) -> int:
        """The width at which no line wraps, in device-independent pixels."""
        self.document().setTextWidth(-1)
        width = math.ceil(self.document().idealWidth()) + 2
        self.fit()
        return width

    def fit(self) -> None:
        """Take the height the text needs at the present width."""
        self.document().setTextWidth(max(1, self.viewport().width()))
        height = min(TALLEST, math.ceil(self.document().size().height()))
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def loadResource(self, _kind: int, _url: QUrl | str) -> object:
        """Nothing: an answer must never read a file or the network."""
        return None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self.fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the conversation scrolls, not the text

    def _open(self, url: QUrl) -> None:
        if url.scheme().lower() in SAFE_LINKS:
            QDesktopServices.openUrl(url)


def line_height() -> int:
    """Our line height in per cent of the font's own, which differs from font to font."""
    font = interface_font()
    pixels = font.pointSizeF() * (1 if points(1) != 1 else 96 / 72)
    return round(100 * TYPE.line_height * pixels / QFontMetricsF(font).lineSpacing())


def answer_css(tokens: Tokens) -> str:
    """The style sheet of rich text: Qt's own subset of CSS."""
    spacing = line_height()
    mono = mono_font().family()
    size, small = points(TYPE.body), points(TYPE.mono)
    return f"""
    p, li {{ line-height: {spacing}%; margin-top: 0; margin-bottom: 10px; }}
    li {{ margin-bottom: 4px; }}
    ul, ol {{ margin-top: 0; margin-bottom: 10px; }}
    h1 {{ font-size: {size + 4}pt; font-weight: 600; margin-top: 12px; margin-bottom: 8px; }}
    h2 {{ font-size: {size + 2}pt; font-weight: 600; margin-top: 12px; margin-bottom: 6px; }}
    h3 {{ font-size: {size + 1}pt; font-weight: 600; margin-top: 6px; margin-bottom: 6px; }}
    h4, h5, h6 {{ font-size: {size}pt; font-weight: 600; margin-top: 6px; margin-bottom: 4px; }}
    a {{ color: {tokens.accent}; text-decoration: underline; }}
    code {{ font-family: '{mono}'; font-size: {small}pt; background-color: {tokens.panel}; }}
    pre {{ font-family: '{mono}'; font-size: {small}pt; margin: 4px 0 10px 0; }}
    blockquote {{ color: {tokens.dim}; margin: 0 24px 10px 24px; }}
    table {{ border-collapse: collapse; margin-top: 6px; margin-bottom: 12px; }}
    th, td {{ border: 1px solid {tokens.line}; padding: 5px 10px; }}
    th {{ font-weight: 600; background-color: {tokens.panel}; }}
    hr {{ color: {tokens.line}; }}
    """


class CodeView(QFrame):
    """A block of code in its own frame, with the language and a Copy button."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "code")
        self.setObjectName("code_block")
        self._block = Code("", "")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        head = frame("code_head")
        row = QHBoxLayout(head)
        row.setContentsMargins(SPACE.group - 2, 2, SPACE.row, 2)
        self.language = label("", "small", "code_language")
        self.copy_button = quiet_button("Copy", "code_copy", "copy", "Copy this code")
        self.copy_button.clicked.connect(self._copy)
        row.addWidget(self.language)
        row.addStretch(1)
        row.addWidget(self.copy_button)
        column.addWidget(head)
        self.text = _CodeText()
        column.addWidget(self.text)

    def show_block(self, block: Code) -> None:
        """Show a block; the same block again costs nothing."""
        if block == self._block:
            return
        self._block = block
        self.language.setText(block.language or "text")
        self.setAccessibleName(f"Code, {block.language or 'text'}")
        self._render(theme.current().tokens)

    def recolour(self, tokens: Tokens) -> None:
        """Colour the code again."""
        self._render(tokens)

    def _render(self, tokens: Tokens) -> None:
        inside = highlighted(self._block.code, self._block.language, tokens)
        self.text.show_code(inside)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._block.code)
        say_copied(self.copy_button)


class _CodeText(QTextBrowser):
    """The code itself: it does not wrap, it scrolls sideways."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("code_text")
        self.setProperty("kind", "bare")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setLineWrapMode(QTextBrowser.LineWrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(SPACE.group - 2)
        self.document().setUndoRedoEnabled(False)
        self.viewport().setAutoFillBackground(False)
        self.horizontalScrollBar().rangeChanged.connect(self._fit)

    def show_code(self, inside: str) -> None:
        """Show the inside of a <pre>."""
        position = self.horizontalScrollBar().value()
        family, size = mono_font().family(), points(TYPE.mono)
        css = f"font-family:'{family}'; font-size:{size}pt; line-height:125%; margin:0;"
        self.setHtml(f'<pre style="{css}">{inside}</pre>')
        self.horizontalScrollBar().setValue(position)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(40, 20)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if abs(event.angleDelta().x()) > abs(event.angleDelta().y()):
            super().wheelEvent(event)
        else:
            event.ignore()

    def _fit(self) -> None:
        bar = self.horizontalScrollBar()
        extra = bar.sizeHint().height() if bar.maximum() > 0 else 0
        height = min(TALLEST, math.ceil(self.document().size().height()) + extra)
        if height != self.height():
            self.setFixedHeight(height)


class ThoughtView(QFrame):
    """A thinking block, folded to one line until the person opens it."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("thought")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, SPACE.small)
        column.setSpacing(SPACE.small)
        self.button = quiet_button("", "thought_toggle", "chevron-right")
        self.button.setCheckable(True)
        self.button.toggled.connect(self._fold)
        self.button.setProperty("flush", True)
        column.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        self.body = frame("quote", "thought_body")
        inner = QVBoxLayout(self.body)
        inner.setContentsMargins(SPACE.inner, 0, 0, 0)
        self.text = label("", "dim", "thought_text", wrap=True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        inner.addWidget(self.text)
        column.addWidget(self.body)
        self.body.hide()

    def show_block(self, block: Thought) -> None:
        """Show what was thought so far."""
        words = "Thoughts" if block.is_complete else "Thinking…"
        self.button.setText(words)
        self.button.setAccessibleName(f"{words}, {len(block.text.split())} words")
        self.button.setToolTip("Show or hide what the model wrote before its answer")
        self.text.setText(block.text)

    def recolour(self, _tokens: Tokens) -> None:
        """Labels follow the style sheet by themselves."""

    def _fold(self, is_open: bool) -> None:
        self.button.set_icon("chevron-down" if is_open else "chevron-right")
        self.body.setVisible(is_open)


def say_copied(button: object) -> None:
    """Let a Copy button say "Copied" for a moment."""
    from app.widgets import Button

    if not isinstance(button, Button):
        return
    before = button.text()
    if before == "Copied":
        return
    button.setText("Copied")
    button.set_icon("check")

    def back() -> None:
        button.setText(before)
        button.set_icon("copy")

    QTimer.singleShot(1500, button, back)


def make_view(block: Text | Code | Thought) -> TextView | CodeView | ThoughtView:
    """The widget for a kind of block, empty, following the theme."""
    view: TextView | CodeView | ThoughtView
    if isinstance(block, Text):
        view = TextView("answer_text")
    elif isinstance(block, Code):
        view = CodeView()
    else:
        view = ThoughtView()
    wire_theme(view, view.recolour)
    return view
