"""The cards of the Models page: an installed model, a catalogue entry, a download.

A card shows what it is given and says by signals what the person asked for; it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QEnterEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QVBoxLayout, QWidget

from app.memory.units import count, size
from app.models import downloads
from app.models.downloads import Download, Status
from app.models.fit import FitLine, Level
from app.models.model import CatalogueCard, ModelCard
from app.theme import SPACE
from app.widgets import (
    Button,
    Card,
    ElidedLabel,
    ProgressBar,
    icon_button,
    label,
    plain_button,
    set_look,
)
from app.widgets.base import name_widget
from app.widgets.chiprow import ChipRow

TITLE_WIDTH = 150  # at least
SIZE_WIDTH = 104
FIT_WIDTH = 110  # at least
BUTTON_WIDTH = 96
OPTIONS = "Options ▾"
BUTTONS_WIDTH = BUTTON_WIDTH + 36

FIT_LOOKS = {
    Level.LOADED: "accent",
    Level.FITS: "",
    Level.SHORT: "warning",
    Level.UNKNOWN: "dim",
    Level.BROKEN: "bad",
}

CHIP_TIPS = {
    "chat": "Made for conversations",
    "pictures": "Makes pictures from words",
    "context": "The longest conversation this model can keep in mind, in tokens (word pieces)",
    "Q": "How its numbers are stored: fewer bits make it smaller and a little less exact",
}


LOAD_WORDS = {
    "reading": "Reading the file",
    "uploading": "Copying to the GPU",
    "compiling": "Preparing the GPU",
    "testing": "Checking the GPU",
}


@dataclass(frozen=True)
class LoadProgress:
    """How far a load has come; fraction None while that is not known."""

    words: str
    fraction: float | None = None


class RowCard(Card):
    """A card in columns: title with small words under it, an amount, two lines, buttons.

    Signals: hovered(name or "") while the pointer or the keyboard is on the card.
    """

    hovered = Signal(str)

    def __init__(self, name: str, object_name: str) -> None:
        super().__init__(object_name, padding=SPACE.group)
        self.name = name
        self.body.setContentsMargins(18, 14, 14, 14)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)  # two lines may become three where the page is narrow
        self.setSizePolicy(policy)
        self.title = ElidedLabel("", "strong", f"{object_name}_title")
        self.title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.aside = ElidedLabel("", "small", f"{object_name}_aside")
        # the title takes the room it needs, the words beside it what is left
        self.aside.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.amount = label("", "", f"{object_name}_amount")
        self.headline = label("", "", f"{object_name}_headline", wrap=True)
        self.detail = label("", "small", f"{object_name}_detail", wrap=True)
        self.progress = ProgressBar(f"{object_name}_progress")
        self.progress.setVisible(False)
        self.chips = ChipRow(_chip_tip)
        self._button_box = QWidget()
        self._button_box.setFixedWidth(BUTTONS_WIDTH)
        self.buttons = QHBoxLayout(self._button_box)
        self.buttons.setContentsMargins(0, 0, 0, 0)
        self.buttons.addStretch()
        self._lay_out()

    def _lay_out(self) -> None:
        first = QHBoxLayout()
        first.setSpacing(SPACE.row)
        first.addWidget(self.title)
        first.addWidget(self.aside, 1)
        self.left = QVBoxLayout()
        self.left.setSpacing(SPACE.small + 2)
        self.left.addStrut(TITLE_WIDTH)
        self.left.addStretch()
        self.left.addLayout(first)
        self.left.addWidget(self.chips)
        self.left.addWidget(self.progress)
        self.left.addStretch()
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addStretch()
        words.addWidget(self.headline)
        words.addWidget(self.detail)
        words.addStretch()
        self.amount.setFixedWidth(SIZE_WIDTH)
        self.headline.setMinimumWidth(FIT_WIDTH)
        self.buttons.setSpacing(SPACE.small)
        row = QHBoxLayout()
        row.setSpacing(SPACE.group)
        row.addLayout(self.left, 6)
        row.addWidget(self.amount)
        row.addLayout(words, 5)
        row.addWidget(self._button_box)
        self.body.addLayout(row)

    def show_fit(self, line: FitLine) -> None:
        """The two lines about memory; the words say what the colour says."""
        prefix = "● " if line.level is Level.LOADED else ""
        self.show_lines(prefix + line.headline, line.detail, FIT_LOOKS[line.level])

    def show_lines(self, headline: str, detail: str, look: str = "") -> None:
        """Two lines, the first in a look."""
        self.headline.setText(headline)
        self.headline.setAccessibleName(headline.removeprefix("● "))
        set_look(self.headline, kind=look)
        self.detail.setText(detail)
        self.detail.setVisible(bool(detail))

    def watch_focus(self, button: QWidget) -> None:
        """The keyboard on this button counts as the pointer on the card."""
        button.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Tell that the keyboard came or went."""
        if event.type() == QEvent.Type.FocusIn:
            self.hovered.emit(self.name)
        elif event.type() == QEvent.Type.FocusOut:
            self.hovered.emit("")
        return super().eventFilter(watched, event)

    def enterEvent(self, event: QEnterEvent) -> None:
        """Tell that the pointer is here."""
        self.hovered.emit(self.name)
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        """Tell that it left."""
        self.hovered.emit("")
        super().leaveEvent(event)


class InstalledCard(RowCard):
    """One installed model.

    Signals: load_asked(name, context; 0 for the default), unload_asked(name), stop_asked(name),
    details_asked(name), reveal_asked(name), remove_asked(name).
    """

    load_asked = Signal(str, int)
    unload_asked = Signal(str)
    stop_asked = Signal(str)
    details_asked = Signal(str)
    reveal_asked = Signal(str)
    remove_asked = Signal(str)

    def __init__(self, card: ModelCard) -> None:
        super().__init__(card.name, f"model_{card.name}")
        self._card = card
        self._line = FitLine(Level.UNKNOWN, "")
        self.button = plain_button("Load", f"model_{card.name}_button")
        self.button.setMinimumWidth(BUTTON_WIDTH)
        self.button.clicked.connect(self._act)
        self.more = icon_button("more", f"model_{card.name}_more", "More about this model")
        self.menu = QMenu(self)
        self.menu.setObjectName(f"model_{card.name}_menu")
        self.menu.aboutToShow.connect(self._fill_menu)
        self.more.clicked.connect(self._open_menu)
        self.options = QMenu(self)
        self.options.setObjectName(f"model_{card.name}_options")
        self.buttons.addWidget(self.button)
        self.buttons.addWidget(self.more)
        self.watch_focus(self.button)

    def show_card(self, card: ModelCard, line: FitLine, progress: LoadProgress | None) -> None:
        """Show a model, whether it fits, and how far its load has come."""
        self._card, self._line = card, line
        self.title.set_text(card.title)
        self.aside.set_text(card.licence)
        self.amount.setText(size(card.nbytes))
        self.chips.show_words(card.chips)
        self.progress.setVisible(progress is not None)
        self.chips.setVisible(progress is None)
        if progress is not None:
            self.show_lines(progress.words, "")
            self.progress.set_fraction(progress.fraction)
            self._show_button("Stop", "Stop loading")
        else:
            self.show_fit(line)
            self._show_ready_button()

    def _show_ready_button(self) -> None:
        title = self._card.title
        self.button.setVisible(not self._card.problem)
        if self._card.loaded:
            self._show_button("Unload", f"Take {title} out of the GPU's memory")
        elif self._line.level is Level.SHORT:
            self._show_button(OPTIONS, f"Ways to load {title} all the same")
        else:
            self._show_button("Load", f"Load {title} into the GPU's memory")

    def _show_button(self, text: str, tip: str) -> None:
        if self.button.text() != text:
            self.button.setText(text)
        words = f"{text.removesuffix(OPTIONS[-2:])} {self._card.title}"
        name_widget(self.button, self.button.objectName(), words, tip)

    def _act(self) -> None:
        text = self.button.text()
        if text == "Stop":
            self.stop_asked.emit(self.name)
        elif text == "Unload":
            self.unload_asked.emit(self.name)
        elif text == OPTIONS:
            self._open_options()
        else:
            self.load_asked.emit(self.name, 0)

    def _open_options(self) -> None:
        self.options.clear()
        context = self._line.context
        if context:
            words = f"Load with a {count(context)}-token context"
            self.options.addAction(words, lambda: self.load_asked.emit(self.name, context))
        self.options.addAction("Try to load it anyway", lambda: self.load_asked.emit(self.name, 0))
        self.options.popup(self.button.mapToGlobal(self.button.rect().bottomLeft()))

    def _fill_menu(self) -> None:
        self.menu.clear()
        self.menu.addAction("Details", lambda: self.details_asked.emit(self.name))
        self.menu.addAction("Show in file manager", lambda: self.reveal_asked.emit(self.name))
        self.menu.addSeparator()
        self.menu.addAction("Remove…", lambda: self.remove_asked.emit(self.name))

    def _open_menu(self) -> None:
        self.menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))


class DiscoverCard(RowCard):
    """One entry of the catalogue. Signals: get_asked(name)."""

    get_asked = Signal(str)

    def __init__(self, card: CatalogueCard) -> None:
        super().__init__(card.name, f"entry_{card.name}")
        self.description = label("", "small", f"entry_{card.name}_description", wrap=True)
        self.left.insertWidget(self.left.indexOf(self.chips), self.description)
        self.button = plain_button("Get", f"entry_{card.name}_button")
        self.button.setMinimumWidth(BUTTON_WIDTH)
        self.button.clicked.connect(lambda: self.get_asked.emit(self.name))
        self.buttons.addWidget(self.button)
        self.watch_focus(self.button)

    def show_card(self, card: CatalogueCard, line: FitLine, download: Download | None) -> None:
        """Show an entry, whether it would fit, and whether it is here or on its way."""
        self.title.set_text(card.title)
        self.title.setToolTip(f"From {card.source}" if card.source else "")
        self.aside.set_text(card.licence)
        self.description.setText(card.description)
        self.description.setVisible(bool(card.description))
        self.amount.setText(size(card.nbytes))
        self.chips.show_words(card.chips)
        self.show_fit(line)
        if card.gated and not card.installed:
            self.show_lines("Asks you to agree first", GATED)
        text, tip = _get_words(card, download)
        self.button.setText(text)
        self.button.setEnabled(text == "Get")
        name_widget(self.button, self.button.objectName(), f"{text}: {card.title}", tip)


GATED = "Accept its terms on its page, and put your account's token into Settings, Network."


class DownloadCard(RowCard):
    """One download. Signals: pause_asked(name), resume_asked(name), cancel_asked(name)."""

    pause_asked = Signal(str)
    resume_asked = Signal(str)
    cancel_asked = Signal(str)

    def __init__(self, item: Download, prefix: str = "download") -> None:
        super().__init__(item.name, f"{prefix}_{item.name}")
        self.progress.setVisible(True)
        self.chips.setVisible(False)
        self.button = plain_button("Pause", f"{prefix}_{item.name}_button")
        self.button.setMinimumWidth(BUTTON_WIDTH)
        self.button.clicked.connect(self._act)
        self.cancel: Button = icon_button(
            "close", f"{prefix}_{item.name}_cancel", "Cancel this download"
        )
        self.cancel.clicked.connect(lambda: self.cancel_asked.emit(self.name))
        self.buttons.addWidget(self.button)
        self.buttons.addWidget(self.cancel)

    def show_download(self, item: Download) -> None:
        """Show where the download stands."""
        self.title.set_text(item.title)
        doing = "copying" if item.kind == "copy" else "downloading"
        self.aside.set_text(doing if item.status is Status.RUNNING else "")
        self.amount.setText(downloads.amount(item))
        look = "bad" if item.status is Status.FAILED else ""
        self.show_lines(downloads.headline(item), downloads.detail(item), look)
        known = item.total > 0
        self.progress.set_fraction(
            item.share if known or item.status is not Status.RUNNING else None
        )
        text = {Status.PAUSED: "Resume", Status.FAILED: "Retry"}.get(item.status, "Pause")
        self.button.setText(text)
        self.button.setVisible(item.kind != "copy" or item.status is Status.FAILED)
        name_widget(self.button, self.button.objectName(), f"{text} {item.title}", "")

    def _act(self) -> None:
        resumes = self.button.text() in ("Resume", "Retry")
        (self.resume_asked if resumes else self.pause_asked).emit(self.name)


def _chip_tip(word: str) -> str:
    if word in CHIP_TIPS:
        return CHIP_TIPS[word]
    if word.endswith("context"):
        return CHIP_TIPS["context"]
    return CHIP_TIPS["Q"] if word[:1] == "Q" and word[1:2].isdigit() else ""


def _get_words(card: CatalogueCard, download: Download | None) -> tuple[str, str]:
    if card.installed:
        return "Installed", "This model is on your computer"
    if download is not None:
        return "On its way", "See Downloads"
    return "Get", f"Download {size(card.nbytes)} from {card.source or 'the catalogue'}"
