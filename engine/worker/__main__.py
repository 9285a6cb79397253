"""``python -m engine.worker``: the worker's process."""

from __future__ import annotations

import sys

from engine.worker.main import main

sys.exit(main())
