"""The first model, the choice of models, and the values of the side panel."""

from __future__ import annotations

import re
from pathlib import Path

from app_common.qt import (
    click,
    find,
    show,
    turn_wheel,
    wait_until,
)
from PySide6.QtWidgets import QAbstractButton, QLabel

from app.models.page import create_page as create_models_page
from app.storage.records import State
from app_chat.conftest import Room

MODEL = "smollm2-135m-instruct"


def test_the_first_run_is_one_click(make: object) -> None:
    room = make("--empty", "--delay", "0.01")  # type: ignore[operator]
    first = room.page.welcome.first
    assert room.page.welcome.currentWidget() is first
    assert first.get.text() == "Get the starter model (94 MiB)"
    assert not room.page.composer.send_button.isEnabled()
    click(room.page, "get_starter")
    wait_until(lambda: "MiB/s" in find(first, "starter_progress_text", QLabel).text())
    wait_until(lambda: room.page.controller.models.state.is_loaded)
    wait_until(lambda: room.page.welcome.currentWidget() is room.page.welcome.examples)
    room.ask("hello")
    assert room.answer().message.state is State.DONE


def test_no_download_against_the_settings(make: object) -> None:
    room = make("--empty")  # type: ignore[operator]
    room.context.settings.set("network.downloads", False)
    click(room.page, "get_starter")
    problem = find(room.page.welcome.first, "starter_problem", QLabel)
    assert "Downloads are switched off" in problem.text()
    assert not room.page.controller.models.getting


def test_the_first_download_can_be_paused_and_goes_on(make: object) -> None:
    room = make("--empty", "--delay", "0.05")  # type: ignore[operator]
    click(room.page, "get_starter")
    first = room.page.welcome.first
    words = find(first, "starter_progress_text", QLabel)
    wait_until(lambda: re.match(r"[1-9]\d* of 94 MiB", words.text()))
    click(room.page, "starter_pause")
    wait_until(lambda: first.get.isVisibleTo(first))
    assert first.get.text() == "Go on with the download"
    assert re.match(r"Paused · \d+ of 94 MiB are here", words.text())
    click(room.page, "get_starter")
    wait_until(lambda: room.page.controller.models.state.is_loaded)


def test_the_first_download_can_be_cancelled(make: object, tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    room = make("--empty", "--delay", "0.05", "--log", str(log))  # type: ignore[operator]
    click(room.page, "get_starter")
    first = room.page.welcome.first
    wait_until(lambda: "MiB/s" in find(first, "starter_progress_text", QLabel).text())
    click(room.page, "starter_cancel")
    wait_until(lambda: first.get.isVisibleTo(first))
    assert first.get.text() == "Get the starter model (94 MiB)"
    wait_until(lambda: '"model_forget"' in log.read_text())


def test_the_first_download_is_the_one_of_the_models_page(make: object) -> None:
    room = make("--empty", "--delay", "0.05")  # type: ignore[operator]
    models = create_models_page(room.context)
    show(models)
    click(room.page, "get_starter")
    name = f"download_{MODEL}_button"
    wait_until(lambda: models.findChild(QAbstractButton, name) is not None)
    room.context.settings.set("network.downloads", False)
    first = room.page.welcome.first
    wait_until(lambda: first.get.isVisibleTo(first))
    assert first.get.text() == "Go on with the download"
    click(room.page, "get_starter")
    assert "switched off" in first.problem.text()
    room.context.settings.set("network.downloads", True)
    click(models, name)
    wait_until(lambda: room.page.controller.models.state.is_loaded)


def test_the_model_pill_says_whether_it_is_loaded(room: Room) -> None:
    pill = room.page.head.model
    assert pill.text().startswith("SmolLM2 135M Instruct · Q4_1")
    assert "Not loaded" in pill.toolTip()
    room.page.controller.load_model()
    wait_until(lambda: "Loaded and ready" in pill.toolTip())
    assert [a.text() for a in room.page.head.menu.actions() if a.isCheckable()] == [
        "SmolLM2 135M Instruct · Q4_1"
    ]


def test_the_context_meter(room: Room) -> None:
    pill = room.page.head.context
    assert not pill.isVisibleTo(room.page)
    room.ask("hello")
    assert re.match(r"Context \d+ / 2\D048", pill.text())
    assert "never left out" in pill.toolTip()


def test_an_example_goes_into_the_message(room: Room) -> None:
    click(room.page, "example_0")
    assert "sea is salty" in room.page.composer.text()


def test_values_are_sent_and_kept_per_chat(make: object, tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    room = make("--log", str(log), "--delay", "0")  # type: ignore[operator]
    room.ask("one")
    panel = room.page.side_panel
    panel.system.setPlainText("Be brief.")
    panel._dials["temperature"].number.setValue(0.5)
    panel._numbers["seed"].setValue(7)
    room.ask("two")
    last = [line for line in log.read_text().splitlines() if '"chat"' in line][-1]
    for part in ('"temperature":0.5', '"seed":7', '"role":"system","content":"Be brief."'):
        assert part in last
    room.page.create_new()
    assert room.page.side_panel.system.toPlainText() == ""
    room.page.controller.open_chat(1)
    assert room.page.side_panel.system.toPlainText() == "Be brief."


def test_values_for_new_chats_and_reset(room: Room) -> None:
    panel = room.page.side_panel
    panel.system.setPlainText("Rhyme.")
    panel._dials["top_k"].number.setValue(7)
    click(room.page, "toggle_side_panel")
    click(panel, "use_as_default")
    room.page.create_new()
    assert panel.system.toPlainText() == "Rhyme."
    assert panel._dials["top_k"].number.value() == 7
    click(panel, "reset_values")
    assert panel.system.toPlainText() == ""
    assert panel._dials["top_k"].number.value() == 40


def test_scrolling_over_the_side_panel_leaves_its_values(room: Room) -> None:
    click(room.page, "toggle_side_panel")
    panel = room.page.side_panel
    fields = [panel._numbers["context"], *(row.number for row in panel._dials.values())]
    fields += [row.slider for row in panel._dials.values()]
    before = [field.value() for field in fields]
    for field in fields:
        turn_wheel(field)
    assert [field.value() for field in fields] == before
