"""The bar over the conversation: title, model, context and the side panel's button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QSizePolicy

from app.chat.models import ModelsState
from app.chat.words import context_tip, context_words, model_words
from app.theme import SPACE
from app.widgets import ElidedLabel, icon_button, pill_button

ROOM_FOR_CONTEXT = 560  # device-independent pixels
ROOM_FOR_TITLE = 400


class Head(QFrame):
    """The bar.

    Signals: model_chosen(name), load_wanted(), unload_wanted(), models_wanted(),
    panel_toggled(bool), list_wanted().
    """

    model_chosen = Signal(str)
    load_wanted = Signal()
    unload_wanted = Signal()
    models_wanted = Signal()
    panel_toggled = Signal(bool)
    list_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "head")
        self.setObjectName("chat_head")
        self.setFixedHeight(SPACE.head)
        row = QHBoxLayout(self)
        row.setContentsMargins(SPACE.group + 4, 0, SPACE.group + 4, 0)
        row.setSpacing(SPACE.inner)
        self.list_button = icon_button("chat", "show_list", "Show or hide the list of chats")
        self.list_button.clicked.connect(self.list_wanted)
        self.list_button.hide()
        self.title = ElidedLabel("New chat", "title", "chat_title")
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.model = pill_button("No model", "model_pill", "ring")
        self.menu = QMenu(self.model)
        self.menu.setObjectName("model_menu")
        self.model.setMenu(self.menu)
        self.context = pill_button("Context", "context_pill")
        self.panel_button = icon_button("settings", "toggle_side_panel", "System prompt and more")
        self.panel_button.setCheckable(True)
        self.panel_button.toggled.connect(self.panel_toggled)
        row.addWidget(self.list_button)
        row.addWidget(self.title, 1)
        for widget in (self.model, self.context, self.panel_button):
            row.addWidget(widget)
        self._has_context = False
        self.show_context(None, None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Where there is little room the context, then the title give way to the model."""
        self.context.setVisible(self._has_context and self.width() >= ROOM_FOR_CONTEXT)
        self.title.setVisible(self.width() >= ROOM_FOR_TITLE)

    def show_models(self, state: ModelsState) -> None:
        """Show the model in use, whether it is loaded, and the choice."""
        current = state.current
        if state.loading:
            words = state.loading
        elif current is None:
            words = "No model"
        else:
            words = model_words(state.title_of(current), current)
        loaded = state.is_loaded
        self.model.setText(f"{words}  ▾")
        self.model.set_icon("dot" if loaded else "ring", "accent" if loaded else "dim")
        tip = _model_tip(state)
        self.model.setToolTip(tip)
        self.model.setAccessibleName(f"Model: {words}")
        self.model.setAccessibleDescription(tip)
        self._fill_menu(state)

    def show_context(self, used: int | None, size: int | None) -> None:
        """Show how much of the context is used."""
        words = context_words(used, size)
        self.context.setText(words)
        self._has_context = bool(size)
        self._fit()
        self.context.setToolTip(context_tip(used, size))
        self.context.setAccessibleName(words)
        self.context.setAccessibleDescription(context_tip(used, size))

    def _fill_menu(self, state: ModelsState) -> None:
        self.menu.clear()
        for model in state.usable:
            action = QAction(model_words(state.title_of(model), model), self.menu)
            action.setCheckable(True)
            action.setChecked(state.current is not None and model["name"] == state.current["name"])
            action.triggered.connect(lambda _on=False, n=model["name"]: self.model_chosen.emit(n))
            self.menu.addAction(action)
        if not state.usable:
            self.menu.addAction("No model is installed").setEnabled(False)
        self.menu.addSeparator()
        if state.current is not None:
            if state.is_loaded:
                self.menu.addAction("Unload (frees GPU memory)", self.unload_wanted.emit)
            elif not state.loading:
                self.menu.addAction("Load now", self.load_wanted.emit)
        self.menu.addAction("Manage models…", self.models_wanted.emit)


def _model_tip(state: ModelsState) -> str:
    if state.loading:
        return f"{state.loading}. You can write meanwhile."
    if state.current is None:
        return "Choose a model"
    if state.is_loaded:
        return "Loaded and ready. Click to choose another model."
    return f"Not loaded{_need(state.current)}. It loads with your first message."


def _need(model: Mapping[str, Any]) -> str:
    from app.memory.units import gib

    need = model.get("need_bytes")
    return f"; it needs {gib(need)} of GPU memory" if need else ""
