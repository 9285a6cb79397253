"""The wheel scrolls a column of fields; it does not change the values that it happens to pass."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QSlider, QWidget


class _WheelGuard(QObject):
    """Leaves the wheel to what is around a field, unless the field has the focus."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_wheel = event.type() == QEvent.Type.Wheel
        if is_wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)


def guard_wheel(*fields: QWidget) -> None:
    """Scrolling over these fields scrolls the column instead of changing what they hold."""
    for field in fields:
        if field.focusPolicy() == Qt.FocusPolicy.WheelFocus:
            field.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        field.installEventFilter(_WheelGuard(field))


def guard_wheels_in(column: QWidget) -> None:
    """As :func:`guard_wheel` for every slider, number and choice that a column holds now."""
    for kind in (QComboBox, QAbstractSpinBox, QSlider):
        guard_wheel(*column.findChildren(kind))
