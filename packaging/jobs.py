"""The jobs of dev.py: run, test, check, bundle, lock. Each takes arguments, returns a status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import computer
from environment import Folder, InstallError, prepare

ROOT = Path(__file__).resolve().parents[1]
HOME = Folder(ROOT)
PATIENCE = 45 * 60  # seconds for all tests; they take a few minutes
STARTER = "smollm2-135m-instruct"
MODEL_VARIABLE = "DRIFTWOOD_TEST_MODEL"
NO_SCREEN = (
    "There is no screen to open a window on (neither DISPLAY nor WAYLAND_DISPLAY is set). Start it "
    "from a desktop, or use the command line:\n\n"
    '    python3 packaging/dev.py run chat "Why is the sea salty?"'
)
CHECKS = {  # name -> module and arguments, run by the environment's Python in the root
    "ruff check": ("ruff", "check"),
    "ruff format": ("ruff", "format", "--check"),
    "pyright": ("pyright", "--pythonpath", str(HOME.python)),
    "import-linter": (),
}
_LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command as main; main()"


class JobError(Exception):
    """The job cannot be done; the sentences say why and what to do."""


def run(arguments: Sequence[str]) -> int:
    """Install what is missing, then run the program in place of this process."""
    window = computer.opens_window(arguments)
    if window and not computer.has_screen(os.environ, sys.platform):
        raise JobError(NO_SCREEN)
    _prepare("window" if window else "command", locks_for(arguments))
    # -P: a folder "app" where the person works must not be taken for ours
    return _become([str(HOME.python), "-P", "-m", "app", *arguments], _environment())


def test(arguments: Sequence[str]) -> int:
    """Check the code and run the tests; pytest's summary comes last."""
    _prepare("test", ["base", "dawn", "dev"])
    failed = _failed_checks()
    environment = _environment() | {"QT_QPA_PLATFORM": "offscreen"}
    model = _starter_model(environment)
    if model is not None:
        environment[MODEL_VARIABLE] = str(model)
    if failed:
        print(f"\nFailed before the tests: {', '.join(failed)}", flush=True)
    command = [str(HOME.python), "-m", "pytest", *arguments]
    try:
        status = _watched(command, environment)
    except subprocess.TimeoutExpired as error:
        raise JobError(f"\nThe tests did not end within {PATIENCE // 60} minutes.") from error
    return status or (1 if failed else 0)


def check(arguments: Sequence[str]) -> int:
    """Check the code only."""
    _take_no(arguments)
    _prepare("command", ["base", "dev"])
    failed = _failed_checks()
    print(f"Failed: {', '.join(failed)}" if failed else "All checks passed.")
    return 1 if failed else 0


def bundle(arguments: Sequence[str]) -> int:
    """Make the program's folder in dist/, and try it."""
    _prepare("bundle", ["base", "dev"])
    environment = _environment() | {"QT_QPA_PLATFORM": "offscreen"}
    model = _starter_model(environment)
    if model is None:
        raise JobError("The bundle is tried with the starter model, which could not be had.")
    command = [str(HOME.python), str(ROOT / "packaging" / "bundle.py"), str(model), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL).returncode


def lock(arguments: Sequence[str]) -> int:
    """Write the lock files anew, with pip-tools in an environment of its own."""
    _take_no(arguments)
    tools = Folder(ROOT / "build" / "lock")
    if not tools.stamp.exists():
        _must([sys.executable, "-m", "venv", "--clear", str(tools.venv)])
        _must([str(tools.python), "-m", "pip", "install", "-q", "--upgrade", "pip", "pip-tools"])
        tools.stamp.touch()
    command = [str(tools.python), str(ROOT / "packaging" / "lockfiles.py")]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode


def cache_folder() -> Path:
    """Where the starter model for tests is kept, for all checkouts of this person."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "driftwood-dev")


def locks_for(arguments: Sequence[str]) -> list[str]:
    """The Dawn back end is an extra: installed when it is asked for."""
    asked = "dawn" in arguments or "--backend=dawn" in arguments
    return ["base", "dawn"] if asked else ["base"]


def _prepare(job: str, locks: Sequence[str]) -> None:
    """Libraries of the system first, then the virtual environment."""
    if sys.platform == "linux":
        _prepare_linux(job)
    try:
        prepare(HOME, locks)
    except InstallError as error:
        raise JobError(str(error)) from error


def _prepare_linux(job: str) -> None:
    lacking = computer.missing_libraries(
        computer.groups_for(job, os.environ),
        computer.library_is_there,
        computer.driver_is_there(),
    )
    needs_venv = not HOME.stamp.exists() and not computer.venv_is_there()
    if needs_venv:
        lacking.append(computer.venv_package(sys.version_info[:2]))
    if lacking and not computer.install(lacking) and (needs_venv or job != "command"):
        raise JobError("\nThen run this command again.")


def _failed_checks() -> list[str]:
    """Run every check; the names of those that found something."""
    environment = _environment() | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    failed: list[str] = []
    for name, words in CHECKS.items():
        print(f"{name}:", flush=True)
        start = ["-m", *words] if words else ["-c", _LINT_IMPORTS]
        command = [str(HOME.python), *start]
        done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            failed.append(name)
    return failed


def _watched(command: list[str], environment: dict[str, str]) -> int:
    """Run the tests; a driver that hangs must not hang us. Raises TimeoutExpired."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, timeout=PATIENCE
    )
    return done.returncode


def _starter_model(environment: dict[str, str]) -> Path | None:
    """The starter model's file, downloaded once by the program's own store; None if offline."""
    home = cache_folder()
    note = home / "starter.json"
    known = noted_model(note)
    if known is not None:
        return known
    print(f"Fetching {STARTER} (98 MB, once) into {home}", file=sys.stderr, flush=True)
    command = [str(HOME.python), "-P", "-m", "app", "models", "get", STARTER, "--json"]
    done = subprocess.run(
        command,
        env=environment | {"DRIFTWOOD_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        path = Path(json.loads(done.stdout)["path"])
        size = path.stat().st_size
    except (ValueError, KeyError, TypeError, OSError):
        print("The starter model could not be had; tests that need it fail.", file=sys.stderr)
        return None
    note.write_text(json.dumps({"path": str(path), "bytes": size}), "utf-8")
    return path


def noted_model(note: Path) -> Path | None:
    """The file that an earlier run left, if it is still as long as it was then."""
    try:
        fields = json.loads(note.read_text("utf-8"))
        path = Path(fields["path"])
        return path if path.stat().st_size == fields["bytes"] else None
    except (ValueError, KeyError, TypeError, OSError):
        return None


def _environment() -> dict[str, str]:
    environment = dict(os.environ)
    if sys.platform == "linux" and not environment.get("XDG_RUNTIME_DIR"):
        environment["XDG_RUNTIME_DIR"] = computer.runtime_folder()
    return environment


def _become(command: list[str], environment: dict[str, str]) -> int:
    """Run a command in our place: signals and the exit status are its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name != "nt":  # there the shell would not wait
        os.execve(command[0], command, environment)
    return subprocess.run(command, env=environment).returncode


def _must(command: list[str]) -> None:
    if subprocess.run(command, stdin=subprocess.DEVNULL).returncode != 0:
        raise JobError(f"This failed: {' '.join(command)}")


def _take_no(arguments: Sequence[str]) -> None:
    if arguments:
        raise JobError(f"This job takes no arguments: {' '.join(arguments)}")
