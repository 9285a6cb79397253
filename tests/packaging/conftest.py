"""The scripts of packaging/ are no package: their tests import them as they import each other."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPTS = str(Path(__file__).resolve().parents[2] / "packaging")
if SCRIPTS not in sys.path:
    sys.path.insert(0, SCRIPTS)
