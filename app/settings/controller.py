"""What happens on the Settings page: choices are kept, the worker is told what concerns it."""

from __future__ import annotations

import platform
from functools import partial
from importlib import metadata
from pathlib import Path

from PySide6 import __version__ as qt_version
from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog

from app.memory.feed import feed_of
from app.memory.units import size, time_left
from app.settings.choices import (
    CONTEXTS,
    HEADROOMS,
    IDLE_MINUTES,
    KEPT_ON_RESET,
    backend_choices,
    device_choices,
    with_value,
)
from app.settings.idle import IdleUnloader
from app.settings.page import SettingsPage
from app.settings.report import Report, backends_of, devices_of, report_text
from app.settings.rows import connect_setting
from app.settings.secret import TokenKeeper
from app.shell.page import AppContext
from app.widgets import confirm
from app.widgets.reveal import reveal
from engine.worker.protocol import Event

HAS_TOKEN = "network.has_token"
NETWORK = "network.downloads"
PACKAGES = ("wgpu", "wgpudawn", "numpy", "tokenizers")


class SettingsController(QObject):
    """Joins the page to the settings and the worker.

    Attributes: report (the doctor's last, empty before), idle, tokens.
    """

    def __init__(self, context: AppContext, page: SettingsPage) -> None:
        super().__init__(page)
        self._context = context
        self._page = page
        self._folder = ""
        self._models_bytes = 0
        self._moving = 0
        self._examining = 0
        self.report: Report = {}
        self.idle = IdleUnloader(context.engine, context.settings, feed_of(context.engine), self)
        self.tokens = TokenKeeper(self)
        self._connect_choices()
        self._connect_actions()
        self.render()
        self._list_folder()

    def _connect_choices(self) -> None:
        page, keep = self._page, self._context.settings.set
        connect_setting(page.theme_pills, "theme", keep)
        connect_setting(page.context_box, "context", keep)
        connect_setting(page.idle_box, "idle_unload_minutes", keep)
        connect_setting(page.headroom_box, "memory.headroom_bytes", keep)
        page.device_box.chosen.connect(partial(self._choose_engine, "device"))
        page.backend_box.chosen.connect(partial(self._choose_engine, "backend"))
        page.network_switch.toggled.connect(partial(keep, NETWORK))

    def _connect_actions(self) -> None:
        page, context = self._page, self._context
        page.section_chosen.connect(self.show_section)
        page.shown.connect(self._list_folder)
        page.wished.connect(self.grant)
        page.reset.clicked.connect(self.ask_reset)
        page.show_folder.clicked.connect(self.open_folder)
        page.change_folder.clicked.connect(self.choose_folder)
        page.move_stop.clicked.connect(self.stop_move)
        page.token_keep.clicked.connect(self.keep_token)
        page.token_edit.returnPressed.connect(self.keep_token)
        page.token_forget.clicked.connect(self.tokens.forget)
        page.help.again.clicked.connect(partial(self.examine, refresh=True))
        page.help.copy.clicked.connect(self.copy_report)
        page.help.open_log.clicked.connect(self.open_log_folder)
        self.tokens.kept.connect(partial(self._note_token, True))
        self.tokens.forgotten.connect(partial(self._note_token, False))
        self.tokens.failed.connect(context.messages.error)
        self.idle.unloaded.connect(self._tell_rest)
        context.settings.changed.connect(self.render)
        context.engine.worker_started.connect(self._show_versions)

    def render(self, *_: object) -> None:
        """Show every setting as it is kept."""
        page, get = self._page, self._context.settings.get
        context, headroom = int(get("context")), int(get("memory.headroom_bytes"))
        minutes, device = int(get("idle_unload_minutes")), str(get("device"))
        page.context_box.show_choices(with_value(CONTEXTS, context, f"{context} tokens"))
        page.headroom_box.show_choices(with_value(HEADROOMS, headroom, size(headroom)))
        page.idle_box.show_choices(with_value(IDLE_MINUTES, minutes, f"After {minutes} minutes"))
        page.device_box.show_choices(device_choices(devices_of(self.report), device))
        backend = str(get("backend"))
        page.backend_box.show_choices(backend_choices(backends_of(self.report), backend))
        page.theme_pills.show_value(get("theme"))
        page.context_box.show_value(context)
        page.headroom_box.show_value(headroom)
        page.idle_box.show_value(minutes)
        page.device_box.show_value(device)
        page.backend_box.show_value(backend)
        page.network_switch.setChecked(bool(get(NETWORK)))
        has_token = bool(get(HAS_TOKEN, False))
        page.token_words.setText("A token is kept." if has_token else "No token is kept.")
        page.token_forget.setEnabled(has_token)
        self._show_versions()

    def grant(self, wishes: dict[str, object]) -> None:
        """What another page asked for: section=."""
        if isinstance(section := wishes.get("section"), str):
            self.show_section(section)

    def show_section(self, name: str) -> None:
        """Bring a section to the front; the doctor looks when it is first needed."""
        self._page.show_section(name)
        if name in ("device", "help") and not self.report:
            self.examine()

    def examine(self, *, refresh: bool = False) -> None:
        """Ask the worker what it found; with refresh it looks anew."""
        if self._examining:
            return
        self._page.help.show_waiting()
        self._examining = self._context.engine.request(
            "doctor", self._hear_doctor, refresh=refresh or None
        )

    def copy_report(self) -> None:
        """Put the report on the clipboard."""
        QGuiApplication.clipboard().setText(report_text(self.report, self._versions()))
        self._context.messages.toast("The report is on the clipboard.")

    def open_log_folder(self) -> None:
        """Show the log in the file manager."""
        if not reveal(self._context.places.log_file):
            self._context.messages.error(
                f"No file manager opened. The log is {self._context.places.log_file}."
            )

    def ask_reset(self) -> None:
        """Ask whether all settings shall be as in the beginning."""
        reset = self._reset
        confirm(self._page, "Reset all settings?", KEPT_ON_RESET, "Reset", reset, destructive=True)

    def open_folder(self) -> None:
        """Show the models folder in the file manager."""
        if self._folder and not reveal(Path(self._folder)):
            self._context.messages.error(f"No file manager opened. The folder is {self._folder}.")

    def choose_folder(self) -> None:
        """Let the person choose where the models shall lie."""
        dialog = QFileDialog(self._page, "Move your models to", self._folder)
        dialog.setObjectName("settings_folder_dialog")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(self.ask_move)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def ask_move(self, folder: str) -> None:
        """Ask whether the models shall be moved there, with the bytes that this moves."""
        if not folder or Path(folder) == Path(self._folder):
            return
        words = (
            f"{size(self._models_bytes)} of models move from {self._folder} to {folder}. "
            "A loaded model is unloaded first. Until all have arrived they stay where they are."
        )
        confirm(self._page, "Move your models?", words, "Move", partial(self.move, folder))

    def move(self, folder: str) -> None:
        """Move the models."""
        self._page.show_move("Starting", None)
        self._moving = self._context.engine.request("models_move", self._hear_move, folder=folder)

    def stop_move(self) -> None:
        """Leave the models where they are."""
        self._context.engine.stop(self._moving)

    def keep_token(self) -> None:
        """Put the pasted token into the keyring."""
        token = self._page.token_edit.text().strip()
        if token:
            self.tokens.keep(token)

    def _note_token(self, has_token: bool) -> None:
        self._page.token_edit.clear()
        self._context.settings.set(HAS_TOKEN, has_token)
        words = "The token is in the keyring." if has_token else "The token is forgotten."
        self._context.messages.toast(words)
        self.render()

    def _choose_engine(self, key: str, value: object) -> None:
        """Another device or backend: the worker closes the one it has."""
        if value == self._context.settings.get(key):
            return
        self._context.settings.set(key, value)
        self._tell_worker()

    def _tell_worker(self) -> None:
        get = self._context.settings.get
        self._context.engine.request(
            "settings", self._hear_settings, backend=str(get("backend")), device=str(get("device"))
        )

    def _hear_settings(self, event: Event) -> None:
        if event.event == "error":
            self._context.messages.error(str(event.get("message")), event.get("details"))
        elif event.final:
            self._context.messages.toast("This takes effect at the next load.")
            self.report = {}

    def _hear_doctor(self, event: Event) -> None:
        if not event.final:
            return
        self._examining = 0
        report = event.get("report")
        if event.event == "done" and isinstance(report, dict):
            self.report = report
            self._page.help.show_report(report)
            self.render()
        else:
            words = str(event.get("message") or "The engine did not answer.")
            self._page.help.show_failure(words)

    def _hear_move(self, event: Event) -> None:
        if event.event == "progress":
            done, total = event.get("done_bytes") or 0, event.get("total_bytes") or 0
            words = time_left(event.get("seconds_left")) or "Moving"
            self._page.show_move(words, done / total if total else None)
        if not event.final:
            return
        self._page.show_move("", None)
        if event.event == "done":
            self._context.messages.toast(f"Your models are in {event.get('folder')} now.")
        elif event.get("code") != "cancelled":
            self._context.messages.error(str(event.get("message")), event.get("details"))
        self._list_folder()

    def _list_folder(self) -> None:
        self._context.engine.request("models_list", self._take_list)

    def _take_list(self, event: Event) -> None:
        if event.event != "done":
            return
        self._folder = str(event.get("folder") or "")
        models = event.get("models") or []
        self._models_bytes = sum(int(one.get("bytes") or 0) for one in models)
        self._page.folder.set_text(self._folder)

    def _reset(self) -> None:
        get = self._context.settings.get
        before = (get("device"), get("backend"))
        self._context.settings.reset()
        self.render()
        if (get("device"), get("backend")) != before:
            self._tell_worker()
        self._context.messages.toast("All settings are as they were in the beginning.")

    def _tell_rest(self, minutes: int) -> None:
        self._context.messages.toast(
            f"The model was unloaded after {minutes} minutes of rest. Your next message loads it."
        )

    def _show_versions(self) -> None:
        self._page.help.show_versions(self._versions())

    def _versions(self) -> tuple[tuple[str, str], ...]:
        engine = self._context.engine.engine_version or "not started yet"
        rows = [("Driftwood", engine), ("Qt", qt_version), ("Python", platform.python_version())]
        rows += [(name, found) for name in PACKAGES if (found := _version_of(name))]
        return (*rows, ("System", platform.platform(terse=True)))


def _version_of(package: str) -> str:
    """The installed version of a package, empty where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
