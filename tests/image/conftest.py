"""A device for picture tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.gpu.device import Device, open_device
from engine.gpu.errors import NoAdapterError


@pytest.fixture(scope="session")
def device() -> Iterator[Device]:
    """The best device there is."""
    try:
        opened = open_device()
    except NoAdapterError as error:
        pytest.skip(f"no GPU driver here: {error}")
    yield opened
    opened.close()
