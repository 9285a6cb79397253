from __future__ import annotations

import hashlib

import pytest
from models.file_server import Behaviour, FileServer, redirect, status

from engine.models import hub
from engine.models.catalogue import HubSource
from engine.models.errors import NetworkError, RefusedError, RemoteNotFoundError
from engine.models.http import Remote, Timing

SOURCE = HubSource("someone/some-model", "model.gguf")
PATH = "/someone/some-model/resolve/main/model.gguf"
SHA256 = hashlib.sha256(b"weights").hexdigest()


def find(server: FileServer, *plan: Behaviour, token: str | None = None) -> Remote:
    server.plans[PATH] = list(plan)
    return hub.find_file(SOURCE, endpoint=server.url, token=lambda: token, timing=Timing(2, 2))


def test_a_large_file_s_hash_and_size_come_from_the_hub(server: FileServer) -> None:
    go = {"X_Linked_Etag": f'"{SHA256}"', "X_Linked_Size": "7", "X_Repo_Commit": "c0ffee"}
    found = find(server, status(200, **go))
    assert (found.url, found.size, found.sha256) == (f"{server.url}{PATH}", 7, SHA256)
    assert found.headers == {}


def test_a_redirect_to_the_store_of_large_files_keeps_the_hub_s_hash(server: FileServer) -> None:
    server.headers[PATH] = {"X-Linked-Etag": f'"{SHA256}"', "X-Linked-Size": "7"}
    found = find(server, redirect(f"{server.url.replace('127.0.0.1', 'localhost')}/cdn"))
    assert (found.size, found.sha256) == (7, SHA256)


def test_a_small_file_has_no_sha256(server: FileServer) -> None:
    server.files[PATH] = b"weights"
    found = find(server)
    assert (found.size, found.sha256) == (7, None)


def test_the_token_goes_along(server: FileServer) -> None:
    server.files[PATH] = b"weights"
    assert find(server, token="secret").headers == {"Authorization": "Bearer secret"}
    assert server.seen[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("token", "words"), [(None, "put the account's token"), ("t", "no access")]
)
def test_a_gated_model_says_what_to_do(server: FileServer, token: str | None, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        find(server, status(403, X_Error_Code="GatedRepo"), token=token)


@pytest.mark.parametrize("code", ["RepoNotFound", "EntryNotFound", "RevisionNotFound"])
def test_what_is_missing_is_told(server: FileServer, code: str) -> None:
    with pytest.raises(RemoteNotFoundError, match="some-model"):
        find(server, status(404, X_Error_Code=code))


def test_a_bad_token_and_a_busy_hub_are_told(server: FileServer) -> None:
    with pytest.raises((RefusedError, RemoteNotFoundError)):
        find(server, status(401), token="bad")
    with pytest.raises(NetworkError, match="busy"):
        find(server, status(503))


def test_no_network_is_told() -> None:
    with pytest.raises(NetworkError, match="could not be reached"):
        hub.find_file(
            SOURCE, endpoint="http://127.0.0.1:9", token=lambda: None, timing=Timing(2, 2)
        )


def test_the_environment_s_token_comes_before_the_keyring_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "keyring_token", lambda: "kept")
    assert hub.hub_token() == "kept"
    monkeypatch.setenv("HF_TOKEN", " given ")
    assert hub.hub_token() == "given"


def test_a_keyring_that_does_not_work_is_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")

    def locked(*_: str) -> str:
        raise keyring.errors.KeyringError("locked")

    monkeypatch.setattr(keyring, "get_password", locked)
    assert hub.keyring_token() is None
