"""A device for picture tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from image.drawing import Studio

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


@pytest.fixture(scope="module")
def studio(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """An engine, and a folder for its models; all memory must come back at the end."""
    made = Studio(device, tmp_path_factory.mktemp("studio"))
    before = device.ledger.totals().total
    yield made
    made.close()
    assert device.ledger.totals().total == before
