"""Fetching one large file over HTTP so that nothing is lost: ranges, retries, a note for later.

The bytes go to ``NAME.part``; ``NAME.part.json`` notes which file they belong to, so that a later
run, even after a restart, goes on where this one ended.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from engine.models.errors import (
    CancelledError,
    DownloadError,
    NetworkError,
    RefusedError,
    RemoteNotFoundError,
    WrongFileError,
)
from engine.models.transfer import (
    Cancelled,
    Meter,
    Report,
    explained_disk_full,
    file_sha256,
    require_space,
)

if TYPE_CHECKING:
    import requests

_CHUNK: Final = 64 * 2**10
_TRIES: Final = 6  # in a row without a byte of progress
_LONGEST_PAUSE: Final = 30.0  # seconds
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Timing:
    """How long to wait, in seconds; tests make it short."""

    connect: float = 10.0
    stalled: float = 20.0  # without a single byte
    first_pause: float = 1.0  # before the second try; doubles each time


@dataclass(frozen=True)
class Remote:
    """A file on a server."""

    url: str
    name: str  # for messages
    size: int | None = None  # None: not known before the server answers
    sha256: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass
class _Part:
    """The bytes that are here, and the entity tag they belong to."""

    path: Path
    remote: Remote
    etag: str | None = None

    @property
    def note(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def have(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def write_note(self) -> None:
        about = {"url": self.remote.url, "sha256": self.remote.sha256, "etag": self.etag}
        self.note.write_text(json.dumps(about), "utf-8")

    def open_or_reset(self) -> None:
        """Keep what is here if it belongs to the same file, else start from nothing."""
        note = _read_note(self.note)
        sha256 = self.remote.sha256
        same = note.get("sha256") == sha256 if sha256 else note.get("url") == self.remote.url
        if note and same:
            self.etag = cast("str | None", note.get("etag"))
        else:
            self.discard()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.write_note()

    def discard(self) -> None:
        self.etag = None
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


class _TryAgainError(Exception):
    """This try failed in a way that may pass; ``pause`` is what the server asked for."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


def fetch(
    session: requests.Session,
    remote: Remote,
    part: Path,
    report: Report,
    cancelled: Cancelled,
    *,
    space_after: int = 0,
    timing: Timing | None = None,
) -> None:
    """Bring the whole file to ``part`` and check its size and SHA-256.

    ``space_after`` bytes more must be free for what follows. Raises DownloadError, DiskFullError,
    CancelledError; all but a wrong file leave the part for the next try.
    """
    timing = timing or Timing()
    state = _Part(part, remote)
    state.open_or_reset()
    if remote.size is not None:
        require_space(part.parent, max(remote.size - state.have(), 0) + space_after)
    meter = Meter("downloading", remote.size or state.have(), report, cancelled, state.have())
    _until_whole(session, state, meter, timing, cancelled)
    _check(state, report, cancelled)


def part_note(part: Path) -> Path:
    """The note beside a part."""
    return part.with_name(part.name + ".json")


def refusal(status: int, name: str) -> DownloadError | None:
    """What a final HTTP status means to the person; None if it is no refusal."""
    if status == HTTPStatus.UNAUTHORIZED:
        return RefusedError(
            f"The server wants to know who asks for {name}. Put a valid access token into the "
            "settings and try again."
        )
    if status == HTTPStatus.FORBIDDEN:
        return RefusedError(
            f"The server does not allow the download of {name}. If the model is gated, accept its "
            "terms on its page with your account, and put that account's token into the settings."
        )
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return RemoteNotFoundError(f"The server does not have {name} any more.")
    if 400 <= status < 600 and status not in _BUSY:
        return DownloadError(f"The server refused {name} (HTTP status {status}).")
    return None


def _until_whole(
    session: requests.Session, state: _Part, meter: Meter, timing: Timing, cancelled: Cancelled
) -> None:
    """Try until every byte is here; give up after _TRIES tries without progress."""
    failures, pause = 0, timing.first_pause
    while True:
        before = state.have()
        try:
            if _try_once(session, state, meter, timing, cancelled):
                return
            raise _TryAgainError("the connection ended before the file did")
        except _TryAgainError as error:
            if cancelled():
                raise CancelledError("Stopped.") from error
            if state.have() > before:
                failures, pause = 0, timing.first_pause
            failures += 1
            if failures >= _TRIES:
                raise NetworkError(
                    f"{state.remote.name} could not be downloaded: {error}. What is here is kept; "
                    "check the network and try again."
                ) from error
            _sleep(min(max(pause, error.pause), _LONGEST_PAUSE), cancelled)
            pause *= 2


def _try_once(
    session: requests.Session, state: _Part, meter: Meter, timing: Timing, cancelled: Cancelled
) -> bool:
    """One request from where the part ends; True if the file is whole afterwards."""
    import requests  # late: these take a tenth of a second
    import urllib3.exceptions

    have = state.have()
    if state.remote.size is not None and have == state.remote.size:
        return True
    try:
        response = session.get(
            state.remote.url,
            headers=_headers(state, have),
            stream=True,
            timeout=(timing.connect, timing.stalled),
        )
        with response, _interruptible(response, cancelled):
            return _receive(response, state, meter, have)
    except requests.exceptions.SSLError as error:
        raise NetworkError(
            f"The server's certificate could not be checked: {_root(error)}. If a proxy of your "
            "company stands between, point REQUESTS_CA_BUNDLE to its certificate."
        ) from error
    except requests.exceptions.Timeout as error:
        raise _TryAgainError("the server did not answer in time") from error
    except urllib3.exceptions.ReadTimeoutError as error:
        raise _TryAgainError("the server fell silent") from error
    except (requests.exceptions.ConnectionError, urllib3.exceptions.HTTPError) as error:
        raise _TryAgainError(_root(error)) from error
    except requests.exceptions.RequestException as error:
        raise DownloadError(f"{state.remote.name} could not be downloaded: {error}.") from error


def _headers(state: _Part, have: int) -> dict[str, str]:
    headers = {**state.remote.headers, "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        # with a hash the end tells whether the parts belong together; the tag of a redirected
        # address may differ from one mirror to the next
        if state.remote.sha256 is None and state.etag and not state.etag.startswith("W/"):
            headers["If-Range"] = state.etag
    return headers


def _receive(response: requests.Response, state: _Part, meter: Meter, have: int) -> bool:
    status = response.status_code
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return _past_the_end(response, state, have)
    if error := refusal(status, state.remote.name):
        raise error
    if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise _TryAgainError(f"the server is busy (HTTP status {status})", _retry_after(response))
    start, total = _extent(response, have)
    if status == HTTPStatus.PARTIAL_CONTENT and start != have:
        state.discard()
        raise _TryAgainError("the server sent another part than was asked for")
    if state.remote.size is not None and total is not None and total != state.remote.size:
        raise WrongFileError(
            f"The server has {state.remote.name} with {total:,} bytes; {state.remote.size:,} were "
            "expected. It may have been replaced."
        )
    meter.total = total or state.remote.size or 0
    state.etag = response.headers.get("ETag")
    state.write_note()
    _write(response, state, meter, start)
    return total is None or state.have() == total


def _write(response: requests.Response, state: _Part, meter: Meter, start: int) -> None:
    with state.path.open("ab" if start else "wb") as file:
        meter.move_to(start)
        # read1: what has arrived is kept at once, also from a slow or dying connection
        while chunk := response.raw.read1(_CHUNK, decode_content=False):
            with explained_disk_full(meter.total - meter.done):
                file.write(chunk)
                file.flush()
            meter.add(len(chunk))


def _extent(response: requests.Response, have: int) -> tuple[int, int | None]:
    """(first byte of this answer, size of the whole file if it is told)."""
    if response.status_code == HTTPStatus.OK:  # the server does not know ranges: from the start
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdigit() else None
    told = re.match(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if told is None:
        return have, None
    return int(told[1]), int(told[2]) if told[2] != "*" else None


def _past_the_end(response: requests.Response, state: _Part, have: int) -> bool:
    told = re.match(r"bytes \*/(\d+)", response.headers.get("Content-Range", ""))
    if told is not None and int(told[1]) == have:
        return True
    state.discard()
    raise _TryAgainError("the part was longer than the file")


def _check(state: _Part, report: Report, cancelled: Cancelled) -> None:
    remote, have = state.remote, state.have()
    if remote.size is not None and have != remote.size:
        state.discard()
        raise WrongFileError(
            f"{remote.name} has {have:,} bytes and should have {remote.size:,}. Try again."
        )
    if remote.sha256 and file_sha256(state.path, report, cancelled) != remote.sha256:
        state.discard()
        raise WrongFileError(
            f"{remote.name} was damaged on the way: its SHA-256 is not the published one. The file "
            "was deleted; try again."
        )


@contextlib.contextmanager
def _interruptible(response: requests.Response, cancelled: Cancelled) -> Generator[None]:
    """Wake a read that waits for a silent server as soon as the person cancels."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            if cancelled():
                with contextlib.suppress(ValueError, RuntimeError, OSError):
                    response.raw.shutdown()
                return

    watcher = threading.Thread(target=watch, name="download watcher", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _sleep(seconds: float, cancelled: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if cancelled():
            raise CancelledError("Stopped.")
        time.sleep(min(left, 0.1))


def _retry_after(response: requests.Response) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0


def _root(error: BaseException) -> str:
    """The innermost cause, which is the one that means something to a person."""
    while True:
        causes = (*error.args, cast(object, getattr(error, "reason", None)))
        inner = next((one for one in causes if isinstance(one, BaseException)), None)
        if inner is None:
            break
        error = inner
    text = str(error).rsplit(": ", 1)[-1].strip(" .'()\"")
    return text or type(error).__name__


def _read_note(note: Path) -> dict[str, object]:
    try:
        value: object = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
