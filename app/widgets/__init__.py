"""The parts every page is made of. Pages use these and own no colours, fonts or message boxes."""

from app.widgets.base import set_look, wire_theme
from app.widgets.buttons import (
    Button,
    danger_button,
    icon_button,
    pill_button,
    plain_button,
    primary_button,
    quiet_button,
)
from app.widgets.dialogs import ConfirmDialog, confirm
from app.widgets.frames import Card, EmptyState, frame, h_line, page_head
from app.widgets.labels import Chip, ElidedLabel, IconLabel, breakable, label, title_label
from app.widgets.messages import Action, Messages
from app.widgets.progress import ProgressBar
from app.widgets.toasts import ToastHost
from app.widgets.wheel import guard_wheel, guard_wheels_in

__all__ = [
    "Action",
    "Button",
    "Card",
    "Chip",
    "ConfirmDialog",
    "ElidedLabel",
    "EmptyState",
    "IconLabel",
    "Messages",
    "ProgressBar",
    "ToastHost",
    "breakable",
    "confirm",
    "danger_button",
    "frame",
    "guard_wheel",
    "guard_wheels_in",
    "h_line",
    "icon_button",
    "label",
    "page_head",
    "pill_button",
    "plain_button",
    "primary_button",
    "quiet_button",
    "set_look",
    "title_label",
    "wire_theme",
]
