"""The chat page: the list, the conversation, the composer and the side panel, wired together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.composer import NEW_LINE, Composer
from app.chat.controller import ChatController
from app.chat.conversation import WIDTH, Conversation
from app.chat.drafts import Draft, Drafts
from app.chat.head import Head
from app.chat.side_panel import SidePanel
from app.chat.sidebar import Sidebar
from app.chat.welcome import Welcome
from app.models.downloads import Download
from app.shell.page import AppContext
from app.storage.chats import ChatStore
from app.storage.export import file_name, to_json, to_markdown
from app.storage.files import StorageError, write_atomically
from app.theme import SPACE

NARROW = 860  # below this width the list of chats hides itself
DRAFTS = "drafts.json"
LEAST = 480  # narrowest page; the parts give way before that


class ChatPage(QFrame):
    """The page. Attributes: controller and the parts by name."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self.setObjectName("chat_page")
        self.setMinimumWidth(LEAST)
        self._context = context
        self._list_wanted: bool | None = None  # None: as the width allows
        self._searching = ""
        self.controller = ChatController(context, self)
        store: ChatStore = context.storage
        folder = context.places.data
        self.drafts = Drafts(folder / DRAFTS, lambda n: store.chat(n) is not None, self)
        self._draft_of = 0  # the chat whose draft the composer shows
        self.sidebar = Sidebar()
        self.head = Head()
        self.conversation = Conversation()
        self.welcome = Welcome()
        self.composer = Composer()
        self.side_panel = SidePanel()
        self._lay_out()
        self._wire_list()
        self._wire_conversation()
        self._wire_head()
        self._wire_welcome()
        self.head.panel_button.setChecked(bool(context.settings.get("chat.side_panel")))
        self._show_panel(self.head.panel_button.isChecked())
        self._show_list()
        self.composer.show_draft(self.drafts.of(0))
        self.controller.open_chat(int(context.settings.get("chat.last_chat")))

    # ---- what the window calls ---------------------------------------------------------------

    def page_shown(self) -> None:
        """The page comes to the front: another page may have changed the models."""
        self.controller.models.refresh()
        self._show_list()
        self.composer.field.setFocus()

    def stop_work(self) -> bool:
        """Escape."""
        return self.controller.stop()

    def open_search(self) -> None:
        """Ctrl+K."""
        self._list_wanted = True
        self._fit_list()
        self.sidebar.search.setFocus()
        self.sidebar.search.selectAll()

    def create_new(self) -> None:
        """Ctrl+N."""
        self.controller.new_chat()
        self.composer.field.setFocus()

    def open_files(self, paths: list[Path]) -> None:
        """Text files dropped on the window go along with the next message."""
        self.composer.add_files(paths)

    def bottom_clearance(self) -> int:
        """Toasts float above the composer."""
        return self._foot.height() - SPACE.row

    def toast_centre(self) -> int:
        """Toasts stand in the middle of the conversation."""
        return self.mapTo(self.window(), self._foot.geometry().center()).x()

    def shut_down(self) -> None:
        """The program ends."""
        self.side_panel.flush()
        self.drafts.flush()
        self.controller.shut_down()

    # ---- layout ------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        self.middle = QStackedWidget()
        self.middle.setObjectName("middle")
        self.middle.addWidget(self.welcome)
        self.middle.addWidget(self.conversation)
        self._foot = QWidget()
        self._foot_row = QHBoxLayout(self._foot)
        self._foot_row.addWidget(self.composer)
        column = QVBoxLayout()
        column.setSpacing(0)
        column.addWidget(self.head)
        column.addWidget(self.middle, 1)
        column.addWidget(self._foot)
        row.addWidget(self.sidebar)
        row.addLayout(column, 1)
        row.addWidget(self.side_panel)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_list()
        self._fit_foot()

    def _fit_list(self) -> None:
        wanted = self.width() >= NARROW if self._list_wanted is None else self._list_wanted
        self.sidebar.setVisible(wanted)
        self.head.list_button.setVisible(self.width() < NARROW)

    def _fit_foot(self) -> None:
        used = self.sidebar.width() if self.sidebar.isVisibleTo(self) else 0
        used += self.side_panel.width() if self.side_panel.isVisibleTo(self) else 0
        side = max(SPACE.page, (self.width() - used - WIDTH) // 2)
        self._foot_row.setContentsMargins(side, SPACE.row, side, SPACE.page - 4)

    def _toggle_list(self) -> None:
        self._list_wanted = not self.sidebar.isVisible()
        self._fit_list()
        self._fit_foot()

    def _show_panel(self, on: bool) -> None:
        self.side_panel.setVisible(on)
        self._context.settings.set("chat.side_panel", on)
        self._fit_foot()

    # ---- wiring ------------------------------------------------------------------------------

    def _wire_list(self) -> None:
        bar, do = self.sidebar, self.controller
        bar.new_wanted.connect(self.create_new)
        bar.chat_chosen.connect(self._open)
        bar.renamed.connect(do.rename)
        bar.pinned.connect(do.pin)
        bar.deleted.connect(do.delete)
        bar.exported.connect(self._export)
        bar.searched.connect(self._search)
        do.chats_changed.connect(self._show_list)

    def _wire_conversation(self) -> None:
        do = self.controller
        self.conversation.action_chosen.connect(do.act)
        self.conversation.version_chosen.connect(do.choose_version)
        self.conversation.edited.connect(do.edit)
        self.conversation.edited.connect(lambda *_: self.composer.field.setFocus())
        self.composer.sent.connect(self._send)
        self.composer.stopped.connect(do.stop)
        self.composer.refused.connect(
            lambda text: self._context.messages.toast(text, kind="warning", seconds=8)
        )
        do.chat_changed.connect(self._show_chat)
        do.grew.connect(self.conversation.grow)
        do.status_changed.connect(self.conversation.say)
        do.generation_changed.connect(self._show_busy)
        do.unsent.connect(lambda text, files: self.composer.show_draft(Draft(text, files)))
        self.composer.changed.connect(self._keep_draft)

    def _wire_head(self) -> None:
        do, panel = self.controller, self.side_panel
        self.head.model_chosen.connect(do.choose_model)
        self.head.load_wanted.connect(do.load_model)
        self.head.unload_wanted.connect(do.models.unload)
        self.head.models_wanted.connect(lambda: self._context.go_to("models"))
        self.head.panel_toggled.connect(self._show_panel)
        self.head.list_wanted.connect(self._toggle_list)
        do.context_changed.connect(self.head.show_context)
        do.models.changed.connect(self._show_models)
        panel.values_changed.connect(do.set_values)
        panel.closed.connect(lambda: self.head.panel_button.setChecked(False))
        panel.default_wanted.connect(self._keep_default)
        panel.reset_wanted.connect(do.reset_values)
        do.values_changed.connect(lambda: panel.show_values(do.values()))

    def _wire_welcome(self) -> None:
        models, first = self.controller.models, self.welcome.first
        self.welcome.examples.chosen.connect(self.composer.set_text)
        first.get_wanted.connect(models.get_starter)
        first.get_wanted.connect(self._begin_typing)  # a second Enter must not press Cancel
        first.pause_wanted.connect(models.pause_get)
        first.cancel_wanted.connect(models.cancel_get)
        first.others_wanted.connect(lambda: self._context.go_to("models", tab="discover"))
        models.get_changed.connect(self._show_get)
        models.load_progress.connect(first.show_loading)
        models.got_first.connect(self._begin_typing)

    # ---- showing -----------------------------------------------------------------------------

    def _open(self, number: int) -> None:
        chat = self.controller.chat
        if chat is None or chat.id != number:
            self.side_panel.flush()
            self.controller.open_chat(number)

    def _search(self, text: str) -> None:
        self._searching = text.strip()
        self._show_list()

    def _show_list(self) -> None:
        chat = self.controller.chat
        chats = self._context.storage.chats(self._searching)
        self.sidebar.show_chats(chats, chat.id if chat else 0, self._searching)

    def _show_chat(self, anew: bool) -> None:
        chat = self.controller.chat
        self.head.title.set_text(chat.title if chat else "New chat")
        self._show_draft(chat.id if chat else 0)
        items = self.controller.items()
        self.conversation.show_items(items, anew=anew)
        self.middle.setCurrentWidget(self.conversation if items else self.welcome)
        self.sidebar.mark(chat.id if chat else 0)
        self._show_busy()

    def _show_draft(self, chat: int) -> None:
        """The composer keeps what was written for each chat."""
        if chat != self._draft_of:
            self._draft_of = chat
            self.composer.show_draft(self.drafts.of(chat))

    def _keep_draft(self) -> None:
        self.drafts.keep(self._draft_of, self.composer.draft())

    def _show_busy(self) -> None:
        """Send or Stop; an answer in another chat is told and can be stopped from here too."""
        busy = self.controller.busy_chat
        here = self.controller.chat.id if self.controller.chat else 0
        self.composer.set_busy(bool(busy))
        self.composer.say(self._hint(busy, here))
        self.sidebar.model.set_busy(busy)

    def _hint(self, busy: int, here: int) -> str:
        if busy and busy != here:
            return "An answer is being written in another chat"
        return "Esc to stop" if busy else NEW_LINE

    def _show_models(self) -> None:
        models = self.controller.models
        self.head.show_models(models.state)
        if not models.getting and models.state.needs_first_model:
            item = models.starter_item
            problem = item.problem if item else ""
            self.welcome.first.show_download(models.state.starter, item, problem)
        self.welcome.show_state(models.state, getting=models.getting)
        if self.welcome.currentWidget() is self.welcome.first and not self.composer.text():
            self.welcome.first.get.setFocus()
        missing = models.state.needs_first_model
        self.composer.set_blocked("Get a model first" if missing else "")
        self._show_busy()

    def _show_get(self, item: Download | None, problem: str) -> None:
        """The starter's download, whichever page it was begun on."""
        models = self.controller.models
        if models.state.needs_first_model:
            self.welcome.first.show_download(models.state.starter, item, problem)

    def _begin_typing(self) -> None:
        self.composer.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _send(self, text: str, files: tuple[Any, ...]) -> None:
        self.side_panel.flush()
        self.conversation.follow()
        self.controller.send(text, files)

    def _keep_default(self) -> None:
        self.side_panel.flush()
        self.controller.use_for_new_chats()

    # ---- export ------------------------------------------------------------------------------

    def _export(self, number: int, suffix: str) -> None:
        chat = self._context.storage.chat(number)
        if chat is None:
            return
        dialog = QFileDialog(self, "Export the chat")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(suffix)
        dialog.selectFile(file_name(chat, suffix))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda name: self.export_to(number, Path(name), suffix))
        dialog.open()

    def export_to(self, number: int, path: Path, suffix: str) -> None:
        """Write a chat as "md" or "json" and say where."""
        chat = self._context.storage.chat(number)
        if chat is None:
            return
        make = to_json if suffix == "json" else to_markdown
        text = make(chat, self._context.storage.messages(number))
        try:
            write_atomically(path, text.encode("utf-8", "replace"))
        except StorageError as error:
            self._context.messages.error(str(error))
        else:
            self._context.messages.toast(f"Saved as {path.name}.")


def create_page(context: AppContext) -> ChatPage:
    """The page for the window."""
    return ChatPage(context)
