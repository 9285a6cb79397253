"""The Settings page as a person uses it, over the scripted worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_common.qt import click, close_context, find, make_context, show, wait_signal, wait_until
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QCheckBox, QDialog, QLabel, QWidget

from app.settings import secret
from app.settings.controller import SettingsController
from app.settings.page import SettingsPage, create_page
from app.settings.rows import ChoiceBox
from app.shell.page import AppContext


@pytest.fixture
def logged(qt: QApplication, tmp_path: Path) -> Iterator[tuple[AppContext, Path]]:
    """A context whose worker writes down every request."""
    log = tmp_path / "requests"
    made = make_context(tmp_path, "--log", str(log))
    yield made, log
    close_context(made)


def requests(log: Path, do: str) -> list[dict[str, object]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [found for line in lines if (found := json.loads(line))["do"] == do]


def opened(context: AppContext) -> tuple[SettingsPage, SettingsController]:
    page = create_page(context)
    show(page)
    return page, page.findChild(SettingsController)


def choose(page: QWidget, name: str, words: str) -> None:
    box = find(page, name, ChoiceBox)
    index = box.findText(words)
    assert index >= 0, [box.itemText(i) for i in range(box.count())]
    box.setCurrentIndex(index)
    box.activated.emit(index)


def words(page: QWidget, name: str) -> str:
    return find(page, name, QLabel).text()


def answer(button: str) -> None:
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, QDialog)
    click(dialog, button)


def test_choices_are_kept(context: AppContext) -> None:
    page, _ = opened(context)
    choose(page, "settings_context", "4\u202f096 tokens")
    choose(page, "settings_idle", "After 15 minutes of rest")
    choose(page, "settings_headroom", "1.0 GiB")
    click(page, "settings_theme_dark")
    get = context.settings.get
    assert (get("context"), get("idle_unload_minutes")) == (4096, 15)
    assert (get("memory.headroom_bytes"), get("theme")) == (2**30, "dark")


def test_what_is_kept_is_shown(context: AppContext) -> None:
    context.settings.set("context", 5000)
    page, _ = opened(context)
    assert find(page, "settings_context", ChoiceBox).currentText() == "5000 tokens"
    context.settings.set("context", 2048)
    assert find(page, "settings_context", ChoiceBox).value == 2048


def test_another_backend_is_told_to_the_worker(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, _ = opened(context)
    told = wait_signal(
        context.messages.told,
        lambda: choose(page, "settings_backend", "Dawn, an extra"),
    )
    assert told == ("info", "This takes effect at the next load.")
    assert requests(log, "settings")[-1]["backend"] == "dawn"


def test_help_examines_once_and_copies_the_report(context: AppContext) -> None:
    page, controller = opened(context)
    page.take_wishes(section="help")
    assert page.section == "help"
    wait_until(lambda: controller.report)
    assert words(page, "doctor_verdict") == "Your GPU works."
    assert words(page, "doctor_gpu") == "Fake GPU"
    click(page, "doctor_copy")
    assert "GPU: Fake GPU" in QGuiApplication.clipboard().text()
    wait_signal(context.engine.busy_changed, None) if context.engine.busy else None


def test_a_doctor_that_does_not_answer_is_said(qt: QApplication, tmp_path: Path) -> None:
    context = make_context(tmp_path, "--fail-start", "3")
    page, controller = opened(context)
    controller.show_section("help")
    wait_until(lambda: "stopped unexpectedly" in words(page, "doctor_verdict"))
    close_context(context)


def test_the_models_folder_moves_after_a_question(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, controller = opened(context)
    wait_until(lambda: page.folder.full_text() == "/models")
    controller.ask_move("/elsewhere")
    assert "97 MiB of models move from /models to /elsewhere" in words(
        QApplication.activeModalWidget(), "confirm_text"
    )
    told = wait_signal(context.messages.told, lambda: answer("confirm_yes"))
    assert told == ("info", "Your models are in /elsewhere now.")
    assert requests(log, "models_move")[0]["folder"] == "/elsewhere"
    assert not find(page, "settings_move").isVisible()


def test_the_network_switch_is_kept(context: AppContext) -> None:
    page, _ = opened(context)
    page.show_section("network")
    switch = find(page, "settings_network_switch", QCheckBox)
    assert switch.isChecked()
    QTest.keyClick(switch, Qt.Key.Key_Space)
    assert context.settings.get("network.downloads") is False


def test_reset_asks_first(context: AppContext) -> None:
    context.settings.set("context", 4096)
    page, _ = opened(context)
    click(page, "settings_reset")
    answer("confirm_no")
    assert context.settings.get("context") == 4096
    click(page, "settings_reset")
    answer("confirm_yes")
    assert context.settings.get("context") == 0
    assert find(page, "settings_context", ChoiceBox).value == 0


def test_the_token_goes_into_the_keyring_only(
    context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = pytest.importorskip("keyring")
    kept: list[tuple[str, ...]] = []
    monkeypatch.setattr(keyring, "set_password", lambda *words: kept.append(words))
    page, controller = opened(context)
    page.show_section("network")
    page.token_edit.setText(" secret ")
    wait_signal(controller.tokens.kept, lambda: click(page, "settings_token_keep"))
    assert kept == [(secret.SERVICE, secret.USER, "secret")]
    assert page.token_edit.text() == ""
    assert "secret" not in context.settings.path.read_text()
    assert words(page, "settings_token_words") == "A token is kept."


def test_the_engine_reads_the_token_where_the_app_puts_it() -> None:
    hub = pytest.importorskip("engine.models.hub")
    assert (hub.KEYRING_SERVICE, hub.KEYRING_USER) == (secret.SERVICE, secret.USER)


def test_the_gpu_is_freed_after_a_rest(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    context.settings.set("idle_unload_minutes", 5)
    _, controller = opened(context)
    wait_signal(context.engine.busy_changed, None) if context.engine.busy else None
    controller.idle.unload()
    assert not requests(log, "unload"), "nothing is loaded, so nothing is freed"
    done: list[object] = []
    context.engine.request("load", done.append, model="smollm2-135m-instruct")
    wait_until(lambda: any(getattr(one, "event", "") == "done" for one in done))
    wait_until(lambda: controller.idle._feed.state.weights)
    wait_signal(controller.idle.unloaded, controller.idle.unload)
    wait_until(lambda: requests(log, "unload"))


def test_every_control_has_a_name(context: AppContext) -> None:
    page, _ = opened(context)
    for widget in page.findChildren(QWidget):
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.objectName():
            assert widget.accessibleName(), widget.objectName()
