"""python packaging/starter JOB ...: from any folder, with nothing installed as a package."""

import runpy
import sys
from pathlib import Path

if __package__:
    from .main import main

    sys.exit(main(sys.argv[1:]))

SCRIPTS = Path(__file__).resolve().parents[1]
# the folder itself was put on the path: modules here would hide others of the same names
sys.path[0] = str(SCRIPTS)
sys.path.append(str(SCRIPTS.parent))  # the engine, for samples
runpy.run_module("starter", run_name="__main__", alter_sys=True)
