"""The one style sheet, made from tokens.

Widgets choose their look by the dynamic property `kind` (see app.widgets), never by own colours:
`QPushButton[kind="primary"]`, `QFrame[kind="card"]`, `QLabel[kind="dim"]` and so on.
"""

from __future__ import annotations

from string import Template

from app.theme.tokens import RADIUS, TYPE, Tokens, points

_BASE = """
* { outline: none; }
QWidget { color: $text; }
QMainWindow, QDialog, QStackedWidget, QWidget[kind="page"] { background: $background; }
QLabel { background: transparent; }
QToolTip {
    background: $panel; color: $text; border: 1px solid $line; padding: 6px 8px;
}
QScrollArea, QScrollArea > QWidget > QWidget[kind="scroll"] { background: transparent; border: 0; }
QSplitter::handle { background: $line; }
"""

_TEXT = """
QLabel[kind="title"] { font-size: ${title}pt; font-weight: 600; }
QLabel[kind="strong"] { font-weight: 600; }
QLabel[kind="dim"] { color: $dim; }
QLabel[kind="small"] { color: $dim; font-size: ${small}pt; }
QLabel[kind="small_text"] { font-size: ${small}pt; }
QLabel[kind="small_warning"] { color: $warning; font-size: ${small}pt; }
QLabel[kind="group"] { color: $dim; font-size: ${small}pt; font-weight: 600; }
QLabel[kind="accent"] { color: $accent; }
QLabel[kind="warning"] { color: $warning; }
QLabel[kind="bad"] { color: $bad; }
QLabel[kind="chip"] {
    color: $dim; border: 1px solid $line; border-radius: 5px; padding: 1px 7px;
    font-size: ${small}pt;
}
"""

_FRAMES = """
QFrame[kind="card"] {
    background: $panel; border: 1px solid $line; border-radius: ${r_card}px;
}
QFrame[kind="head"] { background: $background; border: 0; border-bottom: 1px solid $line; }
QFrame[kind="rail"] { background: $sunken; border: 0; border-right: 1px solid $line; }
QFrame[kind="side"] { background: $background; border: 0; border-right: 1px solid $line; }
QFrame[kind="side"][dropping="true"] { border: 2px dashed $accent; }
QFrame[kind="side_right"] { background: $background; border: 0; border-left: 1px solid $line; }
QFrame[kind="composer"] {
    background: $panel; border: 1px solid $line; border-radius: ${r_composer}px;
}
QFrame[kind="composer"][active="true"] { border-color: $accent; }
QFrame[kind="composer"][dropping="true"] { border: 2px dashed $accent; }
QFrame[kind="bubble"] {
    background: $accent_soft; border: 0; border-radius: ${r_card}px;
    border-bottom-right-radius: 4px;
}
QFrame[kind="code"] { background: $panel; border: 1px solid $line; border-radius: 10px; }
QFrame[kind="code_head"] { background: transparent; border: 0; border-bottom: 1px solid $line; }
QFrame[kind="note"] { background: $panel; border: 1px solid $line; border-radius: ${r}px; }
QFrame[kind="quote"] { background: transparent; border: 0; border-left: 2px solid $line; }
QFrame[kind="toast"] {
    background: $panel; border: 1px solid $line; border-radius: 10px;
}
QFrame[kind="line"] { background: $line; border: 0; max-height: 1px; min-height: 1px; }
QFrame[kind="attachment"] {
    background: $background; border: 1px solid $line; border-radius: ${r}px;
}
"""

_BUTTONS = """
QPushButton {
    background: $panel; color: $text; border: 1px solid $line; border-radius: ${r}px;
    padding: 8px 14px;
}
QPushButton:hover { border-color: $faint; }
QPushButton:pressed { background: $sunken; }
QPushButton:focus { border: 2px solid $accent; padding: 7px 13px; }
QPushButton:disabled { color: $faint; }
QPushButton[kind="primary"] {
    background: $accent; color: $on_accent; border: 2px solid $accent; padding: 7px 15px;
    font-weight: 500;
}
QPushButton[kind="primary"]:hover { border-color: $text; }
QPushButton[kind="primary"]:focus { border-color: $text; }
QPushButton[kind="primary"]:disabled {
    background: $line; border-color: $line; color: $dim;
}
QPushButton[kind="danger"] { color: $bad; }
QPushButton[kind="danger"]:hover { border-color: $bad; }
QPushButton[kind="quiet"] {
    background: transparent; border: 2px solid transparent; color: $dim; padding: 2px 6px;
    font-size: ${small}pt; border-radius: 6px; text-align: left;
}
QPushButton[kind="quiet"][strong="true"] { color: $accent; font-weight: 600; }
QPushButton[kind="quiet"][flush="true"] { padding-left: 0; }
QPushButton[kind="quiet"]:hover { color: $text; background: $panel; }
QPushButton[kind="quiet"]:focus { border-color: $accent; color: $text; }
QPushButton[kind="quiet"]:disabled { color: $faint; }
QPushButton[kind="icon"] {
    background: transparent; border: 2px solid transparent; padding: 4px; border-radius: 6px;
}
QPushButton[kind="icon"]:hover { background: $accent_soft; }
QPushButton[kind="icon"]:focus { border-color: $accent; }
QPushButton[kind="icon"]:checked { background: $accent_soft; }
QPushButton[kind="pill"] {
    border-radius: 15px; padding: 4px 13px; min-height: 20px; font-size: ${pill}pt;
}
QPushButton[kind="pill"]:focus { padding: 3px 12px; }
QPushButton[kind="pill"]:checked {
    background: $accent_soft; color: $accent; border-color: $accent_soft;
}
QPushButton[kind="pill"]:checked:focus { border-color: $accent; }
QPushButton::menu-indicator { image: none; width: 0; }
"""

_FIELDS = """
QLineEdit, QPlainTextEdit, QTextEdit, QSpinBox, QDoubleSpinBox, QComboBox {
    background: $panel; color: $text; border: 1px solid $line; border-radius: ${r}px;
    padding: 7px 10px; selection-background-color: $accent; selection-color: $on_accent;
}
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus,
QComboBox:focus { border: 2px solid $accent; padding: 6px 9px; }
QLineEdit:disabled, QPlainTextEdit:disabled, QComboBox:disabled, QSpinBox:disabled,
QDoubleSpinBox:disabled { color: $faint; background: $background; }
QPlainTextEdit[kind="bare"], QTextEdit[kind="bare"], QTextBrowser[kind="bare"] {
    background: transparent; border: 0; padding: 0;
}
QPlainTextEdit[kind="bare"]:focus, QTextBrowser[kind="bare"]:focus { border: 0; padding: 0; }
QSpinBox[kind="compact"], QDoubleSpinBox[kind="compact"], QLineEdit[kind="compact"] {
    padding: 3px 8px; border-radius: 6px; font-size: ${small}pt;
}
QSpinBox[kind="compact"]:focus, QDoubleSpinBox[kind="compact"]:focus,
QLineEdit[kind="compact"]:focus { padding: 2px 7px; }
QSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::up-button,
QDoubleSpinBox::down-button { width: 0; border: 0; }
QComboBox::drop-down { border: 0; width: 26px; }
QComboBox::down-arrow { image: url("$icons/arrow-$name.svg"); width: 12px; height: 12px; }
QComboBox QAbstractItemView {
    background: $panel; border: 1px solid $line; border-radius: 0; padding: 4px;
    selection-background-color: $accent_soft; selection-color: $text;
}
QCheckBox, QRadioButton { spacing: 8px; background: transparent; }
QCheckBox::indicator, QRadioButton::indicator {
    width: 16px; height: 16px; border: 1px solid $faint; border-radius: 4px; background: $panel;
}
QRadioButton::indicator { border-radius: 8px; }
QCheckBox::indicator:checked {
    background: $accent; border-color: $accent; image: url("$icons/tick-$name.svg");
}
QRadioButton::indicator:checked { border: 5px solid $accent; width: 8px; height: 8px; }
QCheckBox:focus, QRadioButton:focus { color: $accent; }
QCheckBox::indicator:focus, QRadioButton::indicator:focus { border: 2px solid $accent; }
QSlider { min-height: 20px; background: transparent; }
QSlider::groove:horizontal { height: 4px; border-radius: 2px; background: $line; }
QSlider::sub-page:horizontal { height: 4px; border-radius: 2px; background: $accent; }
QSlider::handle:horizontal {
    width: 10px; height: 10px; margin: -5px 0; border-radius: 7px;
    border: 2px solid $accent; background: $panel;
}
QSlider::handle:horizontal:focus { background: $accent; }
QSlider::sub-page:horizontal:disabled { background: $faint; }
"""

_LISTS = """
QListView, QTreeView, QTableView {
    background: transparent; border: 0; selection-background-color: $panel;
    selection-color: $text;
}
QMenu {
    background: $panel; border: 1px solid $line; padding: 5px;
}
QMenu::item { padding: 6px 22px 6px 14px; border-radius: 6px; background: transparent; }
QMenu::item:selected { background: $accent_soft; color: $text; }
QMenu::item:disabled { color: $dim; }
QMenu::icon { padding-left: 8px; }
QMenu::indicator { width: 14px; height: 14px; left: 8px; }
QMenu::indicator:checked { image: url("$icons/mark-$name.svg"); }
QMenu::separator { height: 1px; background: $line; margin: 5px 8px; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: $line; border-radius: 3px; margin: 2px; }
QScrollBar::handle:vertical { min-height: 32px; }
QScrollBar::handle:horizontal { min-width: 32px; }
QScrollBar::handle:hover { background: $faint; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
"""

_RAIL = """
QPushButton[kind="rail"], QToolButton[kind="rail"] {
    background: transparent; border: 2px solid transparent; border-radius: 10px; padding: 0;
    font-size: ${tiny}pt;
}
QToolButton[kind="rail"] { padding: 5px 0 3px 0; }
QPushButton[kind="rail"]:hover, QToolButton[kind="rail"]:hover { background: $background; }
QToolButton[kind="rail"]:checked { background: $accent_soft; color: $accent; }
QPushButton[kind="rail"]:focus, QToolButton[kind="rail"]:focus { border-color: $accent; }
"""

_ALL = Template(_BASE + _TEXT + _FRAMES + _BUTTONS + _FIELDS + _LISTS + _RAIL)


def style_sheet(tokens: Tokens, icons: str = "") -> str:
    """The whole style sheet; `icons` is the folder of icons that Qt itself draws, with slashes."""
    colours = {key: value for key, value in vars(tokens).items() if isinstance(value, str)}
    return _ALL.substitute(
        colours,
        icons=icons,
        title=points(TYPE.title),
        small=points(TYPE.small),
        pill=points(TYPE.small + 0.5),
        tiny=points(TYPE.small - 0.5),
        r=RADIUS.control,
        r_card=RADIUS.card,
        r_composer=RADIUS.composer,
    )
