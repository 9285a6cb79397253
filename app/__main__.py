"""``python -m app``: the same as ``driftwood``."""

from __future__ import annotations

import sys

from app.main import main

sys.exit(main())
