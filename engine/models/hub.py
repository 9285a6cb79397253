"""Files of the model hub: where they are, how large, their SHA-256, and the person's token."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from engine.models.catalogue import HubSource
from engine.models.errors import (
    DownloadError,
    NetworkError,
    RefusedError,
    RemoteNotFoundError,
)
from engine.models.http import Remote, Timing, refusal

KEYRING_SERVICE: Final = "driftwood"
KEYRING_USER: Final = "hub-token"
TOKEN_VARIABLES: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_SHA256_DIGITS: Final = 64


def hub_token() -> str | None:
    """The person's token: from the environment, else from the system's keyring, else None."""
    for variable in TOKEN_VARIABLES:
        if token := os.environ.get(variable, "").strip():
            return token
    return keyring_token()


def keyring_token() -> str | None:
    """The token kept in the system's keyring; None without one or without a keyring."""
    try:
        import keyring
        import keyring.errors
    except ImportError:
        return None
    try:
        return keyring.get_password(KEYRING_SERVICE, KEYRING_USER)
    except keyring.errors.KeyringError:
        return None


def find_file(
    source: HubSource,
    *,
    endpoint: str | None = None,
    token: Callable[[], str | None] = hub_token,
    timing: Timing | None = None,
) -> Remote:
    """Ask the hub about a file. ``endpoint`` None means the public hub. Raises DownloadError."""
    from huggingface_hub import errors as hub
    from huggingface_hub import (
        get_hf_file_metadata,  # pyright: ignore[reportUnknownVariableType]
        hf_hub_url,
    )

    timing = timing or Timing()
    secret = token()
    try:
        url = hf_hub_url(source.repo, source.file, revision=source.revision, endpoint=endpoint)
        about = get_hf_file_metadata(
            url, token=secret or False, timeout=timing.connect, endpoint=endpoint
        )
    except hub.GatedRepoError as error:
        raise RefusedError(_gated(source, secret)) from error
    except (hub.RepositoryNotFoundError, hub.EntryNotFoundError) as error:
        raise RemoteNotFoundError(
            f"The model hub does not have {source.file} in {source.repo}, or it is private."
        ) from error
    except hub.RevisionNotFoundError as error:
        raise RemoteNotFoundError(
            f"The model hub has no revision {source.revision} of {source.repo}."
        ) from error
    except hub.HFValidationError as error:
        raise DownloadError(f"This is not a name of the model hub: {source.repo}.") from error
    except hub.OfflineModeIsEnabled as error:
        raise NetworkError("The hub is switched off: HF_HUB_OFFLINE is set.") from error
    except hub.HfHubHTTPError as error:
        status = error.response.status_code
        raise refusal(status, source.file) or NetworkError(
            f"The model hub is busy (HTTP status {status}). Try again in a while."
        ) from error
    # its HTTP library differs from release to release; the base of its errors is always there
    except (hub.HTTPError, OSError) as error:  # pyright: ignore[reportPrivateImportUsage]
        raise NetworkError(
            "The model hub could not be reached. Check the network, then try again."
        ) from error
    etag = about.etag or ""
    return Remote(
        url=url,
        name=source.file,
        size=about.size,
        sha256=etag if _is_sha256(etag) else None,
        headers={"Authorization": f"Bearer {secret}"} if secret else {},
    )


def _gated(source: HubSource, secret: str | None) -> str:
    if secret is None:
        return (
            f"{source.repo} is gated: its authors want you to accept their terms. Do that on its "
            "page with a hub account, then put the account's token into the settings."
        )
    return (
        f"{source.repo} is gated, and your token's account has no access. Accept the terms on its "
        "page with that account, then try again."
    )


def _is_sha256(etag: str) -> bool:
    return len(etag) == _SHA256_DIGITS and all(digit in "0123456789abcdef" for digit in etag)
