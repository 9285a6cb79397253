"""The form at the left: what to draw and how. It shows and tells values, nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QMenu,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.chat.defaults import Dial
from app.chat.side_panel import DialRow
from app.images.fit import FitLine
from app.images.jobs import draw_words
from app.images.more import More
from app.images.parts import Disclosure, SeedField, TextBox
from app.images.start import dropped_weights
from app.images.values import (
    LARGEST,
    MOST_COUNT,
    MOST_GUIDANCE,
    MOST_STEPS,
    SMALLEST,
    STEP,
    Info,
    Values,
    shortened,
    size_words,
    snapped,
)
from app.theme import SPACE
from app.widgets import breakable, guard_wheels_in, label, pill_button, primary_button, set_look
from app.widgets.base import name_widget

WIDTH, NARROW = 320, 252
SCROLL_BAR = 10
OTHER_SIZE = "Other size…"
USUAL_STEPS = 50  # the slider's end; the number beside it takes more
LONGEST_TITLE = 28  # letters of a model's name that the pill has room for
COUNTS = (1, 2, 3, 4, 6, 8, 12, MOST_COUNT)
STEPS = Dial(
    "image_steps", "Steps", 1, MOST_STEPS, 0, "More steps take longer and show more detail"
)
GUIDANCE = Dial(
    "image_guidance",
    "Guidance",
    0,
    MOST_GUIDANCE,
    1,
    "How closely the picture follows the prompt; 0 lets it wander, much makes it harsh",
)


class Form(QFrame):
    """The form.

    Signals: changed() after the person changed a value, words_changed() where it was the prompt,
    draw_wanted(), model_chosen(name), models_wanted() for the Models page, files_dropped(paths)
    for files of weights.
    """

    changed = Signal()
    words_changed = Signal()
    draw_wanted = Signal()
    model_chosen = Signal(str)
    models_wanted = Signal()
    files_dropped = Signal(list)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "side")
        self.setAcceptDrops(True)
        self.setObjectName("image_form")
        self.setFixedWidth(WIDTH)
        self._quiet = False
        self._sizes: tuple[tuple[int, int], ...] = ()
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        scroll = QScrollArea()
        scroll.setObjectName("image_form_scroll")
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        inner = QWidget()
        inner.setProperty("kind", "scroll")
        scroll.setWidget(inner)
        scroll.verticalScrollBar().rangeChanged.connect(self._make_room)
        outer.addWidget(scroll, 1)
        self._column = QVBoxLayout(inner)
        self._make_room(0, 0)
        self._column.setSpacing(SPACE.row)
        self._add_prompt()
        self._add_model()
        self._add_size()
        self._add_dials()
        self._add_more()
        self._column.addStretch(1)
        outer.addLayout(self._foot())
        guard_wheels_in(inner)
        self._scroll = scroll

    def values(self) -> Values:
        """What is filled in."""
        width, height = self._size()
        return Values(
            prompt=self.prompt.toPlainText(),
            negative=self.negative.toPlainText(),
            width=width,
            height=height,
            steps=int(self.steps.number.value()),
            guidance=round(float(self.guidance.number.value()), 2),
            seed=self.seed.seed,
            sampler=str(self.sampler.currentData() or ""),
            count=int(self.count.currentData() or 1),
            init=self.start.init_file,
            strength=round(float(self.start.strength.number.value()), 2),
            mask=self.start.mask_file,
            loras=self.more.loras.loras,
            vae=self.more.vae.file,
            clip_skip=self.more.clip_skip.value(),
            prediction=self.more.prediction.prediction,
        )

    def usable(self) -> Values:
        """What is filled in, without files that the model has no use for."""
        vae = "" if self.more.vae.problem else self.more.vae.file
        return replace(self.values(), loras=self.more.loras.usable, vae=vae)

    def show_values(self, values: Values) -> None:
        """Fill the form without telling anyone."""
        self._quiet = True
        for box, text in ((self.prompt, values.prompt), (self.negative, values.negative)):
            if box.toPlainText() != text:
                box.setPlainText(text)
        self.leave_out.set_open(bool(values.negative) or self.leave_out.is_open)
        self._show_size(values.width, values.height)
        self.steps.set_value(values.steps)
        self.guidance.set_value(values.guidance)
        self.seed.set_seed(values.seed)
        self._show_count(values.count)
        self.more.show_values(values)
        self._quiet = False

    def set_size(self, width: int, height: int) -> None:
        """Another size, without telling anyone."""
        self._quiet = True
        self._show_size(width, height)
        self._quiet = False

    def show_info(self, info: Info) -> None:
        """Offer what a model can do."""
        self._quiet = True
        self._sizes = info.sizes
        self.size_choice.clear()
        for pair in info.sizes:
            self.size_choice.addItem(size_words(*pair), pair)
        self.size_choice.addItem(OTHER_SIZE, None)
        self.more.show_info(info)
        self._quiet = False

    def show_models(self, models: Sequence[tuple[str, str]], current: str, title: str) -> None:
        """The pill's words and its menu: (name, title) of every picture model."""
        self.model.setText(shortened(title, LONGEST_TITLE))
        self.model.setToolTip(f"The model that draws: {title}")
        self.model.setAccessibleName(f"Picture model: {title}")
        self.models.clear()
        for name, words in models:
            action = self.models.addAction(words)
            action.setCheckable(True)
            action.setChecked(name == current)
            action.triggered.connect(lambda _=False, one=name: self.model_chosen.emit(one))
        self.models.addSeparator()
        self.models.addAction("More models…").triggered.connect(self.models_wanted)

    def set_narrow(self, narrow: bool) -> None:
        """Take less width, in a small window."""
        self.setFixedWidth(NARROW if narrow else WIDTH)
        self.more.set_narrow(narrow)

    def show_files(self) -> None:
        """Fold out and scroll to the LoRA list and the VAE, once they are laid out."""
        self.more.set_open(True)
        QTimer.singleShot(0, self, lambda: self._scroll.ensureWidgetVisible(self.more.vae))

    def show_tokens(self, words: str, cut: str, is_over: bool) -> None:
        """The counter, and what of the prompt is not read."""
        self.tokens.setText(words)
        set_look(self.tokens, kind="small_warning" if is_over else "small")
        self.cut.setText(breakable(cut))
        self.cut.setVisible(bool(cut))

    def show_negative_tokens(self, words: str, cut: str) -> None:
        """The counter of what is left out, and what of it is not read."""
        self.negative_tokens.setText(breakable(f"{words}. {cut}" if cut else words))
        set_look(self.negative_tokens, kind="small_warning" if cut else "small")
        self.negative_tokens.setVisible(bool(self.negative.toPlainText().strip()))

    def show_draw(self, count: int, is_busy: bool, note: str, problem: str = "") -> None:
        """The primary button's words and the line above it; a ``problem`` keeps it from use."""
        self.draw.setText(draw_words(count, is_busy))
        self.draw.setEnabled(not problem)
        self.draw.setToolTip(problem or "Ctrl+Enter")
        self.draw.setAccessibleDescription(problem or note)
        self.note.setText(problem or note)
        set_look(self.note, kind="small_warning" if problem else "small")
        self.note.setVisible(bool(problem or note))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_weights(event):
            event.acceptProposedAction()
            set_look(self, dropping="true")

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        set_look(self, dropping="false")

    def dropEvent(self, event: QDropEvent) -> None:
        set_look(self, dropping="false")
        event.acceptProposedAction()
        self.files_dropped.emit(dropped_weights(event))

    def _add_prompt(self) -> None:
        head = QHBoxLayout()
        head.addWidget(label("Prompt", "small"))
        head.addStretch(1)
        self.tokens = label("", "small", "image_tokens")
        self.tokens.setToolTip("How much of the prompt the model reads: a token is about a word")
        head.addWidget(self.tokens)
        self._column.addLayout(head)
        self.prompt = TextBox(4)
        name_widget(self.prompt, "image_prompt", "Prompt", "What the picture shall show")
        self.prompt.setPlaceholderText("What shall the picture show?")
        self.negative = TextBox(2)
        tip = "What the picture shall not show"
        name_widget(self.negative, "image_negative", "Leave out", tip)
        self.negative.setPlaceholderText("text, frame, blurry")
        self.cut = label("", "small_warning", "image_cut", wrap=True)
        self.cut.setVisible(False)
        self.leave_out = Disclosure("Leave something out", "image_leave_out", tip)
        self.negative_tokens = label("", "small", "image_negative_tokens", wrap=True)
        self.negative_tokens.setVisible(False)
        self.leave_out.body.addWidget(self.negative)
        self.leave_out.body.addWidget(self.negative_tokens)
        for widget in (self.prompt, self.cut, self.leave_out):
            self._column.addWidget(widget)
        for box in (self.prompt, self.negative):
            box.textChanged.connect(self._tell_words)
            box.draw_wanted.connect(self.draw_wanted)

    def _add_model(self) -> None:
        self._column.addWidget(label("Model", "small"))
        self.model = pill_button("", "image_model", "chevron-down", "The model that draws")
        self.models = QMenu(self.model)
        self.models.setObjectName("image_models")
        self.model.setMenu(self.models)
        self.model.setLayoutDirection(Qt.LayoutDirection.RightToLeft)  # the arrow after the words
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute
        self._column.addWidget(self.model, 0, left)

    def _add_size(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(SPACE.row)
        self.size_choice, self.count = QComboBox(), QComboBox()
        name_widget(self.size_choice, "image_size", "Size in pixels")
        name_widget(self.count, "image_count", "Number of pictures")
        for number in COUNTS:
            self.count.addItem(str(number), number)
        for words, box in (("Size", self.size_choice), ("Pictures", self.count)):
            column = QVBoxLayout()
            column.setSpacing(SPACE.small)
            column.addWidget(label(words, "small"))
            column.addWidget(box)
            row.addLayout(column, 3 if box is self.size_choice else 2)
        self._column.addLayout(row)
        self.other_size = QWidget()
        other = QHBoxLayout(self.other_size)
        other.setContentsMargins(0, 0, 0, 0)
        self.width_box, self.height_box = QSpinBox(), QSpinBox()
        for box, words in ((self.width_box, "Width"), (self.height_box, "Height")):
            name_widget(box, f"image_{words.lower()}", f"{words} in pixels", "A multiple of 8")
            box.setRange(SMALLEST, LARGEST)
            box.setSingleStep(STEP)
            box.setAlignment(Qt.AlignmentFlag.AlignCenter)
            box.editingFinished.connect(lambda one=box: one.setValue(snapped(one.value())))
            box.valueChanged.connect(self._tell)
            other.addWidget(box, 1)
        other.insertWidget(1, label("\N{MULTIPLICATION SIGN}", "dim"))
        self.other_size.setVisible(False)
        self.fit = FitLine()
        self._column.addWidget(self.other_size)
        self._column.addWidget(self.fit)
        self.size_choice.currentIndexChanged.connect(self._follow_size)
        self.count.currentIndexChanged.connect(self._tell)

    def _add_dials(self) -> None:
        self.steps, self.guidance = DialRow(STEPS), DialRow(GUIDANCE)
        self.steps.slider.setRange(1, USUAL_STEPS)
        for row in (self.steps, self.guidance):
            row.changed.connect(self._tell)
            self._column.addWidget(row)
        self.seed = SeedField()
        self.seed.changed.connect(self._tell)
        self._column.addWidget(label("Seed", "small"))
        self._column.addWidget(self.seed)

    def _add_more(self) -> None:
        self.more = More()
        self.more.changed.connect(self._tell)
        self.start, self.sampler = self.more.start, self.more.sampler
        self._column.addWidget(self.more)

    def _foot(self) -> QVBoxLayout:
        foot = QVBoxLayout()
        foot.setContentsMargins(SPACE.group + 2, SPACE.row, SPACE.group, SPACE.group)
        foot.setSpacing(SPACE.row)
        self.note = label("", "small", "image_note", wrap=True)
        self.draw = primary_button("Draw", "image_draw", None, "Ctrl+Enter")
        self.draw.clicked.connect(self.draw_wanted)
        foot.addWidget(self.note)
        foot.addWidget(self.draw)
        return foot

    def _make_room(self, _low: int, high: int) -> None:
        """A scroll bar takes its place from the margin, so that no field changes its width."""
        right = SPACE.group - SCROLL_BAR if high else SPACE.group
        self._column.setContentsMargins(SPACE.group + 2, SPACE.group, right, SPACE.inner)

    def _size(self) -> tuple[int, int]:
        pair = self.size_choice.currentData()
        if pair:
            return int(pair[0]), int(pair[1])
        return snapped(self.width_box.value()), snapped(self.height_box.value())

    def _show_size(self, width: int, height: int) -> None:
        is_preset = (width, height) in self._sizes
        place = self._sizes.index((width, height)) if is_preset else self.size_choice.count() - 1
        self.width_box.setValue(width)
        self.height_box.setValue(height)
        self.size_choice.setCurrentIndex(place)
        self.other_size.setVisible(not is_preset)

    def _show_count(self, count: int) -> None:
        if self.count.findData(count) < 0:
            self.count.addItem(str(count), count)
        self.count.setCurrentIndex(self.count.findData(count))

    def _follow_size(self) -> None:
        pair = self.size_choice.currentData()
        if pair:
            self.width_box.setValue(int(pair[0]))
            self.height_box.setValue(int(pair[1]))
        self.other_size.setVisible(pair is None and self.size_choice.count() > 0)
        self._tell()

    def _tell_words(self) -> None:
        if not self._quiet:
            self.words_changed.emit()
            self.changed.emit()

    def _tell(self, *_arguments: object) -> None:
        if not self._quiet:
            self.changed.emit()
