"""What happens with LoRA and VAE files: they are chosen or dropped, checked, and remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QFileDialog

from app.images.form import Form
from app.images.known import KnownFiles
from app.shell.page import AppContext
from engine.worker.protocol import Event

WEIGHTS = "Weights (*.safetensors)"
OFFERED = 8  # LoRA files in the menu
UNKNOWN = "This file cannot be used."


class FilesControl(QObject):
    """Joins the form's LoRA list and VAE row to the worker."""

    def __init__(self, context: AppContext, form: Form, known: KnownFiles) -> None:
        super().__init__(form)
        self._context = context
        self._form = form
        self._known = known
        self._model = ""
        more = form.more
        more.loras.choose_wanted.connect(lambda: self.choose("Choose LoRA files"))
        more.loras.file_chosen.connect(self.add)
        more.vae.choose_wanted.connect(lambda: self.choose("Choose a VAE file"))
        more.vae.cleared.connect(lambda: self._put_vae(""))
        form.files_dropped.connect(self.add_all)
        more.loras.offer(known.recent("lora", OFFERED))

    def choose(self, title: str) -> None:
        """Ask for files; what each one is, it tells itself."""
        dialog = QFileDialog(self._form, title)
        dialog.setObjectName("image_files_dialog")
        dialog.setNameFilters([WEIGHTS, "All files (*)"])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        recent = [*self._known.recent("lora", 1), *self._known.recent("vae", 1)]
        if recent:
            dialog.setDirectory(str(Path(recent[0]).parent))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filesSelected.connect(self.add_all)
        dialog.open()

    def claim(self, path: str, otherwise: Callable[[str], None]) -> None:
        """A file was dropped beside the form: it is added if it is a LoRA or a VAE."""

        def hear(event: Event) -> None:
            if event.event == "done":
                self._add(path, event)
            elif event.final:
                otherwise(path)

        if self._model:
            self._ask(path, hear)
        else:
            otherwise(path)

    def add_all(self, paths: Sequence[str]) -> None:
        """Add files that were dropped or chosen."""
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        """Ask what a file is; then it joins the list, or becomes the VAE, or a sentence says why
        it does not."""

        def hear(event: Event) -> None:
            if event.event == "error":
                self._context.messages.error(str(event.get("message") or UNKNOWN))
            elif event.event == "done":
                self._add(path, event)

        self._ask(path, hear)

    def show_model(self, model: str) -> None:
        """Another model: ask anew which of the files go with it."""
        self._model = model
        self.check()

    def check(self) -> None:
        """Ask of every file on the form whether the model can use it."""
        more = self._form.more
        for row in more.loras.rows:
            self._check(row.path)
        if more.vae.file:
            self._check(more.vae.file)

    def _check(self, path: str) -> None:
        def hear(event: Event) -> None:
            if event.event == "error" and event.get("code") == "internal":
                return  # the worker died; drawing will tell
            if event.final:
                problem = str(event.get("problem") or "")
                if event.event == "error":
                    problem = str(event.get("message") or UNKNOWN)
                self._tell(path, problem, str(event.get("hint") or ""))

        self._ask(path, hear)

    def _add(self, path: str, event: Event) -> None:
        problem = str(event.get("problem") or "")
        if problem:
            self._context.messages.error(problem)
        else:
            self._take(path, str(event.get("kind")), str(event.get("hint") or ""))

    def _take(self, path: str, kind: str, hint: str) -> None:
        self._known.remember(kind, path)
        self._form.show_files()
        if kind == "vae":
            self._put_vae(path)
            return
        self._form.more.loras.put(path)
        self._form.more.loras.tell(path, "", _hint_words(hint))
        self._form.more.loras.offer(self._known.recent("lora", OFFERED))

    def _tell(self, path: str, problem: str, hint: str) -> None:
        more = self._form.more
        more.loras.tell(path, problem, _hint_words(hint))
        if more.vae.file == path:
            more.vae.tell(problem)
        self._form.changed.emit()

    def _put_vae(self, path: str) -> None:
        self._form.more.vae.show_file(path)
        self._form.changed.emit()

    def _ask(self, path: str, hear: object) -> None:
        if self._model:
            self._context.engine.request(
                "image_part",
                hear,  # type: ignore[arg-type]
                model=self._model,
                path=path,
            )


def _hint_words(hint: str) -> str:
    return f"Made for prompts with “{hint}”." if hint else ""
