"""The download queue: one at a time, nothing lost over a restart."""

from __future__ import annotations

import pytest

from app.memory.units import GIB, MIB
from app.models import downloads
from app.models.downloads import Queue, Status

TWO = Queue().add("a", "Model A", 2 * GIB).add("b", "Model B", GIB)
EVENT = {
    "done_bytes": GIB,
    "total_bytes": 2 * GIB,
    "bytes_per_second": 38.0 * MIB,
    "seconds_left": 27.0,
    "phase": "downloading",
}


def test_one_runs_and_the_others_wait() -> None:
    assert TWO.next_of("get") is TWO.items[0]
    running = TWO.start("a")
    assert running.next_of("get") is None
    assert running.remove("a").next_of("get") == TWO.items[1]


def test_a_copy_does_not_wait_for_a_download() -> None:
    queue = TWO.start("a").add("/file.gguf", "file", 0, kind="copy")
    assert queue.next_of("copy") is queue.items[2]


def test_asking_twice_changes_nothing() -> None:
    assert TWO.add("a", "Model A", 2 * GIB) is TWO


def test_progress_reads_as_speed_and_time_left() -> None:
    item = TWO.start("a").progress("a", EVENT).items[0]
    assert item.share == 0.5
    assert downloads.headline(item) == "38 MiB/s"
    assert downloads.detail(item) == "27 seconds left"
    assert downloads.amount(item) == "1.0 of 2.0 GiB"


def test_a_paused_one_keeps_its_bytes_and_waits_again_when_asked() -> None:
    paused = TWO.start("a").progress("a", EVENT).pause("a")
    item = paused.items[0]
    assert (downloads.headline(item), item.done) == ("Paused", GIB)
    assert "kept" in downloads.detail(item)
    assert paused.next_of("get") is paused.items[1]
    assert paused.add("a", "Model A", 0).items[0].status is Status.WAITING


def test_a_failed_one_says_why_and_can_be_tried_again() -> None:
    failed = TWO.start("a").fail("a", "The line dropped.")
    assert downloads.detail(failed.items[0]) == "The line dropped."
    again = failed.add("a", "Model A", 0)
    assert again.next_of("get") is again.items[0]


def test_checking_is_said() -> None:
    item = TWO.start("a").progress("a", {**EVENT, "phase": "checking"}).items[0]
    assert downloads.headline(item) == "Checking the file"


def test_malformed_progress_keeps_what_was_known() -> None:
    queue = TWO.start("a").progress("a", EVENT).progress("a", {"done_bytes": "x"})
    assert queue.items[0].done == GIB
    assert queue.progress("nobody", EVENT) is queue


def test_a_restart_offers_what_was_not_finished() -> None:
    queue = TWO.start("a").progress("a", EVENT)
    back = downloads.from_rows(downloads.to_rows(queue.add("/file", "file", 0, kind="copy")))
    assert [(i.name, i.status, i.done) for i in back.items] == [
        ("a", Status.PAUSED, GIB),
        ("b", Status.PAUSED, 0),
    ]


@pytest.mark.parametrize("rows", [None, 3, "words", {}, [1, None, {}], [{"name": 3}]])
def test_a_damaged_list_is_an_empty_one(rows: object) -> None:
    assert downloads.from_rows(rows) == Queue()
