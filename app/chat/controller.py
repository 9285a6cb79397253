"""What happens on the chat page: between the store, the engine and the views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.chat.conversation import Item
from app.chat.defaults import request_fields
from app.chat.generation import Generation
from app.chat.model_control import ModelControl
from app.chat.prompts import make_prompt
from app.chat.telling import tell_death, telling
from app.chat.values import (
    chosen_settings,
    keep_for_new_chats,
    panel_values,
    system_of,
)
from app.chat.words import title_from
from app.shell.no_gpu import tell_no_gpu
from app.shell.page import AppContext
from app.storage.chats import ChatStore
from app.storage.records import (
    Attachment,
    Chat,
    ChatSettings,
    Message,
    State,
    all_versions,
    path_to,
    versions_of,
)
from app.widgets import Action

DROPPED = "Messages above this line no longer fit the context"


class ChatController(QObject):
    """The chat on show and the answer being written.

    Attributes: chat (None for a new one), messages (all versions, by id), generation (None while
    nothing is written), models (a ModelControl).
    Signals: chats_changed(); chat_changed(anew) when another branch or chat is on show;
    grew(message); status_changed(message id, words, fraction); generation_changed();
    values_changed(); context_changed(used, size), both None if unknown; unsent(text, files) when a
    message could not be kept and goes back to its author.
    """

    chats_changed = Signal()
    chat_changed = Signal(bool)
    grew = Signal(object)
    status_changed = Signal(int, str, object)
    generation_changed = Signal()
    values_changed = Signal()
    context_changed = Signal(object, object)
    unsent = Signal(str, tuple)

    def __init__(self, context: AppContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._store: ChatStore = context.storage
        self.chat: Chat | None = None
        self.messages: dict[int, Message] = {}
        self.generation: Generation | None = None
        self._new = ChatSettings()  # of the chat that is not begun yet
        self.models = ModelControl(context, self)
        self.models.changed.connect(self._follow_models)
        context.engine.worker_died.connect(self._tell_death)

    # ---- which chat --------------------------------------------------------------------------

    def open_chat(self, number: int) -> None:
        """Show a chat; an unknown one shows a new one."""
        chat = self._store.chat(number)
        if chat is None:
            self.new_chat()
            return
        self.chat = chat
        self._reload(anew=True)
        self._context.settings.set("chat.last_chat", chat.id)
        self._follow_settings()

    def new_chat(self) -> None:
        """Show an empty chat; it is kept once something is sent."""
        self.chat = None
        self.messages = {}
        self._new = ChatSettings()
        self._context.settings.set("chat.last_chat", 0)
        self.chat_changed.emit(True)
        self._follow_settings()

    @property
    def settings(self) -> ChatSettings:
        """The settings of the chat on show."""
        return self.chat.settings if self.chat else self._new

    def path(self) -> list[Message]:
        """The branch on show."""
        return path_to(self.messages, self.chat.leaf if self.chat else None)

    def items(self) -> list[Item]:
        """The branch on show with versions and the line above which messages were dropped."""
        path = self.path()
        answers = (m for m in reversed(path) if m.role == "assistant" and m.state != State.FAILED)
        last = next(answers, None)
        dropped = set(last.dropped) if last else set[int]()
        words = str(last.stats.get("dropped_text") or DROPPED) if last else DROPPED
        items: list[Item] = []
        groups = all_versions(self.messages)
        for place, one in enumerate(path):
            versions = groups[one.parent, one.role]
            is_first_kept = place > 0 and path[place - 1].id in dropped and one.id not in dropped
            divider = words if is_first_kept else ""
            items.append(Item(one, versions.index(one.id), len(versions), divider))
        return items

    # ---- writing -----------------------------------------------------------------------------

    def send(self, text: str, files: tuple[Attachment, ...] = ()) -> None:
        """Add a prompt to the chat and have it answered."""
        with self._telling(lambda: self.unsent.emit(text, files)):
            if self.chat is None:
                title = title_from(text or files[0].name)
                self.chat = self._store.add_chat(title, self._new)
                self._context.settings.set("chat.last_chat", self.chat.id)
            parent = self.chat.leaf
            user = self._store.add_message(self.chat.id, parent, "user", text, attachments=files)
            self._answer(user.id)
        self.chats_changed.emit()

    def edit(self, number: int, text: str) -> None:
        """Another version of a message; one of the person's is answered anew."""
        old = self.messages[number]
        with self._telling():
            new = self._store.add_message(
                old.chat,
                old.parent,
                old.role,
                text,
                attachments=old.attachments,
                model=old.model,
            )
            if old.role == "user":
                self._answer(new.id)
            else:
                self._reload()

    def act(self, number: int, action: str) -> None:
        """Do what the row below a message offers: regenerate, retry, continue or branch."""
        message = self.messages.get(number)
        if message is None:
            return
        with self._telling():
            if action == "branch":
                self._branch(message)
            elif action == "continue":
                self._write(replace(message, state=State.STREAMING, note=""), continuing=True)
            elif action == "retry" and not message.text:
                self._write(replace(message, state=State.STREAMING, note="", details=""))
            elif action in ("retry", "regenerate") and message.parent is not None:
                self._answer(message.parent)

    def choose_version(self, number: int, index: int) -> None:
        """Show another version of a message with what follows it."""
        versions = versions_of(self.messages, number)
        if self.chat is not None and 0 <= index < len(versions):
            with self._telling():
                self._store.show_version(self.chat.id, versions[index])
                self._reload()

    def stop(self) -> bool:
        """Stop the answer that is being written; False if none is."""
        if self.generation is None:
            return False
        self.generation.stop()
        return True

    def shut_down(self) -> None:
        """The program ends: keep what there is."""
        if self.generation is not None:
            self.generation.abandon()

    @property
    def busy_chat(self) -> int:
        """The chat whose answer is being written, 0 if none is."""
        return self.generation.message.chat if self.generation else 0

    def _answer(self, parent: int) -> None:
        """A new answer below a prompt."""
        assert self.chat is not None
        model = self.models.state.current
        answer = self._store.add_message(
            self.chat.id,
            parent,
            "assistant",
            "",
            state=State.STREAMING,
            model=str(model["name"]) if model else "",
        )
        self._write(answer)

    def _write(self, answer: Message, *, continuing: bool = False) -> None:
        """Have the engine write (or go on with) an answer that is in the store."""
        model = self.models.state.current
        if self.generation is not None or model is None:
            why = "No model is installed. Get one on the Models page, then retry."
            if self.generation is not None:
                why = "Another answer is being written. Retry when it is complete."
            self._store.save_message(replace(answer, state=State.FAILED, note=why))
            self._reload()
            return
        self._store.save_message(answer)
        self._reload()
        upto = answer.id if continuing else answer.parent
        prompt = make_prompt(path_to(self.messages, upto), self.system(), continuing=continuing)
        told = frozenset(one.note for one in self.path() if one.id != answer.id)
        made = Generation(self._context.engine, self._store, answer, prompt, told)
        made.grew.connect(self._show_growth)
        made.status_changed.connect(lambda w, f: self.status_changed.emit(answer.id, w, f))
        made.model_loaded.connect(lambda: self.models.note_loaded(str(model["name"])))
        made.finished.connect(self._finish)
        made.save_failed.connect(lambda text: self._context.messages.error(text))
        self.generation = made
        self.generation_changed.emit()
        words = "Starting" if model.get("loaded") else "Loading the model"
        self.status_changed.emit(answer.id, words, None)
        made.start(str(model["name"]), self._request_fields(), continuing=continuing)

    def _request_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"sampling": request_fields(self.values())}
        if context := self._context_size():
            fields["context"] = context
        return fields

    def _context_size(self) -> int:
        return self.settings.context or int(self._context.settings.get("context"))

    def _show_growth(self, message: Message) -> None:
        if self.chat is not None and message.chat == self.chat.id:
            self.messages[message.id] = message
            self.grew.emit(message)

    def _finish(self, message: Message) -> None:
        made, self.generation = self.generation, None
        if made is not None:
            made.deleteLater()
            if made.error_code == "no_adapter":
                tell_no_gpu(self._context, message.note)
        self.generation_changed.emit()
        if self.chat is not None and message.chat == self.chat.id:
            self._reload()
        self.models.refresh()

    def _branch(self, message: Message) -> None:
        new = self._store.branch(message.chat, message.id)
        self.open_chat(new.id)
        self.chats_changed.emit()
        self._context.messages.toast("This is a new chat with a copy of the messages so far.")

    def _reload(self, *, anew: bool = False) -> None:
        """Read the chat on show again."""
        if self.chat is None:
            return
        self.chat = self._store.chat(self.chat.id)
        self.messages = self._store.messages(self.chat.id) if self.chat else {}
        if self.generation is not None and self.generation.message.id in self.messages:
            self.messages[self.generation.message.id] = self.generation.message
        self.chat_changed.emit(anew)
        self._tell_context()

    # ---- the list ----------------------------------------------------------------------------

    def rename(self, number: int, title: str) -> None:
        """Give a chat another title."""
        self._change_list(lambda: self._store.rename(number, title))
        if self.chat is not None and self.chat.id == number:
            self._reload()

    def pin(self, number: int, pinned: bool) -> None:
        """Keep a chat at the top, or not."""
        self._change_list(lambda: self._store.pin(number, pinned))

    def delete(self, number: int) -> None:
        """Delete a chat; a toast offers to bring it back."""
        chat = self._store.chat(number)
        if chat is None:
            return
        if self.busy_chat == number:
            self.stop()
        if self.chat is not None and self.chat.id == number:
            self.new_chat()
        self._change_list(lambda: self._store.delete(number))
        undo = Action("Undo", lambda: self._undelete(number))
        self._context.messages.toast(f'"{chat.title}" was deleted.', undo, seconds=8)

    def _undelete(self, number: int) -> None:
        self._change_list(lambda: self._store.undelete(number))
        self.open_chat(number)

    def _change_list(self, change: Any) -> None:
        with self._telling():
            change()
        self.chats_changed.emit()

    # ---- values of the side panel --------------------------------------------------------------

    def values(self) -> dict[str, Any]:
        """The side panel's values for the chat on show."""
        return panel_values(self._context.settings, self.settings, self.models.state.current)

    def system(self) -> str:
        """The system prompt of the chat on show."""
        return system_of(self._context.settings, self.settings)

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Keep what the person changed in the side panel, for this chat."""
        model = self.models.state.current
        self._keep_settings(chosen_settings(self._context.settings, self.settings, model, values))

    def use_for_new_chats(self) -> None:
        """The values of this chat become those that new chats begin with."""
        keep_for_new_chats(self._context.settings, self.models.state.current, self.values())
        self._context.messages.toast("New chats begin with these values.")

    def reset_values(self) -> None:
        """Back to what the model's makers recommend, here and for new chats."""
        self._context.settings.set("chat.sampling", {})
        self._context.settings.set("chat.system", "")
        self._keep_settings(ChatSettings(model=self.settings.model))
        self.values_changed.emit()

    def choose_model(self, name: str) -> None:
        """Use another model in this chat and in new ones."""
        self._context.settings.set("chat.model", name)
        self._keep_settings(replace(self.settings, model=name))
        self._follow_settings()
        self.models.load(self._context_size())

    def load_model(self) -> None:
        """Load the model in use now."""
        self.models.load(self._context_size())

    def _keep_settings(self, settings: ChatSettings) -> None:
        if self.chat is None:
            self._new = settings
            return
        self.chat = replace(self.chat, settings=settings)
        with self._telling():
            self._store.set_settings(self.chat.id, settings)

    def _follow_settings(self) -> None:
        wanted = self.settings.model or str(self._context.settings.get("chat.model"))
        self.models.want(wanted)
        self.values_changed.emit()
        self._tell_context()

    def _follow_models(self) -> None:
        self.values_changed.emit()

    # ---- telling -----------------------------------------------------------------------------

    def _tell_context(self) -> None:
        """The meter's figures: from the last answer, and counted by the worker if it can now."""
        path = self.path()
        stats = next((m.stats for m in reversed(path) if m.stats.get("context_size")), {})
        used, size = stats.get("context_used"), stats.get("context_size")
        self.context_changed.emit(used, size)
        if self.generation is None and path:
            prompt = make_prompt(path, self.system())
            self.models.count(prompt.messages, self._context_size(), self.context_changed.emit)

    def _tell_death(self, reason: str) -> None:
        tell_death(self._context, reason, self.path(), lambda number: self.act(number, "retry"))

    def _telling(self, otherwise: Callable[[], None] | None = None) -> AbstractContextManager[None]:
        return telling(self._context, otherwise)
