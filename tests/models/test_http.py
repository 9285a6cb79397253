from __future__ import annotations

import errno
import hashlib
import itertools
import shutil
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from models.file_server import (
    Behaviour,
    FileServer,
    cut_after,
    redirect,
    stall_after,
    status,
    without_ranges,
)

from engine.models.errors import (
    CancelledError,
    DiskFullError,
    DownloadError,
    NetworkError,
    RefusedError,
    RemoteNotFoundError,
    WrongFileError,
)
from engine.models.http import Remote, Timing, fetch
from engine.models.transfer import Progress, never

BODY = bytes(range(256)) * 2000  # 512,000 bytes
SHA256 = hashlib.sha256(BODY).hexdigest()
QUICK = Timing(connect=2.0, stalled=0.3, first_pause=0.01)
Usage = namedtuple("Usage", "total used free")
Get = Callable[..., bytes]


@pytest.fixture
def get(server: FileServer, tmp_path: Path) -> Get:
    """Fetch /file, with what the server does for the first requests; returns what arrived."""
    server.files["/file"] = BODY

    def fetch_it(*plan: Behaviour, **changes: Any) -> bytes:
        server.plans["/file"] = list(plan)
        cancelled = changes.pop("cancelled", never)
        report = changes.pop("report", lambda _: None)
        known = {"size": len(BODY), "sha256": SHA256, **changes}
        remote = Remote(f"{server.url}/file", "file", **known)
        part = tmp_path / "models" / "file.part"
        with requests.Session() as session:
            fetch(session, remote, part, report, cancelled, timing=QUICK)
        return part.read_bytes()

    return fetch_it


def part(tmp_path: Path) -> Path:
    return tmp_path / "models" / "file.part"


def test_a_file_arrives_whole(get: Get) -> None:
    assert get() == BODY


def test_progress_goes_from_nothing_to_all(get: Get) -> None:
    seen: list[Progress] = []
    get(report=seen.append)
    downloading = [one for one in seen if one.phase == "downloading"]
    assert downloading[0].done_bytes == 0
    assert downloading[-1].done_bytes == downloading[-1].total_bytes == len(BODY)
    assert seen[-1].phase == "checking"


def test_a_broken_connection_goes_on_where_it_ended(get: Get, server: FileServer) -> None:
    assert get(cut_after(200_000), cut_after(100_000)) == BODY
    assert server.ranges() == [None, "bytes=200000-", "bytes=300000-"]


def test_a_later_run_goes_on_too(get: Get, server: FileServer, tmp_path: Path) -> None:
    asked = itertools.count()
    with pytest.raises(CancelledError):
        get(cancelled=lambda: next(asked) > 3)
    have = part(tmp_path).stat().st_size
    assert 0 < have < len(BODY)
    assert get() == BODY
    assert server.ranges() == [None, f"bytes={have}-"]


def test_a_server_without_ranges_starts_over(get: Get, server: FileServer) -> None:
    assert get(cut_after(200_000), without_ranges) == BODY
    assert server.ranges() == [None, "bytes=200000-"]


def test_redirects_are_followed_and_the_token_stays_at_home(get: Get, server: FileServer) -> None:
    other = FileServer(files={"/mirror": BODY})
    other.start()
    try:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        go = redirect(f"{elsewhere}/mirror")
        assert get(go, headers={"Authorization": "Bearer secret"}) == BODY
        assert server.seen[0].headers["Authorization"] == "Bearer secret"
        assert "Authorization" not in other.seen[0].headers
    finally:
        other.close()


def test_a_busy_server_is_asked_again(get: Get, server: FileServer) -> None:
    assert get(status(503), status(429, Retry_After="0"), status(500)) == BODY
    assert len(server.seen) == 4


def test_a_server_that_stays_busy_is_given_up(get: Get, server: FileServer) -> None:
    with pytest.raises(NetworkError, match="HTTP status 503"):
        get(*[status(503)] * 10)
    assert len(server.seen) == 6


def test_a_silent_server_is_given_up_and_asked_again(get: Get, server: FileServer) -> None:
    assert get(stall_after(100_000)) == BODY
    assert server.ranges()[0] is None
    assert len(server.seen) == 2


def test_cancelling_wakes_a_read_that_waits(get: Get) -> None:
    began = time.monotonic()
    slow = threading.Timer(0.1, lambda: stopped.set())
    stopped = threading.Event()
    slow.start()
    with pytest.raises(CancelledError):
        get(stall_after(70_000), cancelled=stopped.is_set)
    assert time.monotonic() - began < 2.0
    slow.join()


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (401, RefusedError, "access token"),
        (403, RefusedError, "accept its terms"),
        (404, RemoteNotFoundError, "does not have file"),
        (410, RemoteNotFoundError, "does not have file"),
        (451, DownloadError, "HTTP status 451"),
    ],
)
def test_refusals_are_told_at_once(
    get: Get, server: FileServer, code: int, kind: type[DownloadError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        get(status(code))
    assert len(server.seen) == 1


def test_a_wrong_hash_deletes_the_part(get: Get, tmp_path: Path) -> None:
    with pytest.raises(WrongFileError, match="damaged on the way"):
        get(sha256="0" * 64)
    assert not part(tmp_path).exists()


def test_a_wrong_size_is_told_before_downloading(get: Get, tmp_path: Path) -> None:
    with pytest.raises(WrongFileError, match="512,000 bytes; 600,000 were expected"):
        get(size=600_000)


def test_a_part_of_another_file_is_not_continued(
    get: Get, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(WrongFileError):
        get(sha256="0" * 64)
    part(tmp_path).write_bytes(b"other")
    part(tmp_path).with_name("file.part.json").write_text('{"sha256": "else"}')
    assert get() == BODY
    assert server.ranges()[-1] is None


@pytest.mark.parametrize("note", ["", "[]", "{", '{"sha256": 5}'])
def test_a_damaged_note_only_costs_the_part(get: Get, tmp_path: Path, note: str) -> None:
    part(tmp_path).parent.mkdir(parents=True)
    part(tmp_path).write_bytes(b"x" * 1000)
    part(tmp_path).with_name("file.part.json").write_text(note)
    assert get() == BODY


def test_a_part_that_is_too_long_is_thrown_away(get: Get, tmp_path: Path) -> None:
    get()
    with part(tmp_path).open("ab") as file:
        file.write(b"more")
    assert get() == BODY


def test_without_size_and_hash_the_server_s_word_counts(get: Get, server: FileServer) -> None:
    assert get(cut_after(200_000), size=None, sha256=None) == BODY
    assert server.seen[1].headers["If-Range"].startswith('"')


def test_a_whole_part_is_not_downloaded_again(get: Get, server: FileServer) -> None:
    get()
    server.seen.clear()
    assert get() == BODY
    assert server.seen == []


def test_no_server_is_a_network_error(server: FileServer, tmp_path: Path) -> None:
    remote = Remote("http://127.0.0.1:9/file", "file", 10)
    with requests.Session() as session, pytest.raises(NetworkError, match="check the network"):
        fetch(session, remote, tmp_path / "p.part", lambda _: None, never, timing=QUICK)


def test_too_little_space_is_told_before_the_first_byte(
    get: Get, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9, 1000))
    with pytest.raises(DiskFullError, match="are free"):
        get()
    assert server.seen == []


def test_a_disk_that_fills_up_keeps_the_part(
    get: Get, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = Path.open
    full = [True]

    def open_full(path: Path, mode: str = "r", *args: Any, **named: Any) -> Any:
        file = real_open(path, mode, *args, **named)
        return FullDisk(file, 100_000) if mode in ("ab", "wb") and full[0] else file

    monkeypatch.setattr(Path, "open", open_full)
    with pytest.raises(DiskFullError, match="The disk is full"):
        get()
    assert 0 < part(tmp_path).stat().st_size < len(BODY)
    full[0] = False
    assert get() == BODY


class FullDisk:
    """A file on a disk with little room."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: bytes) -> int:
        if len(data) > self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._room -= len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
