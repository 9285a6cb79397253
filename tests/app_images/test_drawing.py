"""Drawing, the queue and what can go wrong, over the scripted worker."""

from __future__ import annotations

from app_common.qt import click, find, wait_until
from PySide6.QtWidgets import (
    QAbstractButton,
    QLineEdit,
)

from app_images.opened import Opened


def test_nothing_is_drawn_without_words(opened: Opened) -> None:
    opened.draw("  ")
    assert opened.words("image_cut") == "Say first what the picture shall show."
    assert not opened.controller.drawing.jobs.items


def test_pictures_are_drawn_with_a_live_preview_and_land_in_the_gallery(opened: Opened) -> None:
    form = opened.studio.form
    form.count.setCurrentIndex(form.count.findData(2))
    assert form.draw.text() == "Draw 2 pictures"
    opened.draw("a red apple")
    wait_until(lambda: not opened.studio.running.preview.image.isNull(), "for a preview")
    assert opened.words("image_running_title").startswith("2 pictures")
    assert opened.words("image_running_progress").startswith("step ")
    opened.wait_pictures(2)
    wait_until(lambda: not opened.studio.running.isVisible())
    assert opened.studio.gallery.model.every[0].prompt == "a red apple"
    assert opened.words("gallery_count") == "2 pictures"


def test_orders_wait_in_line_and_can_be_removed_and_moved(opened: Opened) -> None:
    for prompt in ("/hang", "second", "third", "fourth"):
        opened.draw(prompt)
    page = opened.page
    assert find(page, "image_draw", QAbstractButton).text() == "Add to the queue"
    click(page, "image_job_2_remove")
    click(page, "image_job_4_up")
    waiting = [job.values.prompt for job in opened.controller.drawing.jobs.waiting]
    assert waiting == ["fourth", "third"]
    wait_until(lambda: opened.words("image_running_progress") == "getting ready")
    click(page, "image_cancel")
    opened.wait_pictures(2)
    assert [one.prompt for one in opened.studio.gallery.model.every] == ["third", "fourth"]


def test_escape_cancels_within_a_step(opened: Opened) -> None:
    opened.draw("/hang")
    wait_until(lambda: opened.words("image_running_progress") == "getting ready")
    assert opened.page.stop_work()
    assert opened.words("image_running_progress") == "stopping"
    wait_until(lambda: not opened.controller.drawing.jobs.items)
    assert not opened.page.stop_work()


def test_what_goes_wrong_is_told_in_place_and_tried_again(opened: Opened) -> None:
    opened.draw("/error out_of_memory")
    wait_until(lambda: opened.controller.drawing.jobs.failed)
    assert opened.words("image_failed_1_text") == "A scripted failure (out_of_memory)."
    click(opened.page, "image_failed_1_retry")
    assert opened.controller.drawing.jobs.running is not None
    wait_until(lambda: opened.controller.drawing.jobs.failed)
    click(opened.page, "image_failed_1_remove")
    assert not opened.controller.drawing.jobs.items


def test_a_worker_that_dies_leaves_the_order_to_try_again(opened: Opened) -> None:
    opened.draw("/crash")
    wait_until(lambda: opened.controller.drawing.jobs.failed)
    assert "stopped unexpectedly" in opened.words("image_failed_1_text")


def test_a_locked_seed_is_used_again_and_an_open_one_changes(opened: Opened) -> None:
    page = opened.page
    for _ in range(2):
        opened.draw("a cat")
    opened.wait_pictures(2)
    first, second = (order["settings"]["seed"] for order in opened.orders())  # type: ignore[index]
    assert first != second
    click(page, "image_seed_lock")
    assert find(page, "image_seed", QLineEdit).text() == str(second)
    opened.draw("a cat")
    opened.wait_pictures(3)
    assert opened.orders()[-1]["settings"]["seed"] == second  # type: ignore[index]
    click(page, "image_seed_dice")
    assert opened.studio.form.values().seed != second


def test_who_looks_elsewhere_hears_how_it_ended(opened: Opened) -> None:
    opened.draw("a red apple")
    opened.page.hide()
    wait_until(lambda: opened.told)
    opened.draw("/error out_of_memory")
    wait_until(lambda: len(opened.told) == 2)
    assert opened.told == ["1 picture is finished.", "A scripted failure (out_of_memory)."]


def test_who_looks_on_needs_no_message(opened: Opened) -> None:
    opened.draw("a red apple")
    opened.wait_pictures(1)
    wait_until(lambda: not opened.controller.drawing.jobs.items)
    assert not opened.told


def test_what_is_left_out_is_counted_too(opened: Opened) -> None:
    click(opened.page, "image_leave_out")
    opened.studio.form.negative.setPlainText("blur, text")
    wait_until(lambda: opened.words("image_negative_tokens") == "4 / 32 tokens")
    opened.studio.form.negative.setPlainText(" ".join(f"w{n}" for n in range(33)))
    cut = "35 / 32 tokens. Not read, beyond the limit: “w30 w31 w32”"
    wait_until(lambda: opened.words("image_negative_tokens") == cut)
