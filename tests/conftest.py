"""Fixtures for all tests. Qt is imported only by tests that ask for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from app.shell.page import AppContext

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
HERE = str(Path(__file__).resolve().parent)
for folder in (HERE, str(Path(HERE).parent)):
    if folder not in sys.path:
        sys.path.insert(0, folder)


@pytest.fixture(scope="session")
def application() -> QApplication:
    """The one QApplication, with the light theme installed."""
    from app_common.qt import make_application

    return make_application()


@pytest.fixture
def qt(application: QApplication) -> Iterator[QApplication]:
    """The application; the test fails on any warning of Qt and leaves no widget behind."""
    from app_common.qt import watch_warnings

    with watch_warnings(application):
        yield application


@pytest.fixture
def context(qt: QApplication, tmp_path: Path) -> Iterator[AppContext]:
    """A context over a fresh home folder and the fake worker."""
    from app_common.qt import close_context, make_context

    made = make_context(tmp_path)
    yield made
    close_context(made)
