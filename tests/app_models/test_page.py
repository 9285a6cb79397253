"""The Models page as a person uses it, over the scripted worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from app_common.qt import (
    click,
    close_context,
    find,
    make_context,
    press,
    show,
    wait_signal,
    wait_until,
)
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QWidget,
)

from app.memory.feed import feed_of
from app.memory.units import GIB
from app.models.controller import ModelsController
from app.models.downloads import Status
from app.models.fit import Need
from app.models.page import ModelsPage, create_page
from app.shell.page import AppContext

STARTER = "smollm2-135m-instruct"
OTHER = "smollm2-1.7b-instruct"


@pytest.fixture
def logged(qt: QApplication, tmp_path: Path) -> Iterator[tuple[AppContext, Path]]:
    """A context whose worker is slow and writes down every request."""
    log = tmp_path / "requests"
    made = make_context(tmp_path, "--log", str(log), "--delay", "0.05")
    yield made, log
    close_context(made)


@pytest.fixture
def empty(qt: QApplication, tmp_path: Path) -> Iterator[AppContext]:
    """A context without any model."""
    made = make_context(tmp_path, "--empty")
    yield made
    close_context(made)


def requests(log: Path, do: str) -> list[dict[str, object]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [found for line in lines if (found := json.loads(line))["do"] == do]


def opened(context: AppContext) -> tuple[ModelsPage, ModelsController]:
    page = create_page(context)
    show(page)
    controller = page.findChild(ModelsController)
    wait_until(lambda: controller.state.catalogue and feed_of(context.engine).state.device_total)
    return page, controller


def words(page: QWidget, name: str) -> str:
    return find(page, name, QLabel).text()


def answer(button: str) -> None:
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, QDialog)
    click(dialog, button)


def actions(page: QWidget, name: str) -> dict[str, object]:
    menu = find(page, name, QMenu)
    menu.aboutToShow.emit()
    return {action.text(): action for action in menu.actions() if action.text()}


def test_cards_say_what_a_model_is_and_whether_it_fits(context: AppContext) -> None:
    page, _ = opened(context)
    wait_until(lambda: words(page, f"model_{STARTER}_headline") == "Fits")
    assert words(page, f"model_{STARTER}_detail") == "needs 184 MiB of 6.2 GiB free"
    assert words(page, f"model_{STARTER}_title") == "SmolLM2 135M Instruct"
    assert words(page, f"model_{STARTER}_amount") == "94 MiB"
    assert words(page, f"model_{STARTER}_aside") == "Apache-2.0"
    assert words(page, "models_disk") == "97 MiB used · 100 GiB free"


def test_a_broken_file_has_a_sentence_and_no_load_button(context: AppContext) -> None:
    page, _ = opened(context)
    assert words(page, "model_broken_headline") == "Cannot be used"
    assert "cut short" in words(page, "model_broken_detail")
    assert not find(page, "model_broken_button").isVisible()


def test_load_and_unload(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, _ = opened(context)
    context.settings.set("context", 4096)
    button = find(page, f"model_{STARTER}_button", QPushButton)
    click(page, f"model_{STARTER}_button")
    assert button.text() == "Stop"
    wait_until(lambda: words(page, f"model_{STARTER}_headline") == "Reading the file")
    wait_until(lambda: button.text() == "Unload")
    assert requests(log, "load")[0]["context"] == 4096
    wait_until(lambda: words(page, f"model_{STARTER}_headline").startswith("● Loaded · 152 MiB"))
    assert words(page, f"model_{STARTER}_detail") == "4\u202f096 of 8\u202f192 tokens of context"
    click(page, f"model_{STARTER}_button")
    wait_until(lambda: button.text() == "Load")


def test_esc_stops_a_load(logged: tuple[AppContext, Path]) -> None:
    context, _ = logged
    page, _ = opened(context)
    click(page, f"model_{STARTER}_button")
    page.stop_work()
    button = find(page, f"model_{STARTER}_button", QPushButton)
    wait_until(lambda: button.text() == "Load")


def test_a_failed_load_is_said_and_can_be_tried_again(context: AppContext) -> None:
    _, controller = opened(context)
    model = replace(controller.state.models[0], name="fail")
    controller.state = replace(controller.state, models=(model,))
    kind, text = wait_signal(context.messages.told, lambda: controller.load("fail"))
    assert kind == "error"
    assert text.startswith("This model needs 6.1 GiB")


def test_what_does_not_fit_offers_a_shorter_context(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, controller = opened(context)
    need = Need(5 * GIB, 2 * GIB, GIB // 4, 8192)
    model = replace(controller.state.models[0], need=need)
    controller.state = replace(controller.state, models=(model,))
    controller.render()
    assert words(page, f"model_{STARTER}_headline") == "Does not fit by 1.0 GiB"
    click(page, f"model_{STARTER}_button")
    found = {a.text(): a for a in find(page, f"model_{STARTER}_options", QMenu).actions()}
    assert list(found) == ["Load with a 2\u202f048-token context", "Try to load it anyway"]
    found["Load with a 2\u202f048-token context"].trigger()
    wait_until(lambda: requests(log, "load"))
    assert requests(log, "load")[0]["context"] == 2048


def test_the_meter_marks_the_model_under_the_pointer_or_the_keyboard(context: AppContext) -> None:
    page, controller = opened(context)
    feed = feed_of(context.engine)
    card = page.installed.cards[STARTER]
    find(page, f"model_{STARTER}_button").setFocus(Qt.FocusReason.TabFocusReason)
    need = controller.state.model(STARTER).need
    assert feed.needed == need.total - feed.state.total
    find(page, f"model_{STARTER}_more").setFocus(Qt.FocusReason.TabFocusReason)
    assert feed.needed is None
    card.hovered.emit(STARTER)
    assert feed.needed


def test_remove_names_the_file_and_asks_first(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, _ = opened(context)
    actions(page, f"model_{STARTER}_menu")["Remove…"].trigger()
    dialog = QApplication.activeModalWidget()
    assert words(dialog, "confirm_text") == (
        f"This deletes /models/{STARTER}.gguf and frees 94 MiB (98\u202f566\u202f144 bytes)."
    )
    answer("confirm_no")
    assert not requests(log, "model_remove")
    actions(page, f"model_{STARTER}_menu")["Remove…"].trigger()
    told = wait_signal(context.messages.told, lambda: answer("confirm_yes"))
    assert told[1] == "SmolLM2 135M Instruct was removed. 94 MiB are free again."
    wait_until(lambda: STARTER not in page.installed.cards)


def test_details_tell_what_is_inside(context: AppContext) -> None:
    page, _ = opened(context)
    actions(page, f"model_{STARTER}_menu")["Details"].trigger()
    dialog = QApplication.activeModalWidget()
    wait_until(lambda: dialog.findChild(QLabel, "model_details_tensors"))
    assert words(dialog, "model_details_tensors") == "272"
    assert words(dialog, "model_details_size") == "94 MiB (98\u202f566\u202f144 bytes)"
    click(dialog, "model_details_close")


def test_an_empty_page_has_one_button_that_gets_the_starter(empty: AppContext) -> None:
    page, controller = opened(empty)
    assert find(page, "models_empty").isVisible()
    assert find(page, "models_get_starter", QPushButton).text() == (
        "Get SmolLM2 135M Instruct (94 MiB)"
    )
    told = wait_signal(empty.messages.told, lambda: click(page, "models_get_starter"))
    assert told == ("info", "SmolLM2 135M Instruct is ready.")
    wait_until(lambda: controller.state.models)
    assert not find(page, "models_empty").isVisible()


def test_a_download_pauses_and_resumes(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, controller = opened(context)
    click(page, "models_tab_discover")
    click(page, f"entry_{OTHER}_button")
    assert find(page, "models_tab_downloads", QPushButton).text() == "Downloads 1"
    click(page, "models_tab_downloads")
    name = f"download_{OTHER}"
    wait_until(lambda: words(page, f"{name}_headline") == "12 MiB/s")
    click(page, f"{name}_button")
    wait_until(lambda: words(page, f"{name}_headline") == "Paused")
    assert context.settings.get("models.downloads", [])[0]["name"] == OTHER
    click(page, f"{name}_button")
    wait_until(lambda: len(requests(log, "model_get")) == 2)
    wait_until(lambda: OTHER in page.installed.cards and not controller.transfers.queue.items)


def test_a_cancelled_download_is_forgotten(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, controller = opened(context)
    controller.get(OTHER)
    click(page, f"download_{OTHER}_cancel")
    wait_until(lambda: not controller.transfers.queue.items)
    assert find(page, "downloads_empty").isVisibleTo(page.downloads)
    assert context.settings.get("models.downloads", []) == []
    wait_until(lambda: [one["name"] for one in requests(log, "model_forget")] == [OTHER])


def test_a_failed_download_keeps_its_place_and_offers_retry(context: AppContext) -> None:
    page, controller = opened(context)
    wait_signal(context.messages.told, lambda: controller.transfers.get("fail", "It", GIB))
    assert words(page, "download_fail_headline") == "Stopped"
    assert words(page, "download_fail_detail").startswith("The server could not be reached.")
    assert find(page, "download_fail_button", QPushButton).text() == "Retry"


def test_a_restart_offers_what_was_not_finished(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    rows = [{"name": OTHER, "title": "Other", "total": GIB, "done": GIB // 2}]
    context.settings.set("models.downloads", rows)
    page, _ = opened(context)
    assert words(page, f"download_{OTHER}_headline") == "Paused"
    assert words(page, f"download_{OTHER}_detail") == "512 MiB are kept"
    assert not requests(log, "model_get"), "nothing is fetched unasked"


def test_a_dead_worker_leaves_the_download_to_be_tried_again(
    logged: tuple[AppContext, Path],
) -> None:
    context, _ = logged
    _, controller = opened(context)
    controller.get(OTHER)
    wait_until(lambda: controller.transfers.queue.items[0].done)
    wait_signal(context.engine.worker_died, context.engine.restart)
    assert controller.transfers.queue.items[0].status is Status.FAILED


def test_the_network_switch_really_blocks(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, controller = opened(context)
    controller.get(OTHER)
    wait_until(lambda: controller.transfers.queue.items[0].done)
    context.settings.set("network.downloads", False)
    wait_until(lambda: controller.transfers.queue.items[0].status is Status.PAUSED)
    told = wait_signal(context.messages.told, lambda: controller.get(STARTER))
    assert told == ("warning", "Downloads are switched off in Settings, so nothing was fetched.")
    controller.transfers.get(STARTER, "It", 1)
    click(page, f"download_{OTHER}_button")
    assert len(requests(log, "model_get")) == 1
    assert find(page, "discover_offline").isVisibleTo(page.discover)


def drop(page: ModelsPage, *paths: str) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(path) for path in paths])
    no, left = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
    page.dropEvent(QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, mime, left, no))


def test_a_dropped_file_is_added(context: AppContext) -> None:
    page, _ = opened(context)
    told = wait_signal(context.messages.told, lambda: drop(page, "/some/my-model.gguf"))
    assert told == ("info", "My model is ready.")
    wait_until(lambda: "my-model" in page.installed.cards)


@pytest.mark.parametrize(
    ("path", "start"),
    [
        ("/some/picture.ckpt", "“picture.ckpt” may run programs when it is opened"),
        ("/some/fail.gguf", "fail.gguf is not a model: it does not begin with GGUF."),
    ],
)
def test_a_wrong_file_gets_a_sentence(context: AppContext, path: str, start: str) -> None:
    page, controller = opened(context)
    kind, text = wait_signal(context.messages.told, lambda: drop(page, path))
    assert kind == "error"
    assert text.startswith(start)
    assert not controller.transfers.queue.items


def test_search_narrows_and_esc_empties_it(context: AppContext) -> None:
    page, _ = opened(context)
    page.open_search()
    page.search.setText("SmolLM2")
    assert list(page.installed.cards) == [STARTER]
    page.search.setText("nothing like it")
    assert words(page, "models_no_match") == "No installed model matches “nothing like it”."
    assert page.stop_work()
    assert len(page.installed.cards) == 2


def test_another_page_can_ask_for_a_tab_and_a_model(empty: AppContext) -> None:
    page, controller = opened(empty)
    page.take_wishes(tab="discover", get=STARTER)
    assert page.tab == "discover"
    wait_until(lambda: controller.state.model(STARTER))


def test_everything_that_takes_focus_has_a_name(context: AppContext) -> None:
    page, controller = opened(context)
    controller.get(OTHER)
    for widget in page.findChildren(QWidget):
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.objectName():
            assert widget.accessibleName(), widget.objectName()


def test_a_narrow_page_gives_its_room_to_the_cards(context: AppContext) -> None:
    page, _ = opened(context)
    assert page.panel.isVisible()
    page.resize(700, 600)
    assert not page.panel.isVisible()


def test_a_file_of_the_hub_is_fetched_by_its_address(logged: tuple[AppContext, Path]) -> None:
    context, log = logged
    page, controller = opened(context)
    field = find(page, "discover_address", QLineEdit)
    field.setText("some/page")
    click(page, "discover_get")
    assert words(page, "discover_problem").startswith("Paste OWNER/REPO/FILE.gguf")
    field.setText("https://hub.example/own/repo/blob/main/Fine-Model.gguf")
    assert words(page, "discover_problem") == ""
    click(page, "discover_get")
    wait_until(lambda: requests(log, "model_get"))
    assert requests(log, "model_get")[0]["name"] == "own/repo/Fine-Model.gguf"
    assert (page.tab, field.text()) == ("downloads", "")
    wait_until(lambda: controller.transfers.queue.items[0].status is Status.FAILED)


def test_tab_goes_down_the_cards_and_then_to_the_address(context: AppContext) -> None:
    page, _ = opened(context)
    page.show_tab("discover")
    QApplication.processEvents()
    names: list[str] = []
    find(page, "models_add").setFocus()
    for _ in range(4):
        press(QApplication.focusWidget() or page, Qt.Key.Key_Tab)
        names.append((QApplication.focusWidget() or page).objectName())
    assert names[:2] == [f"entry_{OTHER}_button", "entry_llama-3.2-3b-instruct_button"]
    assert names[2:] == ["discover_address", "discover_add"]
