"""What a model predicts, chosen by the person where its file does not tell."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QVBoxLayout, QWidget

from app.images.values import PREDICTIONS, Info
from app.theme import SPACE
from app.widgets import label
from app.widgets.base import name_widget

TIP = "What the model was taught to tell of a picture in each step; its file does not say"
WHEN = "Change this if pictures come out as grey noise."


class PredictionRow(QWidget):
    """Which prediction is drawn with. It is seen where the model's is a guess, or another than
    the model's was asked for. Attributes: choice. Signals: changed()."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setToolTip(TIP)
        self._info = Info()
        self.choice = QComboBox()
        name_widget(self.choice, "image_prediction", "What the model predicts", TIP)
        for name, (words, tip) in PREDICTIONS.items():
            self.choice.addItem(words, name)
            self.choice.setItemData(self.choice.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.choice.currentIndexChanged.connect(lambda _row: self.changed.emit())
        row = QHBoxLayout()
        row.setSpacing(SPACE.row)
        row.addWidget(label("Predicts", "small"))
        row.addStretch(1)
        row.addWidget(self.choice)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACE.small)
        column.addLayout(row)
        column.addWidget(label(WHEN, "small", "image_prediction_when", wrap=True))

    @property
    def prediction(self) -> str:
        """What was chosen, "" where it is what the model does by itself."""
        chosen = str(self.choice.currentData() or "")
        return "" if chosen == self._info.prediction else chosen

    def show_info(self, info: Info) -> None:
        """Another model: its own prediction, and whether that is a guess."""
        self._info = info
        self.show_prediction("")

    def show_prediction(self, prediction: str) -> None:
        """Choose a prediction, "" for the model's own."""
        self.choice.setCurrentIndex(
            max(self.choice.findData(prediction or self._info.prediction), 0)
        )
        self.setVisible(self._info.prediction_guessed or bool(self.prediction))
