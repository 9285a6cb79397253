"""The composer: keys, input methods, growing, files."""

from __future__ import annotations

from pathlib import Path

import pytest
from app_common.qt import click, find, press, show, wait_until
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication, QLabel

from app.chat.composer import Composer

SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def composer(qt: QApplication) -> Composer:
    made = Composer()
    show(made, 720, 120)
    made.field.setFocus()
    return made


def sent(composer: Composer) -> list[tuple[str, int]]:
    """A list that fills with (text, number of files) of everything sent."""
    log: list[tuple[str, int]] = []
    composer.sent.connect(lambda text, files: log.append((text, len(files))))
    return log


def test_enter_sends_and_clears(composer: Composer) -> None:
    log = sent(composer)
    composer.set_text("  hello  ")
    press(composer.field, Qt.Key.Key_Return)
    assert log == [("hello", 0)]
    assert composer.text() == ""


def test_shift_enter_breaks_the_line(composer: Composer) -> None:
    log = sent(composer)
    composer.set_text("one")
    press(composer.field, Qt.Key.Key_Return, SHIFT)
    assert log == []
    assert composer.text() == "one\n"


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_nothing_is_never_sent(composer: Composer, text: str) -> None:
    log = sent(composer)
    composer.set_text(text)
    press(composer.field, Qt.Key.Key_Return)
    assert log == []
    assert not composer.send_button.isEnabled()


def test_enter_during_composition_never_sends(composer: Composer) -> None:
    log = sent(composer)
    composer.set_text("か")
    QApplication.sendEvent(composer.field, QInputMethodEvent("かん", []))
    press(composer.field, Qt.Key.Key_Return)
    assert log == []
    commit = QInputMethodEvent("", [])
    commit.setCommitString("漢")
    QApplication.sendEvent(composer.field, commit)
    press(composer.field, Qt.Key.Key_Return)
    assert [text.replace("\n", "") for text, _ in log] == ["か漢"]


def test_it_grows_to_eight_lines(composer: Composer) -> None:
    line = composer.field.fontMetrics().lineSpacing()
    heights = []
    for lines in (1, 3, 8, 30):
        composer.set_text("\n".join(["x"] * lines))
        heights.append(composer.field.height())
    assert heights == [line * n + 4 for n in (1, 3, 8, 8)]


def test_it_grows_with_wrapped_lines(composer: Composer) -> None:
    composer.set_text("many words " * 40)
    assert composer.field.height() > 3 * composer.field.fontMetrics().lineSpacing()


def test_busy_shows_stop(composer: Composer) -> None:
    stopped: list[bool] = []
    log = sent(composer)
    composer.stopped.connect(lambda: stopped.append(True))
    composer.set_text("next")
    composer.set_busy(True)
    press(composer.field, Qt.Key.Key_Return)
    click(composer, "send")
    assert (log, stopped) == ([], [True])
    assert composer.send_button.accessibleName() == "Stop"
    assert composer.text() == "next"


def test_blocked_says_why(composer: Composer) -> None:
    log = sent(composer)
    composer.set_text("hello")
    composer.set_blocked("Get a model first")
    press(composer.field, Qt.Key.Key_Return)
    assert log == []
    assert find(composer, "composer_hint", QLabel).text() == "Get a model first"


def paste(composer: Composer, *paths: Path) -> None:
    """Paste files as a file manager copies them."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    composer.field.insertFromMimeData(data)


def test_pasted_files_become_chips_and_go_along(composer: Composer, tmp_path: Path) -> None:
    log = sent(composer)
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    paste(composer, file)
    assert find(composer, "attachment_name", QLabel).text() == "notes.txt"
    assert composer.text() == ""
    press(composer.field, Qt.Key.Key_Return)
    assert log == [("", 1)]
    wait_until(lambda: composer.findChild(QLabel, "attachment_name") is None)


def test_a_chip_can_be_removed(composer: Composer, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    composer.add_files([tmp_path / "a.txt", tmp_path / "b.txt"])
    click(composer, "attachment_remove")
    assert [file.name for file in composer._files] == ["b.txt"]


def test_refused_files_are_told(composer: Composer, tmp_path: Path) -> None:
    told: list[str] = []
    composer.refused.connect(told.append)
    (tmp_path / "x.bin").write_bytes(b"\0\0")
    paste(composer, tmp_path / "x.bin")
    assert told == ["x.bin is not a text file."]


def test_pasted_text_is_plain(composer: Composer) -> None:
    data = QMimeData()
    data.setHtml("<b>bold</b>")
    data.setText("bold")
    composer.field.insertFromMimeData(data)
    assert composer.text() == "bold"
