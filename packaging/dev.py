"""One command for each job of a checkout, on Linux, macOS and Windows, with Python alone.

python3 packaging/dev.py run [ARGUMENTS]    install what is missing, then run driftwood ARGUMENTS
python3 packaging/dev.py test [ARGUMENTS]   install, check the code, then run pytest ARGUMENTS
python3 packaging/dev.py check              check the code only: ruff, pyright, import-linter
python3 packaging/dev.py bundle             make the folder that people install, in dist/
python3 packaging/dev.py lock               choose versions anew for packaging/requirements/
"""

from __future__ import annotations

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main(arguments: list[str]) -> int:
    """Run one job; the exit status."""
    import computer  # only after the version of Python is known to be new enough
    import jobs

    if not computer.is_tested(sys.version_info[:2]):
        print("This Python is newer than those Driftwood was tested with.", file=sys.stderr)
    known = {"run": jobs.run, "test": jobs.test, "check": jobs.check, "bundle": jobs.bundle}
    known["lock"] = jobs.lock
    if not arguments or arguments[0] not in known:
        print(__doc__, file=sys.stderr)
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    try:
        return known[arguments[0]](arguments[1:])
    except jobs.JobError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def start(arguments: list[str]) -> int:
    """Go on with a Python that is new enough, looking for one where this one is not."""
    sys.path.insert(0, HERE)
    if sys.version_info >= (3, 11):  # noqa: UP036
        return main(arguments)
    for minor in (14, 13, 12, 11):
        name = f"python3.{minor}"
        try:
            subprocess.check_call([name, "-c", "import venv"], stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            continue
        return subprocess.call([name, os.path.abspath(__file__), *arguments])
    print(f"Driftwood needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    return 1


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
