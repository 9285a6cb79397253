"""What the next picture needs against what is free, told before it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.images.values import size_words
from app.memory.units import gib
from app.shell.engine import EngineClient
from app.widgets import label, quiet_button, set_look
from engine.worker.protocol import Event

ASK_AFTER_MS = 300
ASK_AGAIN_MS = 3000  # while it does not fit: other programs may give memory back
NOTHING_FITS = "Close other programs that use the GPU, or choose a smaller model."
TIP = (
    "GPU memory for the model and for drawing at this size, besides what is held already. A little "
    "is always left to the driver and the screen"
)


@dataclass(frozen=True)
class Fit:
    """What ``image_fit`` told, in bytes. size: one that would fit where this one does not."""

    more: int = 0
    free: int | None = None
    evicts: str = ""
    problem: str = ""
    size: tuple[int, int] | None = None
    tiled: bool = False


def fit_from(fields: Mapping[str, Any]) -> Fit:
    """Read the fields of ``done``."""
    free, size = fields.get("free"), fields.get("fits")
    pair = [int(side) for side in size] if isinstance(size, list | tuple) else []
    return Fit(
        more=int(fields.get("more") or 0),
        free=int(free) if isinstance(free, int | float) else None,
        evicts=str(fields.get("evicts") or ""),
        problem=str(fields.get("problem") or ""),
        size=(pair[0], pair[1]) if len(pair) == 2 else None,
        tiled=bool(fields.get("tiled")),
    )


def fit_words(fit: Fit) -> str:
    """``Needs 0.4 GiB; 11.2 GiB free``, or by how much it is too large and what would fit."""
    if fit.problem:
        missing = fit.more - fit.free if fit.free is not None else 0
        words = (
            f"Needs {gib(missing)} more than is free" if missing > 0 else "Too large for this GPU"
        )
        if fit.size is None:
            return f"{words}. {NOTHING_FITS}"
        return f"{words}: {size_words(*fit.size)} would fit"
    need = f"Needs {gib(fit.more)}" if fit.more else "Needs no more memory"
    if fit.free is None:
        return need
    words = f"{need}; {gib(fit.free)} free"
    if fit.evicts:
        words += f" once {fit.evicts} is unloaded"
    return f"{words}; finished in parts" if fit.tiled else words


class FitLine(QWidget):
    """The line below the size. Signals: size_wanted(width, height) for one that fits."""

    size_wanted = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.fit: Fit | None = None
        self.words = label("", "small", "image_fit", wrap=True)
        self.words.setToolTip(TIP)
        self.use = quiet_button("", "image_fit_use", None, "Choose the largest size that fits")
        self.use.setProperty("flush", True)
        self.use.clicked.connect(self._use)
        row = QHBoxLayout()
        row.addWidget(self.use)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.words)
        column.addLayout(row)
        self.show_fit(None)

    def show_fit(self, fit: Fit | None) -> None:
        """Tell it; None while it is not known."""
        self.fit = fit
        self.words.setText("" if fit is None else fit_words(fit))
        set_look(self.words, kind="small_warning" if fit and fit.problem else "small")
        size = fit.size if fit is not None else None
        self.use.setText("" if size is None else f"Use {size_words(*size)}")
        self.use.setAccessibleName(self.use.text() or "Use a size that fits")
        self.use.setVisible(size is not None)
        self.setVisible(fit is not None)

    def _use(self) -> None:
        if self.fit is not None and self.fit.size is not None:
            self.size_wanted.emit(*self.fit.size)


class FitControl(QObject):
    """Asks the worker, a moment after the last change. Signals: told(Fit or None)."""

    told = Signal(object)

    def __init__(self, engine: EngineClient, parent: QObject) -> None:
        super().__init__(parent)
        self._engine = engine
        self._asking = 0
        self._order: tuple[str, dict[str, Any]] | None = None
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self._ask)

    def ask(self, model: str, settings: dict[str, Any]) -> None:
        """Ask soon what this order needs; nothing where it is known already."""
        if (model, settings) != self._order:
            self._order = (model, settings)
            self._later.start(ASK_AFTER_MS)

    def ask_again(self) -> None:
        """What is held or free has changed."""
        if self._order is not None:
            self._later.start(ASK_AFTER_MS)

    def shut_down(self) -> None:
        """The program ends."""
        self._later.stop()
        self._engine.forget(self._asking)

    def _ask(self) -> None:
        if self._order is None or not self._order[0]:
            return
        model, settings = self._order
        self._engine.forget(self._asking)
        self._asking = self._engine.request("image_fit", self._hear, model=model, settings=settings)

    def _hear(self, event: Event) -> None:
        if not event.final:
            return
        fit = fit_from(event.fields) if event.event == "done" else None
        self.told.emit(fit)
        if fit is not None and fit.problem:
            self._later.start(ASK_AGAIN_MS)
