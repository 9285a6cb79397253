"""Where the frozen program begins: the window, the command line, or the engine's process."""

from __future__ import annotations

import multiprocessing
import sys

from app.main import main

if __name__ == "__main__":
    multiprocessing.freeze_support()  # libraries may start processes of their own
    sys.exit(main())
