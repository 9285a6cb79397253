"""The form's part that folds out: sampler, start picture, LoRA files, VAE, CLIP skip and more."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSpinBox, QVBoxLayout, QWidget

from app.images.loras import LoraBox
from app.images.parts import Disclosure
from app.images.prediction import PredictionRow
from app.images.start import StartBox
from app.images.values import SAMPLERS, Info, Values, sampler_words
from app.theme import SPACE
from app.widgets import ElidedLabel, breakable, icon_button, label, plain_button
from app.widgets.base import name_widget

WORDS, FEW_WORDS = "Sampler, start picture, mask, LoRA", "More settings"
OWN_VAE = "Built in"
VAE_TIP = "The part that turns what was drawn into pixels; another file can give better colours"
CLIP_TIP = (
    "How early the reading of the prompt ends: 1 at its last layer, 2 one before, as some models "
    "want it"
)


class VaeRow(QWidget):
    """Which autoencoder is used. Attributes: file, problem. Signals: choose_wanted(), cleared()."""

    choose_wanted = Signal()
    cleared = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.file = self.problem = ""
        self.setToolTip(VAE_TIP)
        self.name = ElidedLabel(OWN_VAE, "", "image_vae_name")
        self.choose = plain_button("Choose…", "image_vae_choose", None, VAE_TIP)
        self.choose.setAccessibleName("Choose a VAE file")
        self.clear = icon_button("close", "image_vae_clear", "Use the model's own VAE", size=14)
        self.note = label("", "small_warning", "image_vae_note", wrap=True)
        self.choose.clicked.connect(self.choose_wanted)
        self.clear.clicked.connect(self.cleared)
        row = QHBoxLayout()
        row.setSpacing(SPACE.small)
        row.addWidget(self.name, 1)
        row.addWidget(self.clear)
        row.addWidget(self.choose)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACE.small)
        column.addWidget(label("VAE", "small"))
        column.addLayout(row)
        column.addWidget(self.note)
        self.show_file("")

    def show_file(self, file: str) -> None:
        """Show which file is used, "" for the model's own."""
        self.file = file
        self.name.set_text(Path(file).stem if file else OWN_VAE)
        self.name.set_tip(file)
        self.clear.setVisible(bool(file))
        self.tell("")

    def tell(self, problem: str) -> None:
        """Say why the model has no use for it."""
        self.problem = problem
        self.note.setText(breakable(f"{problem} It is left out.") if problem else "")
        self.note.setVisible(bool(problem))


class More(Disclosure):
    """Attributes: sampler, start, loras, vae, clip_skip, prediction. Signals: changed()."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__(WORDS, "image_more", "How the picture is drawn, and with which files")
        self.sampler = QComboBox()
        name_widget(self.sampler, "image_sampler", "Sampler", "How the steps are taken")
        self.start, self.loras, self.vae = StartBox(), LoraBox(), VaeRow()
        self.prediction = PredictionRow()
        self.clip_skip = QSpinBox()
        self.clip_skip.setProperty("kind", "compact")
        self.clip_skip.setFixedWidth(68)
        self.clip_skip.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.clip_skip.setMinimum(1)
        name_widget(self.clip_skip, "image_clip_skip", "CLIP skip", CLIP_TIP)
        self._clip_row = QWidget()
        self._clip_row.setToolTip(CLIP_TIP)
        row = QHBoxLayout(self._clip_row)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(label("CLIP skip", "small"))
        row.addStretch(1)
        row.addWidget(self.clip_skip)
        for widget in (
            label("Sampler", "small"),
            self.sampler,
            self.prediction,
            self.start,
            self.loras,
            self.vae,
            self._clip_row,
        ):
            self.body.addWidget(widget)
        self.sampler.currentIndexChanged.connect(lambda _row: self.changed.emit())
        self.clip_skip.valueChanged.connect(lambda _number: self.changed.emit())
        self.start.strength_changed.connect(self.changed)
        self.loras.changed.connect(self.changed)
        self.prediction.changed.connect(self.changed)

    def set_narrow(self, narrow: bool) -> None:
        """Take less width, in a small window."""
        self.button.setText(FEW_WORDS if narrow else WORDS)

    def show_info(self, info: Info) -> None:
        """Offer what a model can do."""
        self.sampler.clear()
        for name in info.samplers:
            self.sampler.addItem(sampler_words(name), name)
            tip = SAMPLERS.get(name, ("", ""))[1]
            self.sampler.setItemData(self.sampler.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.prediction.show_info(info)
        self.start.setVisible(info.img2img)
        self.start.set_can_mask(info.inpaint)
        self._clip_row.setVisible(info.clip_skip > 1)
        self.clip_skip.setMaximum(max(1, info.clip_skip))

    def show_values(self, values: Values) -> None:
        """Fill this part."""
        self.sampler.setCurrentIndex(max(self.sampler.findData(values.sampler), 0))
        self.start.show_start(values.init, values.mask)
        self.start.strength.set_value(values.strength)
        self.loras.show_loras(values.loras)
        if self.vae.file != values.vae:
            self.vae.show_file(values.vae)
        self.clip_skip.setValue(values.clip_skip)
        self.prediction.show_prediction(values.prediction)
        acts = values.init or values.loras or values.vae or values.clip_skip > 1
        if acts or not self.prediction.isHidden():
            self.set_open(True)  # what acts on the picture is to be seen
