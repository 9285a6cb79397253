"""What the form holds, what a model offers, and the order that is made of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.images.jobs import (
    Job,
    Jobs,
    Live,
    Status,
    draw_words,
    left_words,
    order_words,
    progress_words,
    title_words,
)
from app.images.values import (
    Info,
    Values,
    adapted,
    defaults_of,
    fitted_size,
    info_from,
    kept,
    order,
    snapped,
    values_from,
)

VALUES = Values("a cat", "dog", 512, 384, 30, 6.5, 7, "euler", 2, "/a.png", 0.6, "/m.png")


def test_an_order_carries_everything_that_is_set() -> None:
    made = order(VALUES, 7)
    assert made["prompt"] == "a cat"
    assert (made["width"], made["height"], made["seed"], made["count"]) == (512, 384, 7, 2)
    assert (made["init"], made["mask"], made["strength"]) == ("/a.png", "/m.png", 0.6)


def test_an_order_without_a_start_picture_has_no_mask_and_no_strength() -> None:
    made = order(replace(VALUES, init="", negative=""), 7)
    assert not {"init", "mask", "strength", "negative"} & set(made)


def test_kept_values_come_back() -> None:
    assert values_from(kept(VALUES), Values()) == VALUES


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": "wide", "steps": None, "seed": float("nan"), "prompt": 3},
        {"width": True, "steps": [], "guidance": "x", "count": {}, "strength": float("inf")},
    ],
)
def test_odd_settings_leave_what_is_there(wrong: dict[str, object]) -> None:
    assert values_from(wrong, Values(prompt="", negative="")) == Values()


def test_recalled_numbers_are_held_within_what_can_be() -> None:
    made = values_from({"width": 5, "height": 99_999, "steps": 9999, "count": 99}, Values())
    assert (made.width, made.height, made.steps, made.count) == (64, 4096, 150, 16)


@pytest.mark.parametrize(("size", "wanted"), [(512, 512), (515, 512), (517, 520), (3, 64)])
def test_sizes_are_multiples_of_eight(size: int, wanted: int) -> None:
    assert snapped(size) == wanted


def test_a_start_pictures_shape_is_kept_at_the_models_number_of_pixels() -> None:
    assert fitted_size(1000, 1000, 512 * 512) == (512, 512)
    width, height = fitted_size(1600, 900, 512 * 512)
    assert (width, height) == (680, 384)
    assert fitted_size(10_000, 1, 128 * 128) == (256, 64)


def test_a_models_facts_are_read_in_every_form() -> None:
    info = info_from("m", {"size": 128, "sizes": ["96x128", [128, 96], "x", None], "steps": "no"})
    assert (info.width, info.height, info.steps) == (128, 128, 20)
    assert info.sizes == ((128, 128), (96, 128), (128, 96))
    assert info_from("m", {}).samplers == Info().samplers


def test_another_model_keeps_the_words_and_brings_its_own_numbers() -> None:
    info = info_from("m", {"size": [128, 128], "steps": 4, "sampler": "lcm", "inpaint": False})
    made = adapted(VALUES, info)
    assert (made.prompt, made.negative, made.seed) == ("a cat", "dog", 7)
    assert (made.width, made.steps, made.sampler) == (128, 4, "lcm")
    assert (made.init, made.mask) == ("/a.png", "")
    assert defaults_of(info).prompt == ""


def prompts(jobs: Jobs) -> list[str]:
    return [job.values.prompt for job in jobs.items]


def queue(*words: str) -> Jobs:
    jobs = Jobs()
    for word in words:
        jobs.add(Values(prompt=word), "m")
    return jobs


def test_one_order_runs_and_the_others_wait_in_order() -> None:
    jobs = queue("a", "b", "c")
    first = jobs.start_next()
    assert first is not None
    assert first.values.prompt == "a"
    assert jobs.start_next() is None
    assert [job.values.prompt for job in jobs.waiting] == ["b", "c"]
    jobs.remove(first.number)
    second = jobs.start_next()
    assert second is not None
    assert second.values.prompt == "b"


def test_an_order_moves_up_but_never_before_the_running_one() -> None:
    jobs = queue("a", "b", "c")
    jobs.start_next()
    jobs.move_up(3)
    assert prompts(jobs) == ["a", "c", "b"]
    jobs.move_up(3)
    assert prompts(jobs) == ["a", "c", "b"]


def test_a_failed_order_is_kept_and_tried_again_before_what_waits() -> None:
    jobs = queue("a", "b", "c")
    jobs.start_next()
    jobs.fail(1, "No room.")
    assert jobs.failed[0].problem == "No room."
    jobs.start_next()
    jobs.retry(1)
    assert prompts(jobs) == ["b", "a", "c"]
    assert jobs.find(1) == Job(1, Values(prompt="a"), "m", status=Status.WAITING)


def test_words_about_progress() -> None:
    assert progress_words(Live()) == "getting ready"
    assert progress_words(Live(doing="Loading", fraction=0.5)) == "Loading 50%"
    live = Live(step=13, total=20, seconds_left=2.2, made=1)
    assert progress_words(live) == "step 13 of 20 · 2 s left"
    assert live.share == 0.65
    job = Job(1, Values(prompt="x", count=4), "m")
    assert title_words(job, live) == "4 pictures, 1 done"
    assert order_words(job) == "4 pictures · x"
    assert [left_words(s) for s in (0.4, 12, 200)] == [
        "less than 1 s left",
        "12 s left",
        "3 min left",
    ]


def test_words_of_the_button() -> None:
    assert draw_words(1, False) == "Draw"
    assert draw_words(4, False) == "Draw 4 pictures"
    assert draw_words(4, True) == "Add 4 pictures to the queue"
