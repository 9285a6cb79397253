"""The Settings page: layout only. What happens is the controller's business."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QHBoxLayout,
    QLineEdit,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.memory.units import count
from app.settings.choices import (
    CONTEXTS,
    HEADROOMS,
    IDLE_MINUTES,
    KEPT_ON_RESET,
    NETWORK_USES,
    NOTHING_ELSE,
    ONLY_THESE,
    THEMES,
    backend_choices,
    device_choices,
)
from app.settings.help import HelpColumn
from app.settings.rows import ChoiceBox, ChoicePills, Column, RowsCard, button_row
from app.shell.page import AppContext
from app.theme import SPACE
from app.widgets import (
    Button,
    ElidedLabel,
    ProgressBar,
    danger_button,
    h_line,
    label,
    page_head,
    pill_button,
    plain_button,
)
from app.widgets.base import name_widget

SECTIONS = ("general", "device", "network", "help")


class SettingsPage(QWidget):
    """Four columns of cards, one at a time.

    Attributes: the controls by name (theme_pills, context_box, idle_box, device_box, backend_box,
    headroom_box, network_switch, token_edit, ...), help (the doctor's column).
    Signals: section_chosen(name), shown(), wished(dict).
    """

    section_chosen = Signal(str)
    shown = Signal()
    wished = Signal(dict)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("settings_page")
        self.setProperty("kind", "page")
        self.sections: dict[str, Button] = {}
        self.stack = QStackedWidget()
        self.stack.setObjectName("settings_sections")
        self.help = HelpColumn()
        for column in (self._general(), self._device(), self._network(), self.help):
            self.stack.addWidget(column)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._head())
        column.addWidget(self.stack, 1)
        self.show_section("general")

    def show_section(self, name: str) -> None:
        """Bring a section to the front."""
        if name in SECTIONS:
            self.stack.setCurrentIndex(SECTIONS.index(name))
            self.sections[name].setChecked(True)

    @property
    def section(self) -> str:
        """The section in front."""
        return SECTIONS[self.stack.currentIndex()]

    def page_shown(self) -> None:
        """The window brought the page to the front; Tab goes to its first control from here."""
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        self.shown.emit()

    def take_wishes(self, **wishes: object) -> None:
        """Another page wants a section (section=)."""
        self.wished.emit(wishes)

    def show_move(self, words: str, fraction: float | None) -> None:
        """How far a move of the models folder is; no words: none is under way."""
        self.move_words.setText(words)
        self.move_box.setVisible(bool(words))
        self.change_folder.setEnabled(not words)
        if words:
            self.move_progress.set_fraction(fraction)

    def _head(self) -> QWidget:
        head, row = page_head("Settings", "settings_head")
        group = QButtonGroup(self)
        for name in SECTIONS:
            button = pill_button(name.capitalize(), f"settings_{name}", checkable=True)
            button.clicked.connect(lambda _=False, name=name: self.section_chosen.emit(name))
            group.addButton(button)
            row.addWidget(button)
            self.sections[name] = button
        row.addStretch()
        return head

    def _general(self) -> Column:
        column = Column("settings_general_column")
        look = RowsCard("Appearance", "settings_appearance")
        self.theme_pills = ChoicePills("settings_theme", "Theme", THEMES)
        look.add_row("Theme", "", self.theme_pills)
        models = RowsCard("Models", "settings_models")
        self.folder = ElidedLabel("", "small", "settings_folder")
        self.show_folder = plain_button("Show", "settings_folder_show", None, "Open this folder")
        self.change_folder = plain_button(
            "Move…", "settings_folder_move", None, "Move your models to another folder"
        )
        models.add_row("Models folder", self.folder, self.show_folder, self.change_folder)
        models.body.addWidget(self._move_box())
        self.context_box = ChoiceBox("settings_context", "Length of a conversation", CONTEXTS)
        models.add_row(
            "Length of a conversation",
            "How much a model keeps in mind. A longer one needs more GPU memory; automatic is "
            f"{count(4096)} tokens, or fewer where the model or the memory allows no more.",
            self.context_box,
        )
        self.idle_box = ChoiceBox("settings_idle", "Free the GPU", IDLE_MINUTES)
        models.add_row(
            "Free the GPU",
            "The model is unloaded when nothing was asked of it for a while, and loaded again with "
            "your next message.",
            self.idle_box,
        )
        reset = RowsCard("Start over", "settings_reset_card")
        self.reset = danger_button("Reset all settings…", "settings_reset", None, KEPT_ON_RESET)
        reset.add_row("Reset", "Chats and models are kept.", self.reset)
        column.add(look, models, reset)
        return column

    def _move_box(self) -> QWidget:
        self.move_box = QWidget()
        self.move_box.setObjectName("settings_move")
        row = QHBoxLayout(self.move_box)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACE.inner)
        self.move_words = label("", "small", "settings_move_words")
        self.move_progress = ProgressBar("settings_move_progress", "Moving the models")
        self.move_stop = plain_button(
            "Stop", "settings_move_stop", None, "Leave them where they are"
        )
        row.addWidget(self.move_progress, 1)
        row.addWidget(self.move_words)
        row.addWidget(self.move_stop)
        self.move_box.setVisible(False)
        return self.move_box

    def _device(self) -> Column:
        column = Column("settings_device_column")
        device = RowsCard(
            "Device",
            "settings_device_card",
            "A change takes effect at the next load; what is loaded now is unloaded.",
        )
        self.device_box = ChoiceBox("settings_device_box", "GPU", device_choices((), ""))
        self.backend_box = ChoiceBox("settings_backend", "Backend", backend_choices((), ""))
        device.add_row("GPU", "Automatic takes the fastest that was found.", self.device_box)
        device.add_row("Backend", "The library that speaks to the GPU.", self.backend_box)
        memory = RowsCard("Memory", "settings_memory_card")
        self.headroom_box = ChoiceBox("settings_headroom", "Memory left free", HEADROOMS)
        memory.add_row(
            "Leave free",
            "GPU memory that is not counted as free for a model, so that the desktop and games "
            "stay smooth.",
            self.headroom_box,
        )
        column.add(device, memory)
        return column

    def _network(self) -> Column:
        column = Column("settings_network_column")
        network = RowsCard("Network", "settings_network_card", ONLY_THESE)
        self.network_switch = QCheckBox("Allow downloads")
        name_widget(self.network_switch, "settings_network_switch", "Allow downloads")
        self.network_switch.setToolTip(
            "Off: Driftwood fetches nothing, and running downloads pause"
        )
        network.add_row("Downloads", "The one switch for everything below.", self.network_switch)
        for use in NETWORK_USES:
            network.add_row(use.title, use.text)
        network.body.addWidget(h_line())
        network.body.addWidget(label(NOTHING_ELSE, "small", "settings_nothing_else", wrap=True))
        column.add(network, self._token_card())
        return column

    def _token_card(self) -> QWidget:
        card = RowsCard(
            "Hub token",
            "settings_token_card",
            "Some models are given only to accounts that accepted their terms. The token of such "
            "an account is kept in the system's keyring and is sent to the model hub alone.",
        )
        self.token_edit = QLineEdit()
        name_widget(self.token_edit, "settings_token", "Hub token")
        self.token_edit.setEchoMode(QLineEdit.EchoMode.Password)
        self.token_edit.setPlaceholderText("Paste the token")
        self.token_keep = plain_button("Keep", "settings_token_keep", None, "Put it in the keyring")
        self.token_forget = plain_button(
            "Forget", "settings_token_forget", None, "Take the token out of the keyring"
        )
        self.token_words = label("", "small", "settings_token_words")
        row = button_row()
        row.insertWidget(0, self.token_edit, 1)
        row.addWidget(self.token_keep)
        row.addWidget(self.token_forget)
        card.body.addLayout(row)
        card.body.addWidget(self.token_words)
        return card


def create_page(context: AppContext) -> SettingsPage:
    """The page, joined to the settings and the worker."""
    from app.settings.controller import SettingsController  # it knows this module

    page = SettingsPage()
    SettingsController(context, page)  # the page owns it
    return page
