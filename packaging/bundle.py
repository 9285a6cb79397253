"""Make the bundle in dist/ and try it: dev.py bundle runs this in the virtual environment.

The bundle is a folder that needs no Python: the program, its libraries, shaders and icons, the
licences of all that is inside. It is made for the system it is made on. Afterwards the frozen
program answers a question, makes a picture and opens its window (without a screen); if one of these
fails, so does this.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import contents
import licences

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
FOLDER = DIST / "driftwood"
PROGRAM = FOLDER / ("driftwood-cli.exe" if sys.platform == "win32" else "driftwood")
WINDOW = FOLDER / ("driftwood.exe" if sys.platform == "win32" else "driftwood")
QUESTION = "What is the capital of France?"
ANSWER_FIELDS = ("text", "token_ids", "stop_reason", "model", "device", "backend")
TRIAL_SECONDS = 300
WINDOW_SECONDS = 4.0


class BundleError(Exception):
    """The bundle is not fit to be given to anyone; the sentence says why."""


def main(arguments: list[str]) -> int:
    """`bundle.py STARTER.gguf`; the exit status."""
    model = Path(arguments[0])
    sys.path.insert(0, str(ROOT))
    from engine import __version__

    try:
        freeze(__version__)
        add_papers(__version__)
        ask(model)
        draw()
        open_window()
    except BundleError as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    size = sum(file.lstat().st_size for file in FOLDER.rglob("*") if file.is_file())
    print(f"{FOLDER} is ready: {size / 2**20:.0f} MiB")
    return 0


def freeze(version: str) -> None:
    """Run PyInstaller; fail on what it only warns about. Raises BundleError."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    (build / "VERSION").write_text(version + "\n", "utf-8")
    (build / "version_info.txt").write_text(windows_version(version), "utf-8")
    print("Freezing (a minute or two)", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--clean", "--log-level=WARN"]
    command += ["--distpath", str(DIST), "--workpath", str(build / "pyinstaller")]
    command.append(str(ROOT / "packaging" / "driftwood.spec"))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    log = done.stdout + done.stderr
    (build / "pyinstaller.log").write_text(log, "utf-8")
    if done.returncode != 0:
        raise BundleError(f"PyInstaller failed:\n{log[-4000:]}")
    if lacking := contents.unresolved(log, sys.platform):
        raise BundleError(
            f"These libraries are missing here, so the bundle lacks them: {', '.join(lacking)}. "
            "Install them and make the bundle again."
        )


def add_papers(version: str) -> None:
    """Version, licences and, on Linux, what a desktop wants to know about a program."""
    about = f"driftwood {version}\n{platform.system()} {platform.machine()}\n"
    (FOLDER / "VERSION").write_text(f"{about}Python {platform.python_version()}\n", "utf-8")
    shutil.copy(ROOT / "LICENSE", FOLDER / "LICENSE")
    count = licences.collect(FOLDER)
    print(f"Licences of {count} packages are in {FOLDER / 'licences'}", file=sys.stderr)
    if sys.platform != "linux":
        return
    share, linux = FOLDER / "share", ROOT / "assets" / "linux"
    places = {
        linux / "driftwood.desktop": share / "applications",
        linux / "driftwood.metainfo.xml": share / "metainfo",
        ROOT / "assets" / "app" / "driftwood.svg": share / "icons/hicolor/scalable/apps",
        ROOT / "packaging" / "add-to-menu.sh": FOLDER,
    }
    for source, target in places.items():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    validate(share)


def validate(share: Path) -> None:
    """Let the desktop's own validators, where they are, look at both files."""
    checks = (
        ["desktop-file-validate", str(share / "applications" / "driftwood.desktop")],
        ["appstreamcli", "validate", "--no-net", str(share / "metainfo/driftwood.metainfo.xml")],
    )
    for command in checks:
        if shutil.which(command[0]) is None:
            print(f"{command[0]} is not here: not validated", file=sys.stderr)
            continue
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise BundleError(f"{command[0]} finds fault:\n{done.stdout}{done.stderr}")


def ask(model: Path) -> None:
    """The frozen program answers a question. Raises BundleError."""
    with tempfile.TemporaryDirectory() as home:
        words = ["chat", QUESTION, "--model", str(model), "--max-tokens", "8", "--temperature", "0"]
        status, output, said = run_frozen([*words, "--json"], home)
    if problem := answer_problem(status, output):
        raise BundleError(f"{problem}\n{output}{said}")
    print(f"It answers: {json.loads(output)['text']!r}", file=sys.stderr)


def draw() -> None:
    """The frozen program makes a picture with the model inside it. Raises BundleError."""
    with tempfile.TemporaryDirectory() as home:
        picture = Path(home, "apple.png")
        words = ["image", "an apple", "-o", str(picture), "--steps", "2", "--json"]
        status, output, said = run_frozen(words, home)
        if status != 0 or not picture.is_file():
            raise BundleError(f"The frozen program made no picture ({status}).\n{output}{said}")
    print("It makes a picture", file=sys.stderr)


def run_frozen(words: list[str], home: str) -> tuple[int, str, str]:
    """Exit status, output and messages of a command of the frozen program. Raises BundleError."""
    try:
        done = subprocess.run(
            [str(PROGRAM), *words],
            env=clean_environment(home),
            cwd=home,
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=TRIAL_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BundleError(f"driftwood {words[0]} did not end within {TRIAL_SECONDS} s.") from error
    return done.returncode, done.stdout, done.stderr


def answer_problem(status: int, output: str) -> str | None:
    """What is wrong with the answer of `chat --json`; None if nothing."""
    if status != 0:
        return f"The frozen program answered with exit status {status}."
    try:
        answer = json.loads(output)
    except ValueError:
        return "The frozen program's answer is not JSON."
    lacking = [name for name in ANSWER_FIELDS if name not in answer]
    if lacking:
        return f"The frozen program's answer lacks {', '.join(lacking)}."
    if not answer["text"].strip() or not answer["token_ids"]:
        return "The frozen program's answer is empty."
    return None


def open_window() -> None:
    """The frozen window stays open for some seconds without a word. Raises BundleError."""
    with tempfile.TemporaryDirectory() as home:
        environment = clean_environment(home) | {"QT_QPA_PLATFORM": "offscreen"}
        process = subprocess.Popen(
            [str(WINDOW)],
            env=environment,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            output, _ = process.communicate(timeout=WINDOW_SECONDS)
            ended: int | None = process.returncode
        except subprocess.TimeoutExpired:
            ended = None
            process.terminate()
            output, _ = process.communicate(timeout=30)
    text = output.decode(errors="replace")
    if ended is not None or "Traceback" in text:
        raise BundleError(f"The frozen window ended by itself ({ended}):\n{text}")
    print("Its window opens", file=sys.stderr)


def clean_environment(home: str) -> dict[str, str]:
    """The environment of someone who has no Python: nothing of ours may leak into the trial."""
    hidden = ("PYTHON", "VIRTUAL_ENV", "DRIFTWOOD_", "LD_LIBRARY_PATH", "QT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "DRIFTWOOD_HOME": home}


def windows_version(version: str) -> str:
    """The version resource of a Windows program, in the form that PyInstaller reads."""
    numbers = (*(int(part) for part in version.split(".")[:3]), 0, 0, 0, 0)[:4]
    strings = {"ProductName": "Driftwood", "ProductVersion": version, "FileVersion": version}
    strings |= {
        "FileDescription": "Private AI on your own GPU",
        "OriginalFilename": "driftwood.exe",
    }
    table = ", ".join(f"StringStruct({name!r}, {value!r})" for name, value in strings.items())
    return (
        f"VSVersionInfo(ffi=FixedFileInfo(filevers={numbers}, prodvers={numbers}), kids=["
        f"StringFileInfo([StringTable('040904B0', [{table}])]), "
        "VarFileInfo([VarStruct('Translation', [1033, 1200])])])\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
