from __future__ import annotations

from pathlib import Path

import pytest

from engine.models.paths import home_paths


def test_one_variable_moves_every_folder(home: Path) -> None:
    paths = home_paths()
    assert paths.models == home / "models"
    assert paths.cache == home / "cache"
    assert paths.config == home / "config"
    assert paths.data == home / "data"
    assert paths.logs == home / "logs"


def test_without_the_variable_the_platform_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTWOOD_HOME")
    paths = home_paths()
    assert paths.models.parent == paths.data
    assert all("driftwood" in str(one).lower() for one in (paths.cache, paths.config, paths.logs))


def test_asking_makes_no_folder(home: Path) -> None:
    home_paths()
    assert not home.exists()
