"""What the next picture needs is told before it is drawn."""

from __future__ import annotations

import pytest
from app_common.qt import click, find, wait_until
from PySide6.QtWidgets import QAbstractButton, QComboBox, QSpinBox

from app.images.fit import Fit, fit_from, fit_words
from app_images.opened import Opened

GIB = 2**30


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (Fit(GIB // 2, 11 * GIB), "Needs 0.5 GiB; 11.0 GiB free"),
        (Fit(0, 11 * GIB), "Needs no more memory; 11.0 GiB free"),
        (Fit(GIB, None), "Needs 1.0 GiB"),
        (Fit(GIB, 2 * GIB, evicts="chatty"), "Needs 1.0 GiB; 2.0 GiB free once chatty is unloaded"),
        (Fit(GIB, 2 * GIB, tiled=True), "Needs 1.0 GiB; 2.0 GiB free; finished in parts"),
        (
            Fit(3 * GIB, 2 * GIB, problem="x", size=(768, 512)),
            "Needs 1.0 GiB more than is free: 768 \N{MULTIPLICATION SIGN} 512 would fit",
        ),
        (
            Fit(3 * GIB, 2 * GIB, problem="x"),
            "Needs 1.0 GiB more than is free. Close other programs that use the GPU, or choose a "
            "smaller model.",
        ),
        (
            Fit(GIB, 2 * GIB, problem="x", size=(64, 64)),
            "Too large for this GPU: 64 \N{MULTIPLICATION SIGN} 64 would fit",
        ),
    ],
)
def test_words_about_memory(fit: Fit, words: str) -> None:
    assert fit_words(fit) == words


def test_odd_answers_are_read_as_nothing_known() -> None:
    assert fit_from({}) == Fit()
    assert fit_from({"free": None, "fits": [1], "more": None, "evicts": None}) == Fit()


def set_side(opened: Opened, side: int) -> None:
    size = find(opened.page, "image_size", QComboBox)
    size.setCurrentIndex(size.count() - 1)
    for name in ("image_width", "image_height"):
        find(opened.page, name, QSpinBox).setValue(side)


def test_the_need_stands_below_the_size(opened: Opened) -> None:
    wait_until(lambda: opened.words("image_fit") == "Needs 32 MiB; 1.0 GiB free")
    set_side(opened, 512)
    wait_until(lambda: opened.words("image_fit") == "Needs 0.5 GiB; 1.0 GiB free")
    assert find(opened.page, "image_draw", QAbstractButton).isEnabled()


def test_too_large_a_size_says_what_would_fit_and_takes_it(opened: Opened) -> None:
    draw = find(opened.page, "image_draw", QAbstractButton)
    set_side(opened, 1024)
    wait_until(lambda: not draw.isEnabled(), "for the answer")
    told = "Needs 1.0 GiB more than is free: 720 \N{MULTIPLICATION SIGN} 720 would fit"
    assert opened.words("image_fit") == told
    assert opened.words("image_note") == f"{told}."
    assert draw.accessibleDescription() == f"{told}."
    opened.studio.form.prompt.setPlainText("a cat")
    opened.controller.draw()  # Ctrl+Enter
    assert not opened.controller.drawing.jobs.items
    click(opened.page, "image_fit_use")
    wait_until(draw.isEnabled, "for the answer")
    assert opened.studio.form.values().width == 720
