"""A web server on this computer that misbehaves on command, for tests of downloads."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Seen:
    """One request that the server got."""

    method: str
    path: str
    headers: dict[str, str]


Behaviour = Callable[["Handler"], None]


@dataclass
class FileServer:
    """Serves ``files`` by path; ``plans[path]`` are behaviours for the next requests of it."""

    files: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    plans: dict[str, list[Behaviour]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)  # ends every stall
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The server's address, without a slash at the end."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        """Serve on a free port."""
        handler = type("BoundHandler", (Handler,), {"owner": self})
        self._server = QuietServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        assert self._server is not None
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def ranges(self) -> list[str | None]:
        """The Range headers of the GET requests, in order."""
        return [one.headers.get("Range") for one in self.seen if one.method == "GET"]


class QuietServer(ThreadingHTTPServer):
    """Clients that hang up are part of the tests."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    owner: FileServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer by the plan, else as a good server does."""
        self._answer()

    def do_HEAD(self) -> None:
        """As GET, without the body."""
        self._answer()

    def _answer(self) -> None:
        self.owner.seen.append(Seen(self.command, self.path, dict(self.headers.items())))
        plan = self.owner.plans.get(self.path, [])
        (plan.pop(0) if plan else serve)(self)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def body(self) -> bytes:
        """The file that was asked for."""
        return self.owner.files[self.path]

    def reply(
        self, status: int, headers: dict[str, str], body: bytes, sent: int | None = None
    ) -> None:
        """Send an answer; ``sent`` bytes of the body only, and then hang up."""
        self.send_response(status)
        own = self.owner.headers.get(self.path, {})
        for name, value in {"Content-Length": str(len(body)), **headers, **own}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body if sent is None else body[:sent])
        if sent is not None:
            self.wfile.flush()
            self.close_connection = True


def serve(handler: Handler) -> None:
    """The whole file or the range that was asked for."""
    _serve(handler, None)


def cut_after(count: int) -> Behaviour:
    """Hang up after so many bytes of the body."""
    return lambda handler: _serve(handler, count)


def without_ranges(handler: Handler) -> None:
    """Answer 200 with the whole file, whatever was asked for."""
    handler.reply(200, {}, handler.body())


def status(code: int, **headers: str) -> Behaviour:
    """An answer without a file."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.reply(code, named, b"")


def redirect(location: str) -> Behaviour:
    """Send the client elsewhere."""
    return lambda handler: handler.reply(302, {"Location": location}, b"")


def stall_after(count: int) -> Behaviour:
    """Send so many bytes, then nothing until the server closes."""

    def behave(handler: Handler) -> None:
        body = handler.body()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:count])
        handler.wfile.flush()
        handler.owner.released.wait(20)
        handler.close_connection = True

    return behave


def _serve(handler: Handler, sent: int | None) -> None:
    if handler.path not in handler.owner.files:
        handler.reply(404, {}, b"")
        return
    body = handler.body()
    etag = {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}
    wanted = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    if wanted is None:
        handler.reply(200, etag, body, sent)
    elif int(wanted[1]) >= len(body):
        handler.reply(416, {"Content-Range": f"bytes */{len(body)}"}, b"")
    else:
        first = int(wanted[1])
        told = {"Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}", **etag}
        handler.reply(206, told, body[first:], sent)
